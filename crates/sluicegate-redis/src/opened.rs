//! A limit opened on a server.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::kernel::Now;
use sluicegate_core::{
    Action, Answer, Decision, Error, Limit, Member, OpenOptions, OpenedLimit, Operation, Receipt,
    Request, RequestError, RequestErrorKind, Store, StoreError, StoreErrorKind, StoreId, StoreKey,
    TimeSource, Timestamp, step,
};
use smallvec::SmallVec;

use crate::link::Deadline;
use crate::program::{Program, is_apart};
use crate::reply::{Reply, read_reply};
use crate::resp::{Command, Value};
use crate::script::Script;
use crate::store::{RedisStore, unexpected};

/// A limit that a [`RedisStore`] has opened.
pub struct RedisLimit {
    store: RedisStore,
    /// How long one answer may take.
    patience: Duration,
    limit: Limit,
    script: Arc<Script>,
    program: Program,
    /// One per part of the limit.
    keys: Box<[StoreKey]>,
    is_injected: bool,
    /// The policies whose states have a separate key.
    own_keys: Box<[usize]>,
}

impl Store for RedisStore {
    type Opened = RedisLimit;

    /// The address, database and prefix: two names of one server are two stores.
    fn id(&self) -> StoreId {
        self.store_id()
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> RedisLimit {
        RedisLimit::new(self.clone(), limit, options)
    }

    /// Checks that the server can decide, which takes more than a ping: a replica, or a server out
    /// of memory, answers but refuses to write. A script writes a key that expires after a second.
    fn ping(&self) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.write_something()
    }
}

impl RedisLimit {
    fn new(store: RedisStore, limit: Limit, options: OpenOptions) -> Self {
        let OpenOptions { time, deadline, .. } = options;
        let has_own_key = |(_, member): &(usize, &Member)| is_apart(member.policy().rule());
        let own_keys = limit.members().iter().enumerate().filter(has_own_key);
        Self {
            patience: deadline.map_or_else(|| store.patience(), Into::into),
            script: Script::of(&limit),
            program: Program::new(&limit, store.max_clock_back()),
            keys: limit
                .parts()
                .iter()
                .map(|name| StoreKey::new(store.prefix(), name, &time))
                .collect(),
            own_keys: own_keys.map(|(index, _)| index).collect(),
            limit: limit.keep(),
            is_injected: !matches!(time, TimeSource::Store),
            store,
        }
    }

    async fn decide(&self, request: Request<'_>) -> Result<Decision, Error> {
        request.validate_time(&self.limit, self.is_injected)?;
        request.validate(&self.limit)?;
        let deadline = Deadline::after(self.patience);
        match request.action() {
            Action::Cancel(receipt) => self.cancel(receipt, deadline).await,
            Action::Decide(Operation::Reset) => self.reset(request, deadline).await,
            action if Program::knows(action) => self.ask_script(request, deadline).await,
            Action::Decide(_) | Action::Slices => Err(unknown(&self.limit)),
        }
    }

    async fn ask_script(
        &self,
        request: Request<'_>,
        deadline: Deadline,
    ) -> Result<Decision, Error> {
        let at = request.time().map(Timestamp::as_micros);
        let max_clock_back = (!self.is_injected).then(|| self.store.max_clock_back().as_micros());
        let now = at.unwrap_or_else(wall_clock);
        let mut corrected: SmallVec<[(usize, u64); 2]> = SmallVec::new();
        // The clocks of client and server may disagree about the current calendar window: once per
        // calendar policy.
        for _ in 0..=self.limit.members().len() {
            let near = |policy: usize| {
                let known = corrected.iter().rev().find(|(index, _)| *index == policy);
                known.map_or(now, |(_, at)| *at)
            };
            let program = self.program.bytes(&self.limit, &request, near);
            let answer = self
                .store
                .evaluate(&self.script, deadline, |command| {
                    command.number((self.keys.len() + self.own_keys.len()) as u64);
                    self.write_keys(&request, command);
                    command.word(&program);
                    if let Some(at) = at {
                        command.number(at);
                    }
                })
                .await?;
            match read_reply(&self.limit, &request, max_clock_back, &answer)? {
                Reply::Decided(decision) => return Ok(decision),
                Reply::AskAgain { policy, at } => corrected.push((policy, at)),
            }
        }
        Err(StoreError::new(
            StoreErrorKind::Unexpected,
            "the store's clock kept jumping during one request: check the clock of the server",
        )
        .into())
    }

    async fn cancel(&self, receipt: &Receipt, deadline: Deadline) -> Result<Decision, Error> {
        let changes = || {
            let parts = receipt.parts().iter().enumerate();
            parts.filter_map(|(part, receipt)| Some((part, receipt.change.as_ref()?)))
        };
        let answer = self
            .store
            .evaluate(Script::cancel(), deadline, |command| {
                let mut key = Vec::with_capacity(64);
                command.number(changes().count() as u64);
                for (part, _) in changes() {
                    key.clear();
                    self.keys[part].write(receipt.subject(part), &mut key);
                    command.word(&key);
                }
                for (_, change) in changes() {
                    command.word(&change.after).word(change.before.as_deref().unwrap_or_default());
                }
            })
            .await?;
        match answer {
            Value::Int(given @ (0 | 1)) => Ok(Decision::cancelled(&self.limit, given == 1)),
            _ => Err(unexpected("a cancellation").into()),
        }
    }

    async fn reset(&self, request: Request<'_>, deadline: Deadline) -> Result<Decision, Error> {
        let mut command = Command::of(&[b"DEL"]);
        self.write_keys(&request, &mut command);
        let Value::Int(deleted) = self.store.send(command, deadline).await? else {
            return Err(unexpected("a reset").into());
        };
        let micros = request.time().map_or_else(wall_clock, Timestamp::as_micros);
        let mut held = vec![None; self.limit.members().len()];
        let now = Now { micros, max_clock_back: None };
        let mut decision = step(&self.limit, &request, now, &mut held)?.decision;
        decision.set_forgotten(deleted > 0);
        Ok(decision)
    }

    /// All keys, in the order that the script expects.
    fn write_keys(&self, request: &Request<'_>, command: &mut Command) {
        let mut key = Vec::with_capacity(64);
        for (part, name) in self.keys.iter().enumerate() {
            key.clear();
            name.write(request.subject(part), &mut key);
            command.word(&key);
        }
        for &index in &self.own_keys {
            let member = &self.limit.members()[index];
            key.clear();
            self.keys[member.part()].write_own(request.subject(member.part()), member, &mut key);
            command.word(&key);
        }
    }
}

impl OpenedLimit for RedisLimit {
    fn limit(&self) -> &Limit {
        &self.limit
    }

    fn ask<'a>(
        &'a self,
        request: Request<'a>,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
        Answer::Later(self.decide(request))
    }
}

impl fmt::Debug for RedisLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLimit")
            .field("limit", self.limit.name())
            .field("store", &self.store)
            .field("injected", &self.is_injected)
            .finish_non_exhaustive()
    }
}

/// An operation that came to be after this store: it must not be taken for another.
#[cold]
fn unknown(limit: &Limit) -> Error {
    let message = format!(
        "limit `{}` is in a Redis store, whose scripts don't know the operation",
        limit.name()
    );
    RequestError::new(RequestErrorKind::Unsupported, message).into()
}

/// The client's clock, in µs. It only serves to guess the current calendar window; the server's
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
