//! The store: a server, the connection to it, and the limits opened on it.

use std::fmt;
use std::time::Duration;

use sluicegate_core::{
    KeyPrefix, Limit, Span, StoreError, StoreErrorKind, StoreId, StoreKey, TimeSource,
};

use crate::link::{Deadline, Endpoint, Failure, Link, UrlError};
use crate::resp::{Command, Value};
use crate::script::Script;

/// A Redis or Valkey server as a store. Cheap to clone; clones share one connection.
#[derive(Clone)]
pub struct RedisStore {
    link: Link,
    deadline: Duration,
    max_clock_back: Span,
}

/// Configures and builds a [`RedisStore`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct RedisStoreBuilder {
    endpoint: Endpoint,
    deadline: Duration,
    max_clock_back: Span,
}

impl RedisStoreBuilder {
    /// The prefix of all keys. Default: `sg`.
    pub fn prefix(mut self, prefix: KeyPrefix) -> Self {
        self.endpoint.prefix = prefix;
        self
    }

    /// How long a decision may take, unless a limit is opened with its own deadline. Default: 50
    /// ms.
    pub fn deadline(mut self, deadline: impl Into<Span>) -> Self {
        self.deadline = deadline.into().into();
        self
    }

    /// How far ahead of the server's clock a state may be stamped before it is restamped to now.
    /// Default: 5 s. This bounds how long keys don't refill after a failover to a server whose
    /// clock is behind.
    pub fn max_clock_back(mut self, span: impl Into<Span>) -> Self {
        self.max_clock_back = span.into();
        self
    }

    /// Builds the store. It connects at the first use, inside a Tokio runtime.
    #[must_use]
    pub fn build(self) -> RedisStore {
        let Self { endpoint, deadline, max_clock_back } = self;
        RedisStore { link: Link::new(endpoint), deadline, max_clock_back }
    }
}

impl RedisStore {
    /// A store at `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, or `valkey://…`; or, on the same
    /// machine, at `unix://[USER:PASSWORD@]/PATH[?db=DATABASE]`.
    ///
    /// # Errors
    /// If the URL is malformed or has another scheme; the message says what to write, and never
    /// contains a password.
    pub fn builder(url: &str) -> Result<RedisStoreBuilder, UrlError> {
        Ok(RedisStoreBuilder {
            endpoint: Endpoint::new(url)?,
            deadline: Duration::from_millis(50),
            max_clock_back: Span::from_millis(5_000).unwrap_or(Span::MAX),
        })
    }

    /// Deletes every key of a run under injected time. It scans the whole key space in small steps,
    /// so use it after a replay, not in a request.
    ///
    /// # Errors
    /// If the server fails midway; call it again to delete the rest.
    pub async fn delete_run(&self, limit: &Limit, run: &str) -> Result<u64, StoreError> {
        let time = TimeSource::Injected { run: run.to_owned() };
        let mut deleted = 0;
        for part in limit.parts() {
            let pattern = StoreKey::new(self.prefix(), part, &time).pattern();
            deleted += self.delete_matching(&pattern).await?;
        }
        Ok(deleted)
    }

    async fn delete_matching(&self, pattern: &[u8]) -> Result<u64, StoreError> {
        let (mut cursor, mut deleted) = (b"0".to_vec(), 0);
        loop {
            let scan = Command::of(&[b"SCAN", &cursor, b"MATCH", pattern, b"COUNT", b"1000"]);
            let Value::Array(reply) = self.send(scan, self.deadline()).await? else {
                return Err(unexpected("SCAN"));
            };
            let [Value::Bytes(next), Value::Array(keys)] = reply.as_slice() else {
                return Err(unexpected("SCAN"));
            };
            if !keys.is_empty() {
                let mut unlink = Command::of(&[b"UNLINK"]);
                for key in keys {
                    if let Value::Bytes(key) = key {
                        unlink.word(key);
                    }
                }
                deleted += keys.len() as u64;
                self.send(unlink, self.deadline()).await?;
            }
            if *next == b"0"[..] {
                return Ok(deleted);
            }
            cursor = next.to_vec();
        }
    }

    /// The address, database and prefix: two names of one server are two stores.
    pub(crate) fn store_id(&self) -> StoreId {
        StoreId::new(&format!("{} under `{}`", self.link.endpoint(), self.prefix().as_str()))
    }

    pub(crate) fn prefix(&self) -> &KeyPrefix {
        &self.link.endpoint().prefix
    }

    pub(crate) const fn max_clock_back(&self) -> Span {
        self.max_clock_back
    }

    pub(crate) const fn patience(&self) -> Duration {
        self.deadline
    }

    fn deadline(&self) -> Deadline {
        Deadline::after(self.deadline)
    }

    pub(crate) async fn send(
        &self,
        command: Command,
        deadline: Deadline,
    ) -> Result<Value, StoreError> {
        match self.link.send(command, deadline).await {
            Ok(value) => Ok(value),
            Err(Failure::Store(error)) => Err(error),
            Err(Failure::NoScript) => Err(unexpected("a command that runs no script")),
        }
    }

    /// Runs a script by its digest, or by its text on a server that doesn't know it yet.
    pub(crate) async fn evaluate(
        &self,
        script: &Script,
        deadline: Deadline,
        arguments: impl Fn(&mut Command),
    ) -> Result<Value, StoreError> {
        let command = |name: &str, script: &str| {
            let mut command = Command::with_capacity(script.len() + 384);
            command.word(name).word(script);
            arguments(&mut command);
            command
        };
        match self.link.send(command("EVALSHA", script.digest()), deadline).await {
            Ok(answer) => Ok(answer),
            Err(Failure::Store(error)) => Err(error),
            Err(Failure::NoScript) => self.send(command("EVAL", script.text()), deadline).await,
        }
    }

    /// Checks that the server can decide: a script writes a key that expires after a second.
    pub(crate) async fn write_something(&self) -> Result<(), StoreError> {
        let key = format!("{}:ready", self.prefix().as_str());
        let answer = self
            .evaluate(Script::ready(), self.deadline(), |command| {
                command.number(1).word(&key);
            })
            .await?;
        match answer {
            Value::Int(1) => Ok(()),
            _ => Err(unexpected("a ping")),
        }
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("link", &self.link)
            .field("prefix", &self.prefix().as_str())
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

#[cold]
pub(crate) fn unexpected(command: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Unexpected,
        format!("the store's answer to {command} makes no sense"),
    )
}
