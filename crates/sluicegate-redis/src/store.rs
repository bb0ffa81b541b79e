//! The store: limits made ready, requests sent, answers read.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};
use sluicegate_core::kernel::{Rule, Times, log};
use sluicegate_core::{
    Decision, KeyPrefix, Limit, Operation, Request, SliceCounts, Span, Standing, Store, StoreError,
    StoreErrorKind, StoreKey, TimeSource, Timestamp, check_request, check_subjects, evaluate,
};
use smallvec::SmallVec;

use crate::link::{Deadline, Failure, Link, UrlError};
use crate::program::{Program, log_kind};
use crate::receipt::Receipt;
use crate::reply::{Answer, read_answer, read_slices};
use crate::script::Script;

/// A Redis or Valkey server as a store. Cheap to clone; clones share one connection.
#[derive(Clone, Debug)]
pub struct RedisStore {
    link: Link,
    prefix: KeyPrefix,
    deadline: Duration,
    max_clock_back: Span,
}

/// How a [`RedisStore`] is to work.
#[derive(Clone, Debug)]
pub struct RedisStoreBuilder {
    store: RedisStore,
}

impl RedisStoreBuilder {
    /// What all keys begin with; `sg` by default.
    #[must_use]
    pub fn prefix(mut self, prefix: KeyPrefix) -> Self {
        self.store.prefix = prefix;
        self
    }

    /// How long a decision may take before it fails; 50 ms by default.
    #[must_use]
    pub const fn deadline(mut self, deadline: Duration) -> Self {
        self.store.deadline = deadline;
        self
    }

    /// How far ahead of the server's clock a state may be stamped before it is restamped to now;
    /// 5 s by default. It bounds how long keys stand still after a failover to a server whose
    /// clock is behind.
    #[must_use]
    pub const fn max_clock_back(mut self, span: Span) -> Self {
        self.store.max_clock_back = span;
        self
    }

    /// The store. It connects when it is first used, inside a Tokio runtime.
    #[must_use]
    pub fn build(self) -> RedisStore {
        self.store
    }
}

/// A limit made ready for a [`RedisStore`].
pub struct RedisHandle {
    limit: Arc<Limit>,
    script: Arc<Script>,
    program: Program,
    /// One for each part of the limit.
    keys: Box<[StoreKey]>,
    time: TimeSource,
    /// The policies whose states have a key of their own.
    own_keys: Vec<usize>,
}

impl RedisHandle {
    /// The time that a request brings, in µs, if it is to bring one.
    fn time_of(&self, request: &Request<'_>) -> Result<Option<u64>, StoreError> {
        match (&self.time, request.at) {
            (TimeSource::Injected { .. }, Some(at)) => Ok(Some(at.as_micros())),
            (TimeSource::Store, None) => Ok(None),
            (TimeSource::Injected { .. }, None) => Err(StoreError::new(
                StoreErrorKind::InvalidRequest,
                "the request has no time, but its limit was opened for injected time",
            )),
            _ => Err(StoreError::new(
                StoreErrorKind::InvalidRequest,
                "the request has a time, but its limit was opened for the store's clock",
            )),
        }
    }

    /// The key of the packed states of one part.
    fn key(&self, request: &Request<'_>, part: usize) -> Vec<u8> {
        let mut key = Vec::with_capacity(64);
        self.keys[part].write(request.subject(part), &mut key);
        key
    }

    /// All keys, in the order that the script wants.
    fn write_keys(&self, request: &Request<'_>, command: &mut Cmd) {
        let mut key = Vec::with_capacity(64);
        for (part, name) in self.keys.iter().enumerate() {
            key.clear();
            name.write(request.subject(part), &mut key);
            command.arg(&key);
        }
        for &index in &self.own_keys {
            let member = &self.limit.members()[index];
            key.clear();
            self.keys[member.part()].write_own(request.subject(member.part()), member, &mut key);
            command.arg(&key);
        }
    }
}

impl fmt::Debug for RedisHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisHandle")
            .field("limit", self.limit.name())
            .field("time", &self.time)
            .finish_non_exhaustive()
    }
}

impl RedisStore {
    /// A store at `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, or `valkey://…`.
    ///
    /// # Errors
    /// For a URL of another scheme or a malformed one; the message says what to write and never
    /// repeats a password.
    pub fn builder(url: &str) -> Result<RedisStoreBuilder, UrlError> {
        let store = Self {
            link: Link::new(url)?,
            prefix: KeyPrefix::default(),
            deadline: Duration::from_millis(50),
            max_clock_back: Span::from_millis(5_000).unwrap_or(Span::MAX),
        };
        Ok(RedisStoreBuilder { store })
    }

    /// Whether the server can decide, which takes more than an answer: a replica, or a server
    /// without memory, answers and refuses to write. A script writes a key that lives for a second.
    ///
    /// # Errors
    /// When it can't, or doesn't answer within the deadline; the message says why.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let key = format!("{}:ready", self.prefix.as_str());
        let answer = self
            .evaluate(Script::ready(), self.deadline(), |command| {
                command.arg(1).arg(&key);
            })
            .await?;
        match answer {
            Value::Int(1) => Ok(()),
            _ => Err(unexpected("a ping")),
        }
    }

    /// Deletes every key of a run under injected time. Walks through the whole key space in
    /// small steps: for after a replay, not for a path that anyone waits on.
    ///
    /// # Errors
    /// When the server fails midway; calling again goes on.
    pub async fn delete_run(&self, limit: &Limit, run: &str) -> Result<u64, StoreError> {
        let time = TimeSource::Injected { run: run.to_owned() };
        let mut deleted = 0;
        for part in limit.parts() {
            let pattern = StoreKey::new(&self.prefix, part, &time).pattern();
            deleted += self.delete_matching(&pattern).await?;
        }
        Ok(deleted)
    }

    async fn delete_matching(&self, pattern: &[u8]) -> Result<u64, StoreError> {
        let (mut cursor, mut deleted) = (b"0".to_vec(), 0);
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(1_000);
            let Value::Array(reply) = self.send(&scan, self.deadline()).await? else {
                return Err(unexpected("SCAN"));
            };
            let [Value::BulkString(next), Value::Array(keys)] = reply.as_slice() else {
                return Err(unexpected("SCAN"));
            };
            if !keys.is_empty() {
                let mut unlink = redis::cmd("UNLINK");
                for key in keys {
                    if let Value::BulkString(key) = key {
                        unlink.arg(key);
                    }
                }
                deleted += keys.len() as u64;
                self.send(&unlink, self.deadline()).await?;
            }
            if next == b"0" {
                return Ok(deleted);
            }
            cursor.clone_from(next);
        }
    }

    fn deadline(&self) -> Deadline {
        Deadline::after(self.deadline)
    }

    async fn send(&self, command: &Cmd, deadline: Deadline) -> Result<Value, StoreError> {
        match self.link.send(command, deadline).await {
            Ok(value) => Ok(value),
            Err(Failure::Store(error)) => Err(error),
            Err(Failure::NoScript) => Err(unexpected("a command that runs no script")),
        }
    }

    async fn answer(
        &self,
        handle: &RedisHandle,
        request: Request<'_>,
    ) -> Result<(Decision, Option<Receipt>), StoreError> {
        check_subjects(&handle.limit, &request)?;
        check_request(&handle.limit, request.operation, request.costs)?;
        let at = handle.time_of(&request)?;
        if request.operation == Operation::Reset {
            return self.reset(handle, request).await.map(|decision| (decision, None));
        }
        let max_clock_back = at.is_none().then(|| self.max_clock_back.as_micros());
        let now = at.unwrap_or_else(wall_clock);
        let deadline = self.deadline();
        let mut corrected: SmallVec<[(usize, u64); 2]> = SmallVec::new();
        // The clocks of client and server may disagree on which windows of the calendar are near,
        // for each calendar policy once.
        for _ in 0..=handle.limit.members().len() {
            let near = |policy: usize| {
                corrected
                    .iter()
                    .rev()
                    .find(|(index, _)| *index == policy)
                    .map_or(now, |(_, at)| *at)
            };
            let program =
                handle.program.bytes(&handle.limit, request.operation, request.costs, near);
            let answer = self.run(handle, &request, &program, at, deadline).await?;
            match read_answer(
                &handle.limit,
                request.operation,
                request.costs,
                max_clock_back,
                &answer,
            )? {
                Answer::Decided(decision) => return Ok((decision, None)),
                Answer::Reserved(decision, mut receipt) => {
                    receipt.keys = receipt
                        .changes
                        .iter()
                        .map(|change| handle.key(&request, change.part))
                        .collect();
                    return Ok((decision, Some(receipt)));
                }
                Answer::AskAgain { policy, at } => corrected.push((policy, at)),
            }
        }
        Err(StoreError::new(
            StoreErrorKind::Unexpected,
            "the store's clock jumped again and again within one request",
        ))
    }

    async fn run(
        &self,
        handle: &RedisHandle,
        request: &Request<'_>,
        program: &[u8],
        at: Option<u64>,
        deadline: Deadline,
    ) -> Result<Value, StoreError> {
        self.evaluate(&handle.script, deadline, |command| {
            command.arg(handle.keys.len() + handle.own_keys.len());
            handle.write_keys(request, command);
            command.arg(program);
            if let Some(at) = at {
                command.arg(at);
            }
        })
        .await
    }

    /// Runs a script by its digest; a server that doesn't know it gets the text, itself and
    /// nobody else.
    async fn evaluate(
        &self,
        script: &Script,
        deadline: Deadline,
        arguments: impl Fn(&mut Cmd),
    ) -> Result<Value, StoreError> {
        let command = |name: &str, script: &str| {
            let mut command = Cmd::with_capacity(6, script.len() + 384);
            command.arg(name).arg(script);
            arguments(&mut command);
            command
        };
        match self.link.send(&command("EVALSHA", script.digest()), deadline).await {
            Ok(answer) => Ok(answer),
            Err(Failure::Store(error)) => Err(error),
            Err(Failure::NoScript) => self.send(&command("EVAL", script.text()), deadline).await,
        }
    }

    async fn read_slices(
        &self,
        handle: &RedisHandle,
        request: Request<'_>,
    ) -> Result<SliceCounts, StoreError> {
        let at = handle.time_of(&request)?;
        let max_clock_back = at.is_none().then(|| self.max_clock_back.as_micros());
        SliceCounts::ring(&handle.limit)?;
        let answer = self
            .run(handle, &request, &handle.program.bytes_for_slices(), at, self.deadline())
            .await?;
        read_slices(&handle.limit, max_clock_back, &answer)
    }

    async fn give_back(&self, receipt: &Receipt) -> Result<bool, StoreError> {
        let answer = self
            .evaluate(Script::cancel(), self.deadline(), |command| {
                command.arg(receipt.keys.len());
                for key in &receipt.keys {
                    command.arg(key);
                }
                for change in &receipt.changes {
                    command.arg(&change.after).arg(change.before.as_deref().unwrap_or_default());
                }
            })
            .await?;
        match answer {
            Value::Int(given @ (0 | 1)) => Ok(given == 1),
            _ => Err(unexpected("a cancellation")),
        }
    }

    async fn reset(
        &self,
        handle: &RedisHandle,
        request: Request<'_>,
    ) -> Result<Decision, StoreError> {
        let mut command = redis::cmd("DEL");
        handle.write_keys(&request, &mut command);
        self.send(&command, self.deadline()).await?;
        let times = Times {
            now: request.at.map_or_else(wall_clock, Timestamp::as_micros),
            max_clock_back: None,
        };
        let mut logs = vec![log::State::default(); handle.limit.members().len()];
        let mut standings = Vec::with_capacity(logs.len());
        for (member, log) in handle.limit.members().iter().zip(&mut logs) {
            let rule = member.policy().rule();
            standings.push(match (Standing::of(rule, None, times)?, rule) {
                (None, Rule::Log(rule)) => Standing::of_log(rule, log, times).0,
                (Some((standing, _)), _) => standing,
                (None, _) => return Err(unexpected("DEL")),
            });
        }
        evaluate(&handle.limit, &mut standings, Operation::Reset, request.costs)
            .map(|evaluation| evaluation.decision)
    }
}

impl Store for RedisStore {
    type Handle = RedisHandle;
    type Receipt = Receipt;

    fn open(&self, limit: Arc<Limit>, time: TimeSource) -> RedisHandle {
        let own_keys = limit
            .members()
            .iter()
            .enumerate()
            .filter(|(_, member)| match member.policy().rule() {
                Rule::Log(log) => log_kind(log) == sluicegate_core::packed::kind::LOG_HEAD,
                _ => false,
            })
            .map(|(index, _)| index)
            .collect();
        RedisHandle {
            script: Script::of(&limit),
            program: Program::new(&limit, self.max_clock_back),
            keys: limit
                .parts()
                .iter()
                .map(|name| StoreKey::new(&self.prefix, name, &time))
                .collect(),
            own_keys,
            limit,
            time,
        }
    }

    async fn decide<'a>(
        &'a self,
        handle: &'a RedisHandle,
        request: Request<'a>,
    ) -> Result<Decision, StoreError> {
        self.answer(handle, request).await.map(|(decision, _)| decision)
    }

    async fn reserve<'a>(
        &'a self,
        handle: &'a RedisHandle,
        request: Request<'a>,
    ) -> Result<(Decision, Option<Receipt>), StoreError> {
        self.answer(handle, request).await
    }

    async fn cancel<'a>(
        &'a self,
        _: &'a RedisHandle,
        receipt: &'a Receipt,
    ) -> Result<bool, StoreError> {
        self.give_back(receipt).await
    }

    async fn slices<'a>(
        &'a self,
        handle: &'a RedisHandle,
        request: Request<'a>,
    ) -> Result<SliceCounts, StoreError> {
        self.read_slices(handle, request).await
    }
}

/// The client's clock, in µs: only to guess which windows of a calendar are near. The server's
/// clock decides.
fn wall_clock() -> u64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "a guess that the server corrects; nothing is judged by it"
    )]
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(0)
}

#[cold]
fn unexpected(command: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Unexpected,
        format!("the store's answer to {command} makes no sense"),
    )
}
