//! Scripts in an embedded Lua 5.1, over a map that behaves like a Redis server.
//!
//! The test drives the server's clock. So it can run thousands of schedules per second, with keys
//! that expire in virtual time.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::rc::Rc;

use mlua::{Function, HookTriggers, Lua, LuaString, MultiValue, Table, Value, VmState};

/// The answer of a script.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// An array.
    Array(Vec<Self>),
    /// A string.
    Bulk(Vec<u8>),
    /// A whole number.
    Int(i64),
    /// Nothing.
    Nil,
}

/// A key's value and expiry time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StoredValue {
    /// The value.
    pub value: Vec<u8>,
    /// The last ms in which the key exists; `None` if it never expires.
    pub expires_ms: Option<u64>,
}

/// A sorted set whose members all have equal scores, and its expiry time.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SortedSet {
    /// The members, in order.
    pub members: BTreeSet<Vec<u8>>,
    /// The last ms in which the key exists; `None` if it never expires.
    pub expires_ms: Option<u64>,
}

#[derive(Debug, Default)]
struct Keyspace {
    now_us: u64,
    keys: HashMap<Vec<u8>, StoredValue>,
    sets: HashMap<Vec<u8>, SortedSet>,
    calls: usize,
    read: usize,
}

/// An interpreter with a keyspace.
#[derive(Debug)]
pub struct Interpreter(Rc<Machine>);

thread_local! {
    /// The machines of this thread. Thousands of interpreters follow each other in a test, and compiling the scripts
    /// would take most of its time.
    static MACHINES: RefCell<Vec<Rc<Machine>>> = const { RefCell::new(Vec::new()) };
}

#[derive(Debug)]
struct Machine {
    lua: Lua,
    keyspace: Rc<RefCell<Keyspace>>,
    /// The compiled scripts. A list, because they are few and too long to hash at each call.
    scripts: RefCell<Vec<(String, Function)>>,
    instructions: Rc<Cell<u64>>,
}

impl Machine {
    fn new() -> mlua::Result<Self> {
        let lua = Lua::new();
        let keyspace = Rc::new(RefCell::new(Keyspace::default()));
        let redis = lua.create_table()?;
        let shared = Rc::clone(&keyspace);
        let call = lua
            .create_function(move |lua, arguments: MultiValue| command(lua, &shared, arguments))?;
        redis.set("call", &call)?;
        redis.set("pcall", call)?;
        lua.globals().set("redis", redis)?;
        let structs = lua.create_table()?;
        structs.set("pack", lua.create_function(pack)?)?;
        structs.set("unpack", lua.create_function(unpack)?)?;
        lua.globals().set("struct", structs)?;
        let instructions = Rc::default();
        Ok(Self { lua, keyspace, scripts: RefCell::default(), instructions })
    }

    /// Returns the script, compiled at its first run.
    fn function(&self, script: &str) -> mlua::Result<Function> {
        let mut scripts = self.scripts.borrow_mut();
        if let Some((_, function)) = scripts.iter().find(|(text, _)| text == script) {
            return Ok(function.clone());
        }
        let function = self.lua.load(script).into_function()?;
        scripts.push((script.to_owned(), function.clone()));
        Ok(function)
    }
}

impl Interpreter {
    /// Creates an interpreter without keys, with its clock at the epoch.
    ///
    /// # Errors
    /// Returns an error if Lua can't be set up.
    pub fn new() -> mlua::Result<Self> {
        MACHINES.with_borrow_mut(|machines| {
            if let Some(idle) = machines.iter().find(|machine| Rc::strong_count(machine) == 1) {
                idle.keyspace.replace(Keyspace::default());
                idle.lua.remove_hook();
                return Ok(Self(Rc::clone(idle)));
            }
            let machine = Rc::new(Machine::new()?);
            machines.push(Rc::clone(&machine));
            Ok(Self(machine))
        })
    }

    /// Sets the server's clock, in µs since the epoch.
    pub fn set_now(&self, now_us: u64) {
        self.0.keyspace.borrow_mut().now_us = now_us;
    }

    /// Deletes the expired keys.
    pub fn expire(&self) {
        let mut keyspace = self.0.keyspace.borrow_mut();
        let now_ms = keyspace.now_us / 1_000;
        let stays = |expires: Option<u64>| expires.is_none_or(|expires| now_ms <= expires);
        keyspace.keys.retain(|_, stored| stays(stored.expires_ms));
        keyspace.sets.retain(|_, set| stays(set.expires_ms));
    }

    /// Deletes a key, as an eviction would.
    pub fn delete(&self, key: &[u8]) {
        let mut keyspace = self.0.keyspace.borrow_mut();
        keyspace.keys.remove(key);
        keyspace.sets.remove(key);
    }

    /// Stores a value.
    pub fn put(&self, key: &[u8], value: &[u8]) {
        self.0
            .keyspace
            .borrow_mut()
            .keys
            .insert(key.to_vec(), StoredValue { value: value.to_vec(), expires_ms: None });
    }

    /// Stores a sorted set.
    pub fn put_set(&self, key: &[u8], set: SortedSet) {
        self.0.keyspace.borrow_mut().sets.insert(key.to_vec(), set);
    }

    /// Returns all stored sorted sets.
    #[must_use]
    pub fn sets(&self) -> HashMap<Vec<u8>, SortedSet> {
        self.0.keyspace.borrow().sets.clone()
    }

    /// Returns all stored values.
    #[must_use]
    pub fn keys(&self) -> HashMap<Vec<u8>, StoredValue> {
        self.0.keyspace.borrow().keys.clone()
    }

    /// Replaces all stored values.
    pub fn set_keys(&self, keys: HashMap<Vec<u8>, StoredValue>) {
        self.0.keyspace.borrow_mut().keys = keys;
    }

    /// Returns the number of commands that scripts have called so far.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.0.keyspace.borrow().calls
    }

    /// Returns the bytes of values that commands have returned to scripts so far.
    #[must_use]
    pub fn read(&self) -> usize {
        self.0.keyspace.borrow().read
    }

    /// Counts the instructions of scripts from now on. This makes them slow.
    ///
    /// # Errors
    /// Returns an error if Lua can't count.
    pub fn count_instructions(&self) -> mlua::Result<()> {
        self.0.instructions.set(0);
        let instructions = Rc::clone(&self.0.instructions);
        self.0.lua.set_hook(HookTriggers::new().every_nth_instruction(1), move |_, _| {
            instructions.set(instructions.get() + 1);
            Ok(VmState::Continue)
        })
    }

    /// Returns the instructions since [`count_instructions`](Self::count_instructions), and ends
    /// the count.
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.0.lua.remove_hook();
        self.0.instructions.get()
    }

    /// Runs a script.
    ///
    /// # Errors
    /// Returns an error if the script fails.
    pub fn eval(
        &mut self,
        script: &str,
        keys: &[Vec<u8>],
        arguments: &[Vec<u8>],
    ) -> mlua::Result<Reply> {
        let list = |items: &[Vec<u8>]| -> mlua::Result<Table> {
            let table = self.0.lua.create_table()?;
            for item in items {
                table.push(self.0.lua.create_string(item)?)?;
            }
            Ok(table)
        };
        self.0.lua.globals().set("KEYS", list(keys)?)?;
        self.0.lua.globals().set("ARGV", list(arguments)?)?;
        to_reply(&self.0.function(script)?.call(())?)
    }
}

/// Checks that a text is Lua, without running it.
///
/// # Errors
/// Returns the parser's error if the text isn't valid Lua.
pub fn check_syntax(text: &str) -> mlua::Result<()> {
    Lua::new().load(text).into_function().map(|_| ())
}

#[expect(clippy::cast_possible_truncation, reason = "Redis truncates numbers in replies too")]
fn to_reply(value: &Value) -> mlua::Result<Reply> {
    Ok(match value {
        Value::Integer(number) => Reply::Int(*number),
        Value::Number(number) => Reply::Int(*number as i64),
        Value::String(text) => Reply::Bulk(text.as_bytes().to_vec()),
        Value::Table(table) => {
            let items: Vec<Value> = table.sequence_values().collect::<Result<_, _>>()?;
            // A `false` in the middle is nil on the wire; `sequence_values` keeps it.
            Reply::Array(items.iter().map(to_reply).collect::<Result<_, _>>()?)
        }
        _ => Reply::Nil,
    })
}

/// Runs a command that the scripts use, with Redis' answer.
fn command(lua: &Lua, keyspace: &RefCell<Keyspace>, arguments: MultiValue) -> mlua::Result<Value> {
    let mut keyspace = keyspace.borrow_mut();
    keyspace.calls += 1;
    let now_ms = keyspace.now_us / 1_000;
    let arguments: Vec<Vec<u8>> = arguments.into_iter().map(to_bytes).collect::<Result<_, _>>()?;
    let number = |index: usize| -> mlua::Result<usize> {
        std::str::from_utf8(&arguments[index])
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| mlua::Error::runtime("ERR value is not an integer or out of range"))
    };
    let name = String::from_utf8_lossy(&arguments[0]).into_owned();
    match (name.as_str(), arguments.len()) {
        ("TIME", 1) => {
            let time = lua.create_table()?;
            time.push((keyspace.now_us / 1_000_000).to_string())?;
            time.push((keyspace.now_us % 1_000_000).to_string())?;
            Ok(Value::Table(time))
        }
        ("GET", 2) => {
            let Keyspace { keys, read, .. } = &mut *keyspace;
            let Some(stored) = keys.get(&arguments[1]) else { return Ok(Value::Boolean(false)) };
            *read += stored.value.len();
            Ok(Value::String(lua.create_string(&stored.value)?))
        }
        ("SET", 6) if arguments[5] == b"NX" && keyspace.keys.contains_key(&arguments[1]) => {
            Ok(Value::Boolean(false))
        }
        ("SET", 5 | 6) if arguments[3] == b"PX" => {
            let life = number(4)? as u64;
            if life == 0 {
                return Err(mlua::Error::runtime("ERR invalid expire time in 'set' command"));
            }
            let stored =
                StoredValue { value: arguments[2].clone(), expires_ms: Some(now_ms + life) };
            keyspace.keys.insert(arguments[1].clone(), stored);
            done(lua)
        }
        ("SET", 4) if arguments[3] == b"KEEPTTL" => {
            let expires_ms = keyspace.keys.get(&arguments[1]).and_then(|it| it.expires_ms);
            let stored = StoredValue { value: arguments[2].clone(), expires_ms };
            keyspace.keys.insert(arguments[1].clone(), stored);
            done(lua)
        }
        ("STRLEN", 2) => {
            let length = keyspace.keys.get(&arguments[1]).map_or(0, |stored| stored.value.len());
            Ok(Value::Number(length as f64))
        }
        ("GETRANGE", 4) => {
            let Keyspace { keys, read, .. } = &mut *keyspace;
            let value =
                keys.get(&arguments[1]).map(|stored| stored.value.as_slice()).unwrap_or_default();
            let (from, to) = (number(2)?, number(3)?);
            let part = value.get(from..(to + 1).min(value.len()).max(from)).unwrap_or_default();
            *read += part.len();
            Ok(Value::String(lua.create_string(part)?))
        }
        ("SETRANGE", 4) => {
            let from = number(2)?;
            let key = arguments[1].clone();
            let stored = keyspace
                .keys
                .entry(key)
                .or_insert_with(|| StoredValue { value: Vec::new(), expires_ms: None });
            let end = from + arguments[3].len();
            if stored.value.len() < end {
                stored.value.resize(end, 0);
            }
            stored.value[from..end].copy_from_slice(&arguments[3]);
            Ok(Value::Number(stored.value.len() as f64))
        }
        ("PEXPIRE", 3) => {
            let life = number(2)? as u64;
            if let Some(stored) = keyspace.keys.get_mut(&arguments[1]) {
                stored.expires_ms = Some(now_ms + life);
            }
            if let Some(set) = keyspace.sets.get_mut(&arguments[1]) {
                set.expires_ms = Some(now_ms + life);
            }
            Ok(Value::Number(1.0))
        }
        ("DEL", 2) => {
            let gone = keyspace.keys.remove(&arguments[1]).is_some()
                | keyspace.sets.remove(&arguments[1]).is_some();
            Ok(Value::Number(f64::from(u8::from(gone))))
        }
        ("PTTL", 2) => {
            let expires = keyspace.sets.get(&arguments[1]).and_then(|set| set.expires_ms);
            let left = expires.map_or(-1.0, |expires| expires.saturating_sub(now_ms) as f64);
            Ok(Value::Number(left))
        }
        ("ZADD", _) => {
            let set = keyspace.sets.entry(arguments[1].clone()).or_default();
            set.members.extend(arguments[2..].chunks(2).map(|pair| pair[1].clone()));
            Ok(Value::Number(1.0))
        }
        ("ZREM", _) => {
            let Some(set) = keyspace.sets.get_mut(&arguments[1]) else {
                return Ok(Value::Number(0.0));
            };
            let gone = arguments[2..].iter().filter(|member| set.members.remove(*member)).count();
            if set.members.is_empty() {
                keyspace.sets.remove(&arguments[1]);
            }
            Ok(Value::Number(gone as f64))
        }
        ("PUBLISH", 3) => Ok(Value::Number(0.0)),
        ("ZLEXCOUNT", 4) => {
            let range = (bound(&arguments[2])?, bound(&arguments[3])?);
            let set = keyspace.sets.get(&arguments[1]);
            let count = set.map_or(0, |set| set.members.range(range).count());
            Ok(Value::Number(count as f64))
        }
        ("ZRANGEBYLEX" | "ZREVRANGEBYLEX", 4 | 7) => {
            let is_limited = arguments.len() == 7;
            let skipped = if is_limited { number(5)? } else { 0 };
            let most = if is_limited { number(6)? } else { usize::MAX };
            let is_reverse = name == "ZREVRANGEBYLEX";
            let [least, greatest] = if is_reverse { [3, 2] } else { [2, 3] };
            let range = (bound(&arguments[least])?, bound(&arguments[greatest])?);
            let mut found: Vec<&Vec<u8>> = match keyspace.sets.get(&arguments[1]) {
                Some(set) => set.members.range(range).collect(),
                None => Vec::new(),
            };
            if is_reverse {
                found.reverse();
            }
            let strings = found.into_iter().skip(skipped).take(most);
            let strings = strings.map(|member| lua.create_string(member));
            Ok(Value::Table(lua.create_sequence_from(strings.collect::<mlua::Result<Vec<_>>>()?)?))
        }
        _ => Err(mlua::Error::runtime(format!("ERR unknown command or wrong arguments: {name}"))),
    }
}

/// Returns the status `OK`.
fn done(lua: &Lua) -> mlua::Result<Value> {
    let done = lua.create_table()?;
    done.set("ok", "OK")?;
    Ok(Value::Table(done))
}

/// Parses an end of a range of members.
fn bound(text: &[u8]) -> mlua::Result<Bound<Vec<u8>>> {
    match text.split_first() {
        Some((b'-' | b'+', [])) => Ok(Bound::Unbounded),
        Some((b'[', member)) => Ok(Bound::Included(member.to_vec())),
        Some((b'(', member)) => Ok(Bound::Excluded(member.to_vec())),
        _ => Err(mlua::Error::runtime("ERR min or max not valid string range item")),
    }
}

fn to_bytes(value: Value) -> mlua::Result<Vec<u8>> {
    match value {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        // Redis writes whole numbers as digits.
        Value::Number(number) if number.fract() == 0.0 => Ok(format!("{number:.0}").into_bytes()),
        Value::Integer(number) => Ok(number.to_string().into_bytes()),
        other => Err(mlua::Error::runtime(format!("ERR a command argument is {other:?}"))),
    }
}

/// One item of a format of Redis' `struct` library: `B`, `I<n>` or `c<n>`, big-endian. `c0` is a
/// whole text, which can only be packed.
enum Item {
    Bytes(usize),
    Number(usize),
}

fn items(format: &str) -> mlua::Result<Vec<Item>> {
    let mut rest = format
        .strip_prefix('>')
        .ok_or_else(|| mlua::Error::runtime("the format does not begin with >"))?
        .chars()
        .peekable();
    let mut items = Vec::new();
    while let Some(letter) = rest.next() {
        let mut size = String::new();
        while let Some(digit) = rest.next_if(char::is_ascii_digit) {
            size.push(digit);
        }
        let size = size.parse().unwrap_or(1);
        items.push(match letter {
            'B' => Item::Number(1),
            'I' => Item::Number(size),
            'c' => Item::Bytes(size),
            other => {
                return Err(mlua::Error::runtime(format!(
                    "the format item {other} is not supported"
                )));
            }
        });
    }
    Ok(items)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be whole, not negative and below 2^56"
)]
fn pack(lua: &Lua, mut arguments: MultiValue) -> mlua::Result<Value> {
    let format: LuaString = pop(lua, &mut arguments)?;
    let mut packed = Vec::new();
    for item in items(&format.to_str()?)? {
        match item {
            Item::Bytes(size) => {
                let text: LuaString = pop(lua, &mut arguments)?;
                let size = if size == 0 { text.as_bytes().len() } else { size };
                packed.extend_from_slice(
                    text.as_bytes()
                        .get(..size)
                        .ok_or_else(|| mlua::Error::runtime("string too short"))?,
                );
            }
            Item::Number(size) => {
                let number: f64 = pop(lua, &mut arguments)?;
                // Redis would store something; here it is a defect of the script.
                let most = 2f64.powi(8 * i32::try_from(size).unwrap_or(0));
                if number.fract() != 0.0 || !(0.0..most).contains(&number) {
                    return Err(mlua::Error::runtime(format!(
                        "{number} does not fit into {size} bytes"
                    )));
                }
                packed.extend_from_slice(&(number as u64).to_be_bytes()[8 - size..]);
            }
        }
    }
    Ok(Value::String(lua.create_string(packed)?))
}

#[expect(clippy::cast_precision_loss, reason = "Lua numbers are doubles; the scripts keep to 2^53")]
fn unpack(lua: &Lua, mut arguments: MultiValue) -> mlua::Result<MultiValue> {
    let format: LuaString = pop(lua, &mut arguments)?;
    let text: LuaString = pop(lua, &mut arguments)?;
    let text = text.as_bytes();
    let mut at = match arguments.pop_front() {
        Some(Value::Number(position)) if position >= 1.0 => to_index(position),
        Some(Value::Integer(position)) => usize::try_from(position).unwrap_or(1) - 1,
        _ => 0,
    };
    let mut values = MultiValue::new();
    for item in items(&format.to_str()?)? {
        let size = match item {
            Item::Bytes(size) | Item::Number(size) => size,
        };
        let part =
            text.get(at..at + size).ok_or_else(|| mlua::Error::runtime("data string too short"))?;
        at += size;
        values.push_back(match item {
            Item::Bytes(_) => Value::String(lua.create_string(part)?),
            Item::Number(_) => Value::Number(
                part.iter().fold(0_u64, |number, &byte| number << 8 | u64::from(byte)) as f64,
            ),
        });
    }
    values.push_back(Value::Number((at + 1) as f64));
    Ok(values)
}

fn pop<T: mlua::FromLua>(lua: &Lua, arguments: &mut MultiValue) -> mlua::Result<T> {
    T::from_lua(arguments.pop_front().unwrap_or(Value::Nil), lua)
}

/// Converts a position in Lua, from 1, to an index.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a position in a short string, at least 1"
)]
fn to_index(position: f64) -> usize {
    position as usize - 1
}
