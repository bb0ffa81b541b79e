//! A limit that one call of the script decides.

mod lists;

use std::fmt;
use std::time::Duration;

use sluicegate_core::for_stores::StoreKey;
use sluicegate_core::for_stores::{DecisionForStores as _, Leasing};
use sluicegate_core::{
    Acknowledgement, Costs, Decision, DeniedCharge, Error, HoldId, Idempotency, Limit, Member,
    NodeId, OpenOptions, Operation, Receipt, Request, Span, StoreError, StoreErrorKind, TimeSource,
    Timestamp,
};
use smallvec::SmallVec;

use crate::call::ScriptCall;
use crate::hold::{Hold, has_set, record_of, set_listener, with_record};
use crate::link::{Deadline, Heard};
use crate::program::{Program, cancellation, is_apart};
use crate::reply::{Reply, read_reply};
use crate::resp::Command;
use crate::store::RedisStore;

/// A limit that one call of the script decides: on a cluster, its subjects are in one slot.
pub(crate) struct ScriptLimit {
    store: RedisStore,
    /// Maximum time of one answer.
    patience: Duration,
    limit: Limit,
    program: Program,
    /// One for each part of the limit.
    keys: Box<[StoreKey]>,
    is_injected: bool,
    /// The policies whose states have a separate key.
    own_keys: Box<[usize]>,
    /// The acknowledgement that replicas must send before a decision counts.
    acknowledgement: Option<Acknowledgement>,
}

impl ScriptLimit {
    /// Returns a limit opened with these options.
    pub(crate) fn new(store: RedisStore, limit: Limit, options: OpenOptions) -> Self {
        let OpenOptions { time, deadline, acknowledged, .. } = options;
        let keys = limit.parts().iter().map(|name| StoreKey::new(store.prefix(), name, &time));
        let patience =
            deadline.map_or_else(|| store.patience(), |deadline| Span::from(deadline).into());
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
            acknowledgement: None,
            store,
        }
    }

    /// Returns a limit of only these parts.
    pub(crate) fn only(&self, parts: &[usize]) -> Self {
        let keys = parts.iter().map(|&part| self.keys[part].clone()).collect();
        let store = self.store.clone();
        let limit = self.limit.only(parts);
        let mut opened = Self::with_keys(keys, limit, self.patience, self.is_injected, store);
        opened.acknowledgement = self.acknowledgement;
        opened
    }

    pub(crate) const fn limit(&self) -> &Limit {
        &self.limit
    }

    pub(crate) const fn store(&self) -> &RedisStore {
        &self.store
    }

    pub(crate) const fn patience(&self) -> Duration {
        self.patience
    }

    /// Returns whether the time to decide by comes with each request.
    pub(crate) const fn is_injected(&self) -> bool {
        self.is_injected
    }

    /// Returns the slot of each part's subject.
    pub(crate) fn slots(&self, request: &Request<'_>) -> SmallVec<[u16; 4]> {
        let mut key = Vec::with_capacity(64);
        let slots = self.keys.iter().enumerate().map(|(part, name)| {
            key.clear();
            name.write(request.subject(part), &mut key);
            self.store.slot_of(&key)
        });
        slots.collect()
    }

    /// Returns the node that has a slot, if it is known.
    pub(crate) fn node_of(&self, slot: u16) -> Option<NodeId> {
        self.store.node(slot)
    }

    /// Sends one call for a decision. With a hold it leaves a record of its charge.
    pub(crate) async fn ask_script(
        &self,
        request: Request<'_>,
        hold: Option<Hold>,
        deadline: Deadline,
    ) -> Result<Decision, Error> {
        self.ask_call(&request, &request, hold, deadline).await
    }

    /// Gives back the units of a call, by the record that it left: at most the cost of each policy. The
    /// decision is that of a peek afterwards, at no cost.
    pub(crate) async fn give_back(
        &self,
        request: Request<'_>,
        hold: Hold,
        deadline: Deadline,
    ) -> Result<Decision, Error> {
        let taken_at = Timestamp::EPOCH;
        let giving_back = request.with_operation(Operation::GiveBack { taken_at });
        let nothing: SmallVec<[u64; 4]> = self.limit.members().iter().map(|_| 0).collect();
        let peek = request.as_peek().costs(Costs::Each(&nothing));
        self.ask_call(&giving_back, &peek, Some(hold), deadline).await
    }

    /// Sends one call for a request, and reads its reply as the answer to another one.
    pub(crate) async fn ask_call(
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
        // The clocks of client and server may disagree about the current calendar window: once for each
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

    /// Returns the script call of a request. `near` returns the expected evaluation time of a policy. `at` is
    /// the time to decide by, unless it is the server's. Both are in µs.
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
        let is_reset = request.operation() == Operation::Reset;
        let record = hold.map(|hold| hold.id);
        let record = record.or_else(|| record_of(&self.limit, request).map(|(id, _)| id));
        let write_keys = |words: &mut Command| {
            self.write_keys(request, words);
            if let Some(once) = request.idempotency() {
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

    /// Returns whether a decision may have charged anything, so that losing it matters.
    fn has_charged(&self, decision: &Decision) -> bool {
        let mut members = self.limit.members().iter();
        decision.is_allowed()
            || members.any(|member| member.policy().denied_charge() != DeniedCharge::Free)
    }

    pub(crate) async fn cancel(
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

    /// Writes the keys of the request id's record, and of the number of the subject's ids.
    fn write_once_keys(&self, request: &Request<'_>, once: Idempotency, command: &mut Command) {
        let mut key = Vec::with_capacity(96);
        let Some(name) = self.keys.first() else { return };
        name.write_request(request.key(), once.id, &mut key);
        command.word(&key);
        key.clear();
        name.write_ids(request.key(), &mut key);
        command.word(&key);
    }

    /// Writes the keys of the subjects' reservation queues.
    fn write_line_keys(&self, request: &Request<'_>, command: &mut Command) {
        let mut key = Vec::with_capacity(64);
        for (part, name) in self.keys.iter().enumerate() {
            key.clear();
            name.write_line(request.subject(part), &mut key);
            command.word(&key);
        }
    }

    /// Writes the keys of the subjects' records of an id.
    fn write_record_keys(&self, request: &Request<'_>, id: HoldId, command: &mut Command) {
        let mut key = Vec::with_capacity(96);
        for (part, name) in self.keys.iter().enumerate() {
            key.clear();
            name.write_hold(request.subject(part), id, &mut key);
            command.word(&key);
        }
    }

    /// Writes the keys of the subjects' units in flight.
    fn write_hold_keys(&self, request: &Request<'_>, command: &mut Command) {
        let mut key = Vec::with_capacity(64);
        for (part, name) in self.keys.iter().enumerate() {
            key.clear();
            name.write_holds(request.subject(part), &mut key);
            command.word(&key);
        }
    }

    /// Writes all keys, in the order that the script expects.
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

impl fmt::Debug for ScriptLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptLimit")
            .field("limit", self.limit.name())
            .field("store", &self.store)
            .field("injected", &self.is_injected)
            .finish_non_exhaustive()
    }
}

/// Limits the wait for replicas to half of a call's time.
fn within(wanted: Acknowledgement, patience: Duration) -> Acknowledgement {
    let half = (patience / 2).max(Duration::from_millis(1));
    Acknowledgement { within: wanted.within.min(half), ..wanted }
}

/// Returns whether a request may charge anything. A lost return leaves units charged, which never exceeds the
/// limit.
fn may_charge(request: &Request<'_>) -> bool {
    match request.operation() {
        // Settling charges units that were used beyond the estimate.
        Operation::Check
        | Operation::Reserve { .. }
        | Operation::Take
        | Operation::Charge
        | Operation::Settle { .. } => true,
        // A lease request takes units with any operation.
        _ => request.leases().is_some_and(Leasing::asks),
    }
}

/// Returns the client's clock, in µs. It is only used to guess the current calendar window; the server's
/// clock decides.
fn wall_clock() -> u64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "a guess that the server corrects; it decides nothing"
    )]
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU8;

    use super::*;

    fn open(acknowledged: Acknowledgement, deadline: Duration) -> ScriptLimit {
        let store = RedisStore::builder("redis://127.0.0.1:1").unwrap().build();
        let limit = Limit::new("l", ["token_bucket 1/s burst 9"]).unwrap();
        let options = OpenOptions::default().deadline(deadline).acknowledged(acknowledged);
        ScriptLimit::new(store, limit, options)
    }

    #[test]
    fn replicas_acknowledge_what_charges_and_nothing_else() {
        let within = Duration::from_millis(1);
        let wanted = Acknowledgement { replicas: NonZeroU8::MIN, within };
        let opened = open(wanted, Duration::from_secs(1));
        let waits = |request: &Request<'_>| {
            opened.call(request, |_| 0, None, None).acknowledgement() == Some(wanted)
        };
        let within = Span::SECOND;
        for (operation, charges) in [
            (Operation::Check, true),
            (Operation::Take, true),
            (Operation::Charge, true),
            (Operation::Reserve { within }, true),
            (Operation::Peek, false),
            (Operation::Refund, false),
            (Operation::Reset, false),
            (Operation::GiveBack { taken_at: Timestamp::EPOCH }, false),
        ] {
            let request = Request::new(operation, b"alice");
            assert_eq!(waits(&request), charges, "{operation:?}");
            let leasing =
                Leasing { want: 1, width: Span::SECOND, tag: 1, reports: &[], pace: None };
            assert!(waits(&request.leasing(&leasing)), "{operation:?} with a lease");
        }
    }

    #[test]
    fn replicas_are_waited_for_at_most_half_as_long_as_a_call_may_take() {
        let within = Duration::from_secs(1);
        let wanted = Acknowledgement { replicas: NonZeroU8::MIN, within };
        for (deadline, expected) in [(50, 25), (1, 1), (5_000, 1_000)] {
            let opened = open(wanted, Duration::from_millis(deadline));
            let within = opened.acknowledgement.unwrap().within;
            assert_eq!(within, Duration::from_millis(expected));
        }
    }
}
