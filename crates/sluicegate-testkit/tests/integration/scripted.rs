//! The Redis scripts in an embedded interpreter. The test drives the server's clock.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the helpers of tests may do what tests may")]

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use sluicegate_conformance::reference::Clock;
use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::for_stores::StoreKey;
use sluicegate_core::kernel::Rule;
use sluicegate_core::{
    Ban, Costs, Decision, Error, HoldId, KeyPrefix, Limit, OnExpiry, Operation, Policy, Receipt,
    Request, Span, TimeSource, Timestamp,
};
use sluicegate_redis::{
    Program, Reply as Answer, Said, Script, Value, cancellation, read_reply, with_record,
    without_lane,
};
use sluicegate_testkit::lua::{Interpreter, Reply, SortedSet, StoredValue};

/// Maximum time in µs that a state's stamp may be ahead of the server's clock.
pub(crate) const MAX_CLOCK_BACK: u64 = 5_000_000;

pub(crate) struct Scripted {
    interpreter: Interpreter,
    clock: Clock,
    /// Whether keys expire by the server's clock, which is the default.
    pub(crate) expires: bool,
    /// Whether every call takes the general path.
    pub(crate) is_general: bool,
    /// The subjects so far, if each starts with the maximum number of inline records. All further
    /// records then have their own keys.
    crowded: Option<HashSet<Vec<u8>>>,
    limit: Limit,
    program: Program,
}

impl Scripted {
    pub(crate) fn new(policies: Vec<Policy>, clock: Clock) -> Self {
        let limit = limit(policies);
        Self {
            interpreter: Interpreter::new().unwrap(),
            clock,
            expires: true,
            is_general: false,
            crowded: None,
            program: program(&limit),
            limit,
        }
    }

    pub(crate) fn set_policies(&mut self, policies: Vec<Policy>) {
        self.limit = limit(policies).otherwise_as(&self.limit, 0);
        self.program = program(&self.limit);
    }

    /// Bans keys that are denied too often.
    pub(crate) fn banning(mut self, ban: Option<Ban>) -> Self {
        self.limit = self.limit.banning(ban);
        self.program = program(&self.limit);
        self
    }

    /// Sets the rule for holds that expire without being settled.
    pub(crate) fn with_on_expiry(mut self, on_expiry: OnExpiry) -> Self {
        self.limit = self.limit.with_on_expiry(on_expiry);
        self.program = program(&self.limit);
        self
    }

    /// Sets whether the inline records of each subject are full.
    pub(crate) fn crowded(mut self, crowded: bool) -> Self {
        self.crowded = crowded.then(HashSet::new);
        self
    }

    /// Returns the policies as a limit.
    pub(crate) fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Returns the number of commands that the scripts have called so far.
    pub(crate) fn calls(&self) -> usize {
        self.interpreter.calls()
    }

    /// Returns the bytes of values that the scripts have read so far.
    pub(crate) fn read(&self) -> usize {
        self.interpreter.read()
    }

    /// Runs `ask`, and returns its result and the number of script instructions.
    pub(crate) fn instructions<T>(&mut self, ask: impl FnOnce(&mut Self) -> T) -> (T, u64) {
        self.interpreter.count_instructions().unwrap();
        let answer = ask(self);
        (answer, self.interpreter.instructions())
    }

    /// Returns all stored values.
    pub(crate) fn stored(&self) -> HashMap<Vec<u8>, StoredValue> {
        self.interpreter.keys()
    }

    /// Replaces all stored values.
    pub(crate) fn store(&self, keys: HashMap<Vec<u8>, StoredValue>) {
        self.interpreter.set_keys(keys);
    }

    /// Deletes the keys that have expired at `now`.
    pub(crate) fn expire(&self, now: u64) {
        self.interpreter.set_now(now);
        self.interpreter.expire();
    }

    /// Returns the answer at `now` µs since the epoch.
    pub(crate) fn decide(
        &mut self,
        now: u64,
        subject: &[u8],
        operation: Operation<'_>,
        costs: Costs<'_>,
    ) -> Result<Decision, Error> {
        self.ask(now, &Request::new(operation, subject).costs(costs))
    }

    /// Returns the answer to a request that leaves a record of its charge.
    pub(crate) fn hold(
        &mut self,
        now: u64,
        request: &Request<'_>,
        id: HoldId,
        life: Span,
    ) -> Result<Decision, Error> {
        self.ask_call(now, request, request, Some((id, life)))
    }

    /// Gives back at most `most` units of each policy by such a record, and peeks at the remainder.
    pub(crate) fn give_back(
        &mut self,
        now: u64,
        subject: &[u8],
        most: &[u64],
        id: HoldId,
    ) -> Result<Decision, Error> {
        let taken_at = Timestamp::EPOCH;
        let request = Request::new(Operation::GiveBack { taken_at }, subject);
        let nothing = vec![0; most.len()];
        let peek = Request::new(Operation::Peek, subject).costs(Costs::Each(&nothing));
        self.ask_call(now, &request.costs(Costs::Each(most)), &peek, Some((id, Span::SECOND)))
    }

    /// Returns the members of a subject's holds.
    pub(crate) fn holds(&self, subject: &[u8]) -> Option<SortedSet> {
        self.interpreter.sets().remove(&self.holds_key(subject))
    }

    /// Returns the keys of all hold records.
    pub(crate) fn records(&self) -> HashMap<Vec<u8>, StoredValue> {
        let mut keys = self.stored();
        keys.retain(|key, _| key.windows(6).any(|part| part == b":hold#"));
        keys
    }

    /// Sets the count of a crowded subject's records to `count` instead of 1.
    pub(crate) fn count_holds(&self, subject: &[u8], count: u64) {
        let mut keys = self.stored();
        let states = keys.get_mut(&self.keys(subject)[0]).unwrap();
        // The count of the only group is stored directly before the inline records.
        let end = states.value.len() - FILLING.len();
        assert_eq!(states.value[end..], *FILLING);
        states.value[end - 7..end].copy_from_slice(&count.to_be_bytes()[1..]);
        self.store(keys);
    }

    fn crowd(&mut self, subject: &[u8]) {
        if self.crowded.as_mut().is_some_and(|asked| asked.insert(subject.to_vec())) {
            let mut keys = self.stored();
            let states = StoredValue { value: FILLING.clone(), expires_ms: Some(FAR / 1_000) };
            keys.insert(self.keys(subject).remove(0), states);
            self.store(keys);
        }
    }

    pub(crate) fn record_key(&self, subject: &[u8], id: HoldId) -> Vec<u8> {
        let names = StoreKey::new(&KeyPrefix::default(), self.limit.name(), &TimeSource::Store);
        let mut key = Vec::new();
        names.write_hold(subject, id, &mut key);
        key
    }

    fn holds_key(&self, subject: &[u8]) -> Vec<u8> {
        let names = StoreKey::new(&KeyPrefix::default(), self.limit.name(), &TimeSource::Store);
        let mut key = Vec::new();
        names.write_holds(subject, &mut key);
        key
    }

    /// Returns the members of a subject's reservation queue.
    pub(crate) fn line(&self, subject: &[u8]) -> Option<SortedSet> {
        self.interpreter.sets().remove(&self.line_key(subject))
    }

    fn line_key(&self, subject: &[u8]) -> Vec<u8> {
        let names = StoreKey::new(&KeyPrefix::default(), self.limit.name(), &TimeSource::Store);
        let mut key = Vec::new();
        names.write_line(subject, &mut key);
        key
    }

    /// Returns the keys that a cancellation reads.
    fn cancelled_keys(&self, receipt: &Receipt) -> Vec<Vec<u8>> {
        let subject = receipt.subject(0);
        let has_changes = receipt.parts().iter().any(|part| part.change.is_some());
        let states = has_changes.then(|| self.keys(subject).remove(0));
        let line = receipt.place().map(|_| self.line_key(subject));
        states.into_iter().chain(line).collect()
    }

    pub(crate) fn ask(&mut self, now: u64, request: &Request<'_>) -> Result<Decision, Error> {
        self.ask_call(now, request, request, None)
    }

    fn ask_call(
        &mut self,
        now: u64,
        request: &Request<'_>,
        read_as: &Request<'_>,
        hold: Option<(HoldId, Span)>,
    ) -> Result<Decision, Error> {
        request.validate(&self.limit)?;
        let subject = request.key();
        self.crowd(subject);
        let mut keys = self.keys(subject);
        let is_reset = request.operation() == Operation::Reset;
        if let Some(once) = request.idempotency() {
            let names = StoreKey::new(&KeyPrefix::default(), self.limit.name(), &TimeSource::Store);
            let mut more = [Vec::new(), Vec::new()];
            names.write_request(subject, once.id, &mut more[0]);
            names.write_ids(subject, &mut more[1]);
            keys.extend(more);
        }
        if request.is_in_line(&self.limit) || is_reset {
            keys.push(self.line_key(subject));
        }
        let has_set = self.limit.has_permits() || self.limit.has_returns();
        if hold.is_some() || request.needs_records(&self.limit) && !is_reset {
            let id = match (hold, request.operation(), request.holds()) {
                (Some((id, _)), ..) => id,
                (_, Operation::Settle { id, .. } | Operation::Renew { id, .. }, _) => id,
                (.., held) => held.map_or_else(|| HoldId::from_bytes([0; 16]), |hold| hold.id),
            };
            keys.push(self.record_key(subject, id));
            if has_set {
                keys.push(self.holds_key(subject));
            }
        }
        if is_reset {
            keys.push(self.holds_key(subject));
        }
        let max_clock_back = match self.clock {
            Clock::Injected => None,
            Clock::Own { max_clock_back_us } => {
                self.interpreter.set_now(now);
                if self.expires {
                    self.interpreter.expire();
                }
                Some(max_clock_back_us)
            }
        };
        let at = (self.clock == Clock::Injected).then_some(now);
        let at_time = at.map(|at| Timestamp::from_micros(at).unwrap());
        let (request, read_as) = (&request.at(at_time), &read_as.at(at_time));
        if let Operation::Cancel(receipt) = request.operation() {
            let reply = self.interpreter.eval(
                Script::get().text(),
                &self.cancelled_keys(receipt),
                &[cancellation(receipt, at)],
            );
            let is_given_back = match Said::of(to_value(reply.unwrap())).unwrap() {
                Said::Briefly(stamped) => stamped.is_allowed(),
                Said::Fully(items) => panic!("{items:?}"),
            };
            return Ok(Decision::cancelled(&self.limit, is_given_back));
        }
        let mut near = vec![now; self.limit.members().len()];
        for _ in 0..=near.len() {
            let mut program = self.program.bytes(&self.limit, request, |policy| near[policy], at);
            if let Some((id, life)) = hold {
                with_record(&self.limit, id, life, &mut program);
            }
            if self.is_general {
                without_lane(&mut program);
            }
            let reply = self.interpreter.eval(Script::get().text(), &keys, &[program]).unwrap();
            let said = Said::of(to_value(reply)).unwrap();
            match read_reply(&self.limit, read_as, max_clock_back, &said)? {
                Answer::Decided(decision) => return Ok(decision),
                Answer::AskAgain { policy, at } => near[policy] = at,
            }
        }
        panic!("asked again and again")
    }

    /// Returns the key of a subject's packed states, and the keys of logs that have their own.
    pub(crate) fn keys(&self, subject: &[u8]) -> Vec<Vec<u8>> {
        let names = StoreKey::new(&KeyPrefix::default(), self.limit.name(), &TimeSource::Store);
        let mut keys = vec![Vec::new()];
        names.write(subject, &mut keys[0]);
        for member in self.limit.members() {
            if let Rule::Log(log) = member.policy().rule()
                && (!log.is_ring() || log.horizon() / log.quantum() > 64)
            {
                let mut key = Vec::new();
                names.write_own(subject, member, &mut key);
                keys.push(key);
            }
        }
        keys
    }
}

/// End of the records that fill the inline slots, in µs since the epoch.
const FAR: u64 = 4_000_000_000_000_000;

/// The maximum number of inline records, with ids that no request uses.
static FILLING: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let ends = &FAR.to_be_bytes()[1..];
    let records = (u128::MAX - 7..=u128::MAX)
        .flat_map(|id| [&id.to_be_bytes(), &[1][..], ends, &[0, 0]].concat());
    let content = [ends, ends, &[8], &records.collect::<Vec<u8>>()].concat();
    let length = u16::try_from(content.len()).unwrap();
    [&[0x88, 0, 0, 0, 0, 0], &length.to_be_bytes()[..], &content].concat()
});

fn limit(policies: Vec<Policy>) -> Limit {
    Limit::new("test", policies).unwrap()
}

fn program(limit: &Limit) -> Program {
    Program::new(limit, Span::from_micros(MAX_CLOCK_BACK).unwrap())
}

fn to_value(reply: Reply) -> Value {
    match reply {
        Reply::Array(items) => Value::Array(items.into_iter().map(to_value).collect()),
        Reply::Bulk(text) => Value::Bytes(text.into()),
        Reply::Int(number) => Value::Int(number),
        Reply::Nil => Value::Nil,
    }
}
