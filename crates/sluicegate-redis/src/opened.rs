//! A limit opened on a server.

mod lists;

use std::fmt;
use std::future::Future;
use std::time::Duration;

use sluicegate_core::{
    Acknowledgement, Action, Answer, BannedKeys, Bell, BoxFuture, Costs, Decision, DeniedCharge,
    Error, HoldId, Holders, Limit, Measure, Member, NodeId, Once, OpenOptions, OpenedLimit,
    Operation, Page, Receipt, Request, RequestError, RequestErrorKind, Span, Store, StoreError,
    StoreErrorKind, StoreId, StoreKey, TimeSource, Timestamp,
};
use smallvec::SmallVec;

use crate::call::ScriptCall;
use crate::hold::{has_set, record_of, set_listener, with_record};
use crate::joint::{Groups, Hold, Joint};
use crate::link::{Deadline, Heard};
use crate::program::{Program, cancellation, is_apart};
use crate::reply::{Reply, read_reply};
use crate::resp::Command;
use crate::store::RedisStore;

/// A limit that a [`RedisStore`] has opened.
pub struct RedisLimit {
    store: RedisStore,
    /// How long one answer may take.
    patience: Duration,
    limit: Limit,
    program: Program,
    /// One per part of the limit.
    keys: Box<[StoreKey]>,
    is_injected: bool,
    /// The policies whose states have a separate key.
    own_keys: Box<[usize]>,
    groups: Groups,
    /// What replicas have to say before a decision counts.
    acknowledgement: Option<Acknowledgement>,
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
    /// of memory, answers but refuses to write. A script writes a key that expires after a second. Of a
    /// cluster, every node that has slots is checked, and whether all slots have a node.
    fn ping(&self) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.check_servers()
    }

    /// Checks in addition that each server permits every command that the limits need, and evicts no keys.
    async fn rehearse(&self, limits: Vec<(Limit, OpenOptions)>) -> Result<Vec<String>, StoreError> {
        self.check_rights(&limits).await
    }

    fn measures(&self) -> Vec<Measure> {
        let (calls, requests) = self.traffic();
        let help = "Calls of the script that were sent to servers";
        let calls = Measure::counter("store_calls", help, calls);
        let help = "Requests in the calls that were sent to servers";
        vec![calls, Measure::counter("store_requests", help, requests)]
    }
}

impl RedisLimit {
    fn new(store: RedisStore, limit: Limit, options: OpenOptions) -> Self {
        let OpenOptions { time, deadline, acknowledged, .. } = options;
        let keys = limit.parts().iter().map(|name| StoreKey::new(store.prefix(), name, &time));
        let patience = deadline.map_or_else(|| store.patience(), Into::into);
        let is_injected = !matches!(time, TimeSource::Store);
        let mut opened = Self::with_keys(keys.collect(), limit, patience, is_injected, store);
        opened.acknowledgement = acknowledged.map(|wanted| within(wanted, patience));
        opened
    }

    fn with_keys(
        keys: Box<[StoreKey]>,
        limit: Limit,
        patience: Duration,
        is_injected: bool,
        store: RedisStore,
    ) -> Self {
        let has_own_key = |(_, member): &(usize, &Member)| is_apart(member.policy().rule());
        let own_keys = limit.members().iter().enumerate().filter(has_own_key);
        Self {
            patience,
            program: Program::new(&limit, store.max_clock_back()),
            keys,
            own_keys: own_keys.map(|(index, _)| index).collect(),
            limit: limit.keep(),
            is_injected,
            groups: Groups::default(),
            acknowledgement: None,
            store,
        }
    }

    /// The same with some of its parts.
    pub(crate) fn only(&self, parts: &[usize]) -> Self {
        let keys = parts.iter().map(|&part| self.keys[part].clone()).collect();
        let store = self.store.clone();
        let limit = self.limit.only(parts);
        let mut opened = Self::with_keys(keys, limit, self.patience, self.is_injected, store);
        opened.acknowledgement = self.acknowledgement;
        opened
    }

    /// Those of its parts that were asked together.
    pub(crate) const fn groups(&self) -> &Groups {
        &self.groups
    }

    async fn decide(&self, request: Request<'_>) -> Result<Decision, Error> {
        request.validate_time(&self.limit, self.is_injected)?;
        request.validate(&self.limit)?;
        let deadline = Deadline::after(self.patience);
        // What few do is on the heap: this future is moved by each layer around the store. What it takes in one
        // slot is given back by a record that lives for twice the deadline, so no call may take longer.
        if let Some(joint) = self.joint(&request, deadline) {
            return Box::pin(joint.decide()).await;
        }
        let deadline = self.store.connecting(deadline, request.time_to_connect());
        match request.action() {
            Action::Cancel(receipt) => {
                let at = request.time().map(Timestamp::as_micros);
                Box::pin(self.cancel(receipt, at, deadline)).await
            }
            action if Program::knows(action) => {
                self.ask_call(&request, &request, None, deadline).await
            }
            Action::Decide(_) | Action::Slices | Action::Settle { .. } | Action::Renew { .. } => {
                Err(unknown(&self.limit))
            }
        }
    }

    /// The request as one that several slots decide about, if they have to.
    fn joint<'a>(&'a self, request: &Request<'a>, deadline: Deadline) -> Option<Joint<'a>> {
        if self.keys.len() < 2 || matches!(request.action(), Action::Cancel(_) | Action::Slices) {
            return None;
        }
        let contention = self.store.contention()?;
        // Who holds units of several slots would have to be told by each.
        let request = request.without_leasing();
        Joint::of(self, request, contention, &self.slots(&request), deadline)
    }

    /// The slot of each part's subject.
    fn slots(&self, request: &Request<'_>) -> SmallVec<[u16; 4]> {
        let mut key = Vec::with_capacity(64);
        let slots = self.keys.iter().enumerate().map(|(part, name)| {
            key.clear();
            name.write(request.subject(part), &mut key);
            self.store.slot_of(&key)
        });
        slots.collect()
    }

    /// The node that has a slot, if it is known.
    pub(crate) fn node_of(&self, slot: u16) -> Option<NodeId> {
        self.store.node(slot)
    }

    /// Asks one call for a decision. With a hold it leaves a record of what it charged.
    pub(crate) async fn ask_script(
        &self,
        request: Request<'_>,
        hold: Option<Hold>,
        deadline: Deadline,
    ) -> Result<Decision, Error> {
        self.ask_call(&request, &request, hold, deadline).await
    }

    /// Gives back what a call took, by the record that it left: at most as many units of each policy as
    /// are the cost. The decision is that of a peek afterwards, at no cost.
    pub(crate) async fn give_back(
        &self,
        request: Request<'_>,
        hold: Hold,
        deadline: Deadline,
    ) -> Result<Decision, Error> {
        let taken_at = Timestamp::EPOCH;
        let giving_back = request.operation(Operation::GiveBack { taken_at });
        let nothing: SmallVec<[u64; 4]> = self.limit.members().iter().map(|_| 0).collect();
        let peek = request.as_peek().costs(Costs::Each(&nothing));
        self.ask_call(&giving_back, &peek, Some(hold), deadline).await
    }

    /// Asks one call for a request, and reads what it says as the answer to another one.
    async fn ask_call(
        &self,
        request: &Request<'_>,
        read_as: &Request<'_>,
        hold: Option<Hold>,
        deadline: Deadline,
    ) -> Result<Decision, Error> {
        if self.acknowledgement.is_none() {
            self.store.admits(deadline)?;
        }
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
            let call = self.call(request, near, at, hold);
            let Heard { said, doubt } = self.store.call(call, deadline).await?;
            match read_reply(&self.limit, read_as, max_clock_back, &said)? {
                Reply::Decided(decision) => {
                    return match doubt.filter(|_| self.has_charged(&decision)) {
                        Some(error) => Err(error.into()),
                        None => Ok(decision),
                    };
                }
                Reply::AskAgain { policy, at } => corrected.push((policy, at)),
            }
        }
        Err(StoreError::new(
            StoreErrorKind::Unexpected,
            "the store's clock kept jumping during one request: check the clock of the server",
        )
        .into())
    }

    /// The call of the script that a request is. `near` is the time around which a policy is guessed to
    /// be judged; `at` the time to judge by, if that isn't the server's; both in µs.
    pub(crate) fn call(
        &self,
        request: &Request<'_>,
        near: impl Fn(usize) -> u64,
        at: Option<u64>,
        hold: Option<Hold>,
    ) -> ScriptCall {
        let mut program = self.program.bytes(&self.limit, request, near, at);
        if let Some(Hold { id, life }) = hold {
            with_record(&self.limit, id, life, &mut program);
        }
        if request.ticket().is_some() {
            set_listener(self.store.listener(), &mut program);
        }
        let is_reset = request.action() == Action::Decide(Operation::Reset);
        let record = hold.map(|hold| hold.id);
        let record = record.or_else(|| record_of(&self.limit, request).map(|(id, _)| id));
        let write_keys = |words: &mut Command| {
            self.write_keys(request, words);
            if let Some(once) = request.asks_once() {
                self.write_once_keys(request, once, words);
            }
            if request.is_in_line(&self.limit) || is_reset {
                self.write_line_keys(request, words);
            }
            if let Some(id) = record {
                self.write_record_keys(request, id, words);
            }
            if record.is_some() && has_set(&self.limit) || is_reset {
                self.write_hold_keys(request, words);
            }
        };
        let acknowledgement = self.acknowledgement.filter(|_| may_charge(request));
        ScriptCall::new(write_keys, &program).acknowledged(acknowledgement)
    }

    /// Whether a decision may have charged anything: then it is of no use if it is lost.
    fn has_charged(&self, decision: &Decision) -> bool {
        let mut members = self.limit.members().iter();
        decision.is_allowed()
            || members.any(|member| member.policy().denied_charge() == DeniedCharge::Charged)
    }

    async fn cancel(
        &self,
        receipt: &Receipt,
        at: Option<u64>,
        deadline: Deadline,
    ) -> Result<Decision, Error> {
        let is_nowhere = receipt.place().is_some() && self.keys.len() > 1;
        if receipt.is_empty() || is_nowhere {
            return Ok(Decision::cancelled(&self.limit, false));
        }
        let program = cancellation(receipt, at);
        let write_keys = |words: &mut Command| {
            let mut key = Vec::with_capacity(64);
            for (part, change) in receipt.parts().iter().enumerate() {
                if change.change.is_some() {
                    key.clear();
                    self.keys[part].write(receipt.subject(part), &mut key);
                    words.word(&key);
                }
            }
            if receipt.place().is_some() {
                self.write_line_keys(&Request::cancel(receipt), words);
            }
        };
        let call = ScriptCall::new(write_keys, &program);
        let is_given_back = self.store.run_errand(call, deadline).await?;
        Ok(Decision::cancelled(&self.limit, is_given_back))
    }

    /// The keys of what is known of the request by its id, and of how many ids the subject has.
    fn write_once_keys(&self, request: &Request<'_>, once: Once, command: &mut Command) {
        let mut key = Vec::with_capacity(96);
        let Some(name) = self.keys.first() else { return };
        name.write_request(request.key(), once.id, &mut key);
        command.word(&key);
        key.clear();
        name.write_ids(request.key(), &mut key);
        command.word(&key);
    }

    /// The keys of the subjects' lines.
    fn write_line_keys(&self, request: &Request<'_>, command: &mut Command) {
        let mut key = Vec::with_capacity(64);
        for (part, name) in self.keys.iter().enumerate() {
            key.clear();
            name.write_line(request.subject(part), &mut key);
            command.word(&key);
        }
    }

    /// The keys of the subjects' records of an id.
    fn write_record_keys(&self, request: &Request<'_>, id: HoldId, command: &mut Command) {
        let mut key = Vec::with_capacity(96);
        for (part, name) in self.keys.iter().enumerate() {
            key.clear();
            name.write_hold(request.subject(part), id, &mut key);
            command.word(&key);
        }
    }

    /// The keys of what the subjects have in flight.
    fn write_hold_keys(&self, request: &Request<'_>, command: &mut Command) {
        let mut key = Vec::with_capacity(64);
        for (part, name) in self.keys.iter().enumerate() {
            key.clear();
            name.write_holds(request.subject(part), &mut key);
            command.word(&key);
        }
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

    fn bell(&self, id: HoldId) -> Option<Bell> {
        self.store.bell(id)
    }

    fn holders<'a>(
        &'a self,
        key: &'a [u8],
        page: Page<'a>,
    ) -> BoxFuture<'a, Result<Holders, Error>> {
        Box::pin(self.list_holders(key, page))
    }

    fn bans<'a>(&'a self, page: Page<'a>) -> BoxFuture<'a, Result<BannedKeys, Error>> {
        Box::pin(self.list_bans(page))
    }

    /// In a cluster, the nodes that have the subjects' keys, once that is known.
    fn nodes(&self, request: &Request<'_>) -> Vec<NodeId> {
        if self.store.contention().is_none() {
            return Vec::new();
        }
        let slots = self.slots(request);
        let nodes: Option<Vec<NodeId>> = slots.iter().map(|slot| self.store.node(*slot)).collect();
        let mut nodes = nodes.unwrap_or_default();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
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

/// What replicas have to say, in no more than half of the time that a call has.
fn within(wanted: Acknowledgement, patience: Duration) -> Acknowledgement {
    let micros = u64::try_from(patience.as_micros() / 2).unwrap_or(u64::MAX);
    let half = Span::from_micros(micros.max(1_000)).unwrap_or(Span::MAX);
    Acknowledgement { within: wanted.within.min(half), ..wanted }
}

/// Whether a request may charge anything. What is given back and lost stays charged: never over.
fn may_charge(request: &Request<'_>) -> bool {
    let operation = match request.action() {
        Action::Decide(operation) => operation,
        // What was used beyond is charged.
        Action::Settle { .. } => return true,
        Action::Cancel(_) | Action::Slices | Action::Renew { .. } => return false,
    };
    match operation {
        Operation::Check | Operation::Reserve { .. } | Operation::TakeUpTo | Operation::Charge => {
            true
        }
        // Whoever leases takes units along with whatever else is done.
        _ => request.leases().is_some_and(|leasing| leasing.want > 0),
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

#[cfg(test)]
mod tests {
    use std::num::NonZeroU8;

    use sluicegate_core::Leasing;

    use super::*;

    fn open(acknowledged: Acknowledgement, deadline: Span) -> RedisLimit {
        let store = RedisStore::builder("redis://127.0.0.1:1").unwrap().build();
        let policies = vec!["token_bucket 1/s burst 9".parse().unwrap()];
        let limit = Limit::new("l".parse().unwrap(), policies).unwrap();
        let options = OpenOptions::default().deadline(deadline).acknowledged(acknowledged);
        store.open(limit, options)
    }

    #[test]
    fn replicas_acknowledge_what_charges_and_nothing_else() {
        let wanted = Acknowledgement { replicas: NonZeroU8::MIN, within: Span::MILLISECOND };
        let opened = open(wanted, Span::SECOND);
        let waits = |request: &Request<'_>| {
            opened.call(request, |_| 0, None, None).acknowledgement() == Some(wanted)
        };
        let within = Span::SECOND;
        for (operation, charges) in [
            (Operation::Check, true),
            (Operation::TakeUpTo, true),
            (Operation::Charge, true),
            (Operation::Reserve { within }, true),
            (Operation::Peek, false),
            (Operation::Refund, false),
            (Operation::Reset, false),
            (Operation::GiveBack { taken_at: Timestamp::EPOCH }, false),
        ] {
            let request = Request::new(operation, b"alice");
            assert_eq!(waits(&request), charges, "{operation:?}");
            let leasing = Leasing { want: 1, width: Span::SECOND, tag: 1, reports: &[] };
            assert!(waits(&request.leasing(&leasing)), "{operation:?} with a lease");
        }
    }

    #[test]
    fn replicas_are_waited_for_at_most_half_as_long_as_a_call_may_take() {
        let wanted = Acknowledgement { replicas: NonZeroU8::MIN, within: Span::SECOND };
        for (deadline, expected) in [(50, 25), (1, 1), (5_000, 1_000)] {
            let opened = open(wanted, Span::from_millis(deadline).unwrap());
            let within = opened.acknowledgement.unwrap().within;
            assert_eq!(within, Span::from_millis(expected).unwrap());
        }
    }
}
