//! Settings, in three keys of one slot: the values, their ends, and the log of their changes.
//!
//! A script changes them (`lua/settings.lua`). Ordinary commands read them. The place of a change is its id in the log,
//! which the server makes of its clock. So after the loss of some changes, as in a failover, no later change has the
//! place of a lost one.

use std::time::Duration;

use bytes::Bytes;
use sluicegate_core::for_stores::{
    Changed, Driver, Keeping, Mark, NewSettings, News, Setting, SettingChange, SettingValue,
    Settings,
};
use sluicegate_core::{
    BoxFuture, Error, RequestError, RequestErrorKind, Span, Timestamp, printable,
};

use crate::link::Deadline;
use crate::resp::{Command, Value};
use crate::store::{NAME, RedisStore};
use crate::unexpected::unexpected;

const SCRIPT: &[u8] = include_bytes!("lua/settings.lua");

/// The maximum number of changes, and of settings, that one command reads.
const TOGETHER: usize = 1_000;

/// The time that a command has at least: no decision waits for it, and an operator prefers an answer to an error.
const LEAST_TIME: Duration = Duration::from_millis(500);

/// The place before the first change.
const BEGINNING: &str = "0-0";

/// The keys of a store's settings.
struct Keys {
    settings: Vec<u8>,
    ends: Vec<u8>,
    log: Vec<u8>,
}

impl Keys {
    fn of(store: &RedisStore) -> Self {
        let settings = format!("{}:{{settings}}", store.prefix().as_str());
        let [ends, log] = ["ends", "log"].map(|what| format!("{settings}:{what}").into_bytes());
        Self { settings: settings.into_bytes(), ends, log }
    }
}

impl RedisStore {
    async fn change_setting(&self, change: SettingChange<'_>) -> Result<Option<Changed>, Error> {
        change.validate()?;
        Driver::check_request(NAME)?;
        let keys = Keys::of(self);
        let mut command =
            Command::of(&[b"EVAL", SCRIPT, b"3", &keys.settings, &keys.ends, &keys.log]);
        command.word(change.name).number(change.value.is_some().into());
        command.word(change.value.unwrap_or_default());
        command.number(change.lasts.map_or(0, Span::as_micros)).word(change.remark);
        for bound in [SettingChange::MOST, SettingChange::LOGGED] {
            command.number(u64::try_from(bound).unwrap_or(u64::MAX));
        }
        let [place, at, stored, before] = match self.ask_settings(&keys, command).await? {
            Value::Nil => return Ok(None),
            Value::Bytes(full) if *full == b"full"[..] => {
                return Err(SettingChange::too_many().into());
            }
            Value::Array(reply) => <[Value; 4]>::try_from(reply).map_err(|_| unexpected("EVAL"))?,
            _ => return Err(unexpected("EVAL").into()),
        };
        let read = || {
            Some(Changed {
                mark: Mark::new(text(&place)?),
                at: micros(text(&at)?)?,
                setting: Setting {
                    name: change.name.to_vec(),
                    value: stored_value(bytes(&stored)?)?,
                },
                before: stored_value(bytes(&before)?)?,
                remark: change.remark.to_vec(),
            })
        };
        Ok(Some(read().ok_or_else(|| unexpected("EVAL"))?))
    }

    async fn setting_news(&self, since: &Mark) -> Result<News, Error> {
        Driver::check_request(NAME)?;
        let keys = Keys::of(self);
        if let Some(known) = since.place().filter(|place| *place != BEGINNING) {
            let mut mark = known.to_owned();
            let mut settings = Vec::new();
            while let Some(changes) = self.logged_after(&keys, &mark).await? {
                let is_last = changes.len() < TOGETHER;
                if let Some((last, _)) = changes.last() {
                    last.place().unwrap_or_default().clone_into(&mut mark);
                }
                let readable = changes.into_iter().filter_map(|(_, changed)| changed);
                settings.extend(readable.map(|changed| changed.setting));
                if is_last {
                    let now = self.settings_time(&keys).await?;
                    let settings = NewSettings::Changed(settings);
                    return Ok(News { mark: Mark::new(&mark), now, settings });
                }
            }
        }
        // Read the place first: a change after it is read again, which does no harm.
        let last = self.range(&keys, b"XREVRANGE", [b"+", b"-"], 1).await?.pop();
        let mark = last.map_or_else(|| Mark::new(BEGINNING), |(mark, _)| mark);
        let now = self.settings_time(&keys).await?;
        let settings = NewSettings::All(self.all_settings(&keys).await?);
        Ok(News { mark, now, settings })
    }

    /// Returns the changes after a place in the log; `None` if the log has no such place any more.
    async fn logged_after(&self, keys: &Keys, place: &str) -> Result<Option<Vec<Logged>>, Error> {
        let bounds = [place.as_bytes(), b"+"];
        let mut changes = self.range(keys, b"XRANGE", bounds, TOGETHER + 1).await?;
        if changes.first().and_then(|(mark, _)| mark.place()) != Some(place) {
            return Ok(None);
        }
        changes.remove(0);
        Ok(Some(changes))
    }

    async fn setting_log(
        &self,
        before: Option<&Mark>,
        count: usize,
    ) -> Result<Vec<Changed>, Error> {
        Driver::check_request(NAME)?;
        let keys = Keys::of(self);
        let from = before.and_then(Mark::place).unwrap_or("+");
        if before.is_some() && !is_place(from) {
            let message =
                format!("`{}` is not a place of the log: use one that it listed", printable(from));
            return Err(RequestError::new(RequestErrorKind::Invalid, message).into());
        }
        let changes = self.range(&keys, b"XREVRANGE", [from.as_bytes(), b"-"], count + 1).await?;
        let changes = changes.into_iter().filter(|(mark, _)| Some(mark) != before);
        Ok(changes.filter_map(|(_, changed)| changed).take(count).collect())
    }

    /// Reads a part of the log.
    async fn range(
        &self,
        keys: &Keys,
        name: &[u8],
        [from, to]: [&[u8]; 2],
        count: usize,
    ) -> Result<Vec<Logged>, Error> {
        let mut command = Command::of(&[name, &keys.log, from, to, b"COUNT"]);
        command.number(u64::try_from(count).unwrap_or(u64::MAX));
        let reply = self.ask_settings(keys, command).await?;
        let Value::Array(changes) = reply else { return Err(unexpected("XRANGE").into()) };
        let changes: Option<Vec<Logged>> = changes.into_iter().map(logged).collect();
        Ok(changes.ok_or_else(|| unexpected("XRANGE"))?)
    }

    async fn all_settings(&self, keys: &Keys) -> Result<Vec<Setting>, Error> {
        let count = TOGETHER.to_string();
        let mut cursor = Bytes::from_static(b"0");
        let mut settings = Vec::new();
        loop {
            let scan =
                Command::of(&[b"HSCAN", &keys.settings, &cursor, b"COUNT", count.as_bytes()]);
            let Value::Array(reply) = self.ask_settings(keys, scan).await? else {
                return Err(unexpected("HSCAN").into());
            };
            let Ok([Value::Bytes(next), Value::Array(found)]) = <[Value; 2]>::try_from(reply)
            else {
                return Err(unexpected("HSCAN").into());
            };
            // Values of other programs, or of a later version, mean nothing to this one.
            settings.extend(found.chunks_exact(2).filter_map(pair));
            if *next == b"0"[..] {
                return Ok(settings);
            }
            cursor = next;
        }
    }

    async fn settings_time(&self, keys: &Keys) -> Result<Timestamp, Error> {
        let reply = self.ask_settings(keys, Command::of(&[b"TIME"])).await?;
        let Value::Array(reply) = reply else { return Err(unexpected("TIME").into()) };
        let number = |index: usize| text(reply.get(index)?)?.parse::<u64>().ok();
        let micros = || number(0)?.checked_mul(1_000_000)?.checked_add(number(1)?);
        let micros = micros().ok_or_else(|| unexpected("TIME"))?;
        Ok(Timestamp::from_micros_clamped(micros))
    }

    async fn ask_settings(&self, keys: &Keys, command: Command) -> Result<Value, Error> {
        let deadline = self.connecting(Deadline::after(self.patience().max(LEAST_TIME)), Span::MAX);
        self.send_about(&keys.settings, command, deadline).await
    }
}

/// The place of an entry of the log, and its change; `None` for an entry of another program, or of a later version.
type Logged = (Mark, Option<Changed>);

/// Reads an entry of the log.
fn logged(entry: Value) -> Option<Logged> {
    let Value::Array(entry) = entry else { return None };
    let [place, Value::Array(fields)] = <[Value; 2]>::try_from(entry).ok()? else { return None };
    let mark = Mark::new(text(&place)?);
    let changed = changed(&mark, &fields);
    Some((mark, changed))
}

/// Reads the change of an entry.
fn changed(mark: &Mark, fields: &[Value]) -> Option<Changed> {
    let field = |name: &[u8]| {
        let mut pairs = fields.chunks_exact(2);
        bytes(pairs.find(|pair| bytes(&pair[0]).is_some_and(|field| field == name))?.get(1)?)
    };
    Some(Changed {
        mark: mark.clone(),
        at: micros(std::str::from_utf8(field(b"at")?).ok()?)?,
        setting: Setting { name: field(b"name")?.to_vec(), value: stored_value(field(b"value")?)? },
        before: stored_value(field(b"before")?)?,
        remark: field(b"remark")?.to_vec(),
    })
}

/// Reads a setting of the hash: its name and its value.
fn pair(pair: &[Value]) -> Option<Setting> {
    let [name, value] = pair else { return None };
    Some(Setting { name: bytes(name)?.to_vec(), value: Some(stored_value(bytes(value)?)??) })
}

/// Reads a stored value, after its times. The outer `None` stands for one that is malformed.
#[expect(clippy::option_option, reason = "the caller tells a missing value from a malformed one")]
fn stored_value(stored: &[u8]) -> Option<Option<SettingValue>> {
    if stored.is_empty() {
        return Some(None);
    }
    let mut parts = stored.splitn(3, |byte| *byte == b' ');
    let mut time = || micros(std::str::from_utf8(parts.next()?).ok()?);
    let (since, ends) = (time()?, time()?);
    let ends = Some(ends).filter(|ends| *ends != Timestamp::EPOCH);
    Some(Some(SettingValue { content: parts.next()?.to_vec(), since, ends }))
}

/// Returns whether a text is an id of a stream: two numbers.
fn is_place(text: &str) -> bool {
    let is_number = |text: &str| text.parse::<u64>().is_ok();
    text.split_once('-').is_some_and(|(millis, number)| is_number(millis) && is_number(number))
}

fn micros(digits: &str) -> Option<Timestamp> {
    Timestamp::from_micros(digits.parse().ok()?).ok()
}

fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::Bytes(bytes) | Value::Status(bytes) => Some(bytes),
        _ => None,
    }
}

fn text(value: &Value) -> Option<&str> {
    std::str::from_utf8(bytes(value)?).ok()
}

impl Settings for RedisStore {
    fn keeping(&self) -> Keeping {
        Keeping::Durably
    }

    fn change<'a>(
        &'a self,
        change: SettingChange<'a>,
    ) -> BoxFuture<'a, Result<Option<Changed>, Error>> {
        Box::pin(self.change_setting(change))
    }

    fn news<'a>(&'a self, since: &'a Mark) -> BoxFuture<'a, Result<News, Error>> {
        Box::pin(self.setting_news(since))
    }

    fn log<'a>(
        &'a self,
        before: Option<&'a Mark>,
        count: usize,
    ) -> BoxFuture<'a, Result<Vec<Changed>, Error>> {
        Box::pin(self.setting_log(before, count))
    }
}
