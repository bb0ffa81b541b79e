//! A limit with the requests that the Redis store sends to the server for it.

use anyhow::{Context as _, Result};
use sluicegate_core::for_stores::{Identity, StoreKey};
use sluicegate_core::kernel::Rule;
use sluicegate_core::{KeyPrefix, Limit, Operation, Request, Span, TimeSource};
use sluicegate_redis::{Program, Script};
use sluicegate_testkit::servers::Server;

use super::load::{Answer, Load, encode};
use super::load_script;

pub struct Subject {
    limit: Limit,
    digest: String,
    maker: Program,
    /// The program of a check.
    program: Vec<u8>,
    key: StoreKey,
    /// Text between "tenant:42:user:" and the number.
    filling: String,
}

/// The minimal script: the calls that any bucket by the server's clock makes.
const FLOOR: &str = "\
local call = redis.call
call('TIME')
call('GET', KEYS[1])
call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
";

/// The minimal denial: the calls of our script, and a reply of its kind and length.
const DENIAL_FLOOR: &str = "\
local call = redis.call
call('TIME')
call('GET', KEYS[1])
return 'tag!1790000000 123456-a state of twenty-seven byte'
";

/// The minimal change of a value: reads it, and writes it back unchanged.
const REWRITE: &str = "\
local call = redis.call
call('TIME')
local value = call('GET', KEYS[1])
if value then call('SET', KEYS[1], value, 'KEEPTTL') end
return 1
";

/// An empty script, for the cost of reading a request, finding a script and replying.
const EMPTY: &str = "return 1";

impl Subject {
    /// Makes a limit, and loads its script.
    pub fn load(server: &Server, name: &str, policies: &[&str]) -> Result<Self> {
        let limit = Limit::new(name, policies)?;
        let digest = load_script(server, Script::get().text())?;
        // The default of the store.
        let maker = Program::new(&limit, Span::from_millis(5_000)?);
        let program = maker.bytes(&limit, &Request::check(b""), |_| 0, None);
        let key = StoreKey::new(&KeyPrefix::default(), limit.name(), &TimeSource::Store);
        Ok(Self { limit, digest, maker, program, key, filling: String::new() })
    }

    /// Uses the script that only reads a subject's value and writes it back unchanged.
    pub fn rewriting(mut self, server: &Server) -> Result<Self> {
        self.digest = load_script(server, REWRITE)?;
        Ok(self)
    }

    /// Uses longer subjects, so that the whole key has `length` bytes.
    pub fn with_key_length(mut self, length: usize) -> Self {
        let missing = length.saturating_sub(self.key(0).len());
        self.filling = "x".repeat(missing);
        self
    }

    /// Returns the server's key for a subject: 30 bytes with a four-byte limit name.
    pub fn key(&self, number: usize) -> Vec<u8> {
        let mut key = Vec::new();
        self.key.write(self.subject(number).as_bytes(), &mut key);
        key
    }

    fn subject(&self, number: usize) -> String {
        format!("tenant:42:user:{}{number:05}", self.filling)
    }

    /// Returns the digest of the script.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the program of a check.
    pub fn program(&self) -> &[u8] {
        &self.program
    }

    /// Returns the identity of the only policy.
    pub fn identity(&self) -> Identity {
        self.limit.members()[0].identity()
    }

    /// Returns checks of `subjects` subjects.
    pub fn load_of(&self, subjects: usize, answer: Answer) -> Load {
        let command = |number: usize| {
            let key = self.key(number);
            let mut own = Vec::new();
            for member in self.limit.members() {
                // A log that isn't a ring of slices has a key of its own.
                if matches!(member.policy().rule(), Rule::Log(log) if !log.is_ring()) {
                    let mut key = Vec::new();
                    self.key.write_own(self.subject(number).as_bytes(), member, &mut key);
                    own.push(key);
                }
            }
            let count = (1 + own.len()).to_string();
            let mut words: Vec<&[u8]> =
                vec![b"EVALSHA", self.digest.as_bytes(), count.as_bytes(), &key];
            words.extend(own.iter().map(Vec::as_slice));
            words.push(&self.program);
            encode(&words)
        };
        let first = if subjects == 1 { 7 } else { 0 };
        Load::new((first..first + subjects).map(command).collect(), answer)
    }

    /// Encodes a request of one subject with a hold or an id, under a limit that keeps all states in
    /// one key.
    pub fn command_of(&self, number: usize, request: &Request<'_>) -> Vec<u8> {
        let program = self.maker.bytes(&self.limit, request, |_| 0, None);
        let subject = self.subject(number);
        let subject = subject.as_bytes();
        let mut keys = vec![self.key(number)];
        let mut add = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut key = Vec::new();
            write(&mut key);
            keys.push(key);
        };
        if let Some(once) = request.idempotency() {
            add(&|key| self.key.write_request(subject, once.id, key));
            add(&|key| self.key.write_ids(subject, key));
        }
        let held = match request.operation() {
            Operation::Settle { id, .. } => Some(id),
            _ => request.holds().map(|hold| hold.id),
        };
        if let Some(id) = held {
            add(&|key| self.key.write_hold(subject, id, key));
            if self.limit.has_permits() {
                add(&|key| self.key.write_holds(subject, key));
            }
        }
        let count = keys.len().to_string();
        let mut words: Vec<&[u8]> = vec![b"EVALSHA", self.digest.as_bytes(), count.as_bytes()];
        words.extend(keys.iter().map(Vec::as_slice));
        words.push(&program);
        encode(&words)
    }

    /// Returns minimal checks of that many subjects.
    pub fn floor(&self, server: &Server, subjects: usize) -> Result<Load> {
        let digest = load_script(server, FLOOR)?;
        let value = self.stored_value(server)?;
        let command = |number: usize| {
            encode(&[b"EVALSHA", digest.as_bytes(), b"1", &self.key(number), &value, b"6000000"])
        };
        Ok(Load::new((0..subjects).map(command).collect(), Answer::Allowed))
    }

    /// Returns minimal denials of that many subjects.
    pub fn denial_floor(&self, server: &Server, subjects: usize) -> Result<Load> {
        let digest = load_script(server, DENIAL_FLOOR)?;
        let command =
            |number: usize| encode(&[b"EVALSHA", digest.as_bytes(), b"1", &self.key(number)]);
        Ok(Load::new((0..subjects).map(command).collect(), Answer::Denied))
    }

    /// Returns calls of a script that does nothing, with as many bytes as a check.
    pub fn empty(&self, server: &Server, subjects: usize) -> Result<Load> {
        let digest = load_script(server, EMPTY)?;
        let command = |number: usize| {
            encode(&[b"EVALSHA", digest.as_bytes(), b"1", &self.key(number), &self.program])
        };
        Ok(Load::new((0..subjects).map(command).collect(), Answer::Allowed))
    }

    /// Returns the value that the script stores for a fresh key.
    fn stored_value(&self, server: &Server) -> Result<Vec<u8>> {
        let key = self.key(99_999);
        let words: [&[u8]; 5] = [b"EVALSHA", self.digest.as_bytes(), b"1", &key, &self.program];
        server.command(&words)?;
        match server.command(&[b"GET", &key])? {
            sluicegate_testkit::servers::Reply::Bytes(states) => Some(states),
            _ => None,
        }
        .context("a fresh key should be admitted")
    }
}
