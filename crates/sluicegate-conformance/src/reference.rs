//! The reference model: a slow and obvious implementation of every policy and operation, to compare
//! stores with.
//!
//! It is written from `docs/semantics.md` and shares no arithmetic with the kernels. Buckets are
//! exact fractions of a unit; windows and logs are recounted from the list of admissions. The model
//! tries every retry-after at that instant and one microsecond earlier, and panics if it
//! contradicts itself.

mod answer;
mod bans;
mod compare;
mod holding;
mod leasing;
mod line;
mod once;
mod operation;
mod pauses;
mod queueing;
mod seat;
mod target;

pub use crate::algorithms::{Refusal, Retry};
pub use answer::{Answer, Banned, Paused, PolicyAnswer, Repeat};
pub use compare::{differences, settlement_differences};
pub use holding::{Listed, Settlement};
pub use leasing::{Leasing, Outstanding};
pub use line::Reserved;
pub use operation::{Clock, Costs, Operation};

use std::collections::HashMap;

use sluicegate_core::{Algorithm, Ban, Hold, Policy, Queued, Ticket};

use crate::algorithms::{self, Account, Patience, Verdict};
use crate::times::micros;
use bans::Bans;
use holding::Holds;
use line::Line;
use once::Known;
use pauses::Pauses;
use queueing::{Asker, Waiter};
use seat::{Outcome, Seat, charge_all, judge_all, outcome, report, take};

/// A limit with the state of all its keys.
#[derive(Clone, Debug)]
pub struct Model {
    clock: Clock,
    policies: Vec<Named>,
    keys: HashMap<Vec<u8>, HashMap<String, Box<dyn Account>>>,
    holds: Holds,
    waiters: Vec<Waiter>,
    known: Known,
    ban: Option<Ban>,
    bans: Bans,
    pauses: Pauses,
    line: Line,
    /// Whether holds that expire without being settled are cancelled.
    returns: bool,
}

/// A policy with the name it has inside its limit, which is the identity of its state.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Named {
    name: String,
    policy: Policy,
}

impl Model {
    /// Creates a limit of `policies` under injected time, without any state.
    #[must_use]
    pub fn new(policies: Vec<Policy>) -> Self {
        Self::with_clock(policies, Clock::Injected)
    }

    /// Creates a limit with a clock, which determines what happens when time steps back.
    #[must_use]
    pub fn with_clock(policies: Vec<Policy>, clock: Clock) -> Self {
        Self {
            clock,
            policies: name_all(policies),
            keys: HashMap::new(),
            holds: Holds::default(),
            waiters: Vec::new(),
            known: Known::new(),
            ban: None,
            bans: Bans::default(),
            pauses: Pauses::default(),
            line: Line::default(),
            returns: false,
        }
    }

    /// Replaces the policies. A policy keeps its consumed units if its name, algorithm and window
    /// existed before.
    pub fn set_policies(&mut self, policies: Vec<Policy>) {
        let policies = name_all(policies);
        let kept = |name: &str| {
            let new = policies.iter().find(|named| named.name == name)?;
            let old = self.policies.iter().find(|named| named.name == name)?;
            algorithms::same_kind(old.policy.algorithm(), new.policy.algorithm()).then_some(())
        };
        for accounts in self.keys.values_mut() {
            accounts.retain(|name, _| kept(name).is_some());
        }
        self.policies = policies;
    }

    /// Decides `operation` for `key` at `now_us`, in microseconds since the Unix epoch.
    ///
    /// # Errors
    /// Returns an error if a number exceeds what a state can hold, or if a policy that can't be
    /// reserved ahead gets a reservation. Then nothing changes.
    pub fn apply(
        &mut self,
        now_us: u64,
        key: &[u8],
        operation: &Operation,
    ) -> Result<Answer, Refusal> {
        self.decide(now_us, key, operation, None, None, None)
    }

    /// Decides a request that holds what it takes, if it is a check, a charge or a take.
    ///
    /// # Errors
    /// Returns the errors of [`Model::apply`], and an error if the id is in use.
    pub fn apply_holding(
        &mut self,
        now_us: u64,
        key: &[u8],
        operation: &Operation,
        hold: &Hold,
    ) -> Result<Answer, Refusal> {
        self.decide(now_us, key, operation, None, Some(hold), None)
    }

    /// Decides a check that waits in a queue if necessary.
    ///
    /// # Errors
    /// Returns the errors of [`Model::apply_holding`], and an error if there is nothing to wait
    /// for.
    pub fn apply_waiting(
        &mut self,
        now_us: u64,
        key: &[u8],
        operation: &Operation,
        hold: &Hold,
        ticket: &Ticket,
    ) -> Result<Answer, Refusal> {
        self.can_wait(operation)?;
        self.decide(now_us, key, operation, None, Some(hold), Some((hold.id, ticket)))
    }

    /// Decides a request with the requests and reports of a lease holder. Only a check can request
    /// units ahead, and a peek can't report any.
    ///
    /// # Errors
    /// Returns the errors of [`Model::apply`], and an error if the limit can't be leased.
    pub fn apply_leasing(
        &mut self,
        now_us: u64,
        key: &[u8],
        operation: &Operation,
        leasing: Option<&Leasing>,
    ) -> Result<Answer, Refusal> {
        self.decide(now_us, key, operation, leasing, None, None)
    }

    fn decide(
        &mut self,
        now_us: u64,
        key: &[u8],
        operation: &Operation,
        leasing: Option<&Leasing>,
        hold: Option<&Hold>,
        asker: Option<Asker<'_>>,
    ) -> Result<Answer, Refusal> {
        if leasing.is_some() && !self.is_leasable() {
            return Err(Refusal::NotLeasable);
        }
        if matches!(operation, Operation::Reserve { .. }) && !self.is_bookable() {
            return Err(Refusal::NotReservable);
        }
        if hold.is_none() && self.needs_hold(operation) {
            return Err(Refusal::NeedsHold);
        }
        if let Some(refused) = self.refused(now_us, key, operation) {
            return Ok(refused);
        }
        if hold.is_some_and(|hold| self.has_hold(now_us, key, hold.id)) {
            return Err(Refusal::IdInUse);
        }
        if *operation == Operation::Reset {
            return self.decide_now(now_us, key, operation, leasing, hold, asker);
        }
        let only_looks = matches!(operation, Operation::Peek { .. });
        self.after_returns((now_us, key), only_looks, |model| {
            model.decide_now(now_us, key, operation, leasing, hold, asker)
        })
    }

    /// Decides a request that no ban or pause refuses.
    fn decide_now(
        &mut self,
        now_us: u64,
        key: &[u8],
        operation: &Operation,
        leasing: Option<&Leasing>,
        hold: Option<&Hold>,
        asker: Option<Asker<'_>>,
    ) -> Result<Answer, Refusal> {
        let mut seats = self.seats(now_us, key, operation)?;
        if *operation != Operation::Reset {
            for seat in &mut seats {
                let [ahead, behind, own] = self.line_up(now_us, key, seat.named, asker);
                seat.account.set_line(ahead, behind, own);
            }
        }
        if let Some(hold) = hold {
            let until = now_us + micros(hold.lasts);
            seats.iter_mut().for_each(|seat| seat.account.hold_until(until));
        }
        if let Some(leasing) = leasing {
            leasing::hear(&mut seats, leasing)?;
        }
        let mut lease = None;
        let answer = match operation {
            Operation::Check { .. } => {
                let outcome = judge_all(&mut seats, Patience::Plain)?;
                charge_all(&mut seats, &outcome)?;
                if let Some(leasing) = leasing.filter(|_| outcome.allowed) {
                    lease = leasing::grant(&mut seats, now_us, leasing)?;
                }
                outcome
            }
            Operation::Peek { .. } => judge_all(&mut seats, Patience::Plain)?,
            Operation::Reserve { within_us, .. } => {
                let outcome = judge_all(&mut seats, Patience::Within(*within_us))?;
                charge_all(&mut seats, &outcome)?;
                outcome
            }
            Operation::Take { .. } => take(&mut seats)?,
            Operation::Charge { .. } => {
                for seat in seats.iter_mut().filter(|seat| seat.units > 0) {
                    seat.account.admit(seat.named.policy.algorithm(), seat.at, seat.units, 0)?;
                    seat.taken = seat.units;
                }
                Outcome::ALLOWED
            }
            Operation::Refund { .. } => {
                for seat in seats.iter_mut().filter(|seat| seat.units > 0) {
                    seat.account.refund(seat.named.policy.algorithm(), seat.at, seat.units)?;
                }
                Outcome::ALLOWED
            }
            Operation::GiveBack { taken_at_us, .. } => {
                for seat in seats.iter_mut().filter(|seat| seat.units > 0) {
                    let algorithm = seat.named.policy.algorithm();
                    seat.account.give_back(algorithm, seat.at, seat.units, *taken_at_us, None)?;
                }
                Outcome::ALLOWED
            }
            Operation::Reset => {
                for seat in &mut seats {
                    // The newest time is reset too.
                    seat.at = now_us;
                    seat.account.reset(seat.named.policy.algorithm(), now_us);
                }
                Outcome::ALLOWED
            }
            // Other operations evaluate no policy.
            _ => Outcome::ALLOWED,
        };
        let verdict = (answer.allowed, answer.retry);
        let asked = asker.map(|asker| self.after_asking(now_us, key, asker, &seats, verdict));
        let (waiters, queued) = asked.transpose()?.unwrap_or_else(|| (self.waiters.clone(), None));
        if let Some((id, _)) = asker {
            let then = Self { waiters: waiters.clone(), ..self.clone() };
            for seat in &mut seats {
                // Count the waiters after this request, which may include the caller.
                let asker = asker.map(|(_, ticket)| (id, ticket));
                let [ahead, behind, own] = then.line_up(now_us, key, seat.named, asker);
                seat.account.set_line(ahead, behind, own);
            }
        }
        let waits = matches!(queued, Some(Queued::Waits { .. }));
        let (denials, ban, ban_restamped) =
            self.count_denial((now_us, key), operation, answer.allowed || waits, &seats);
        let (pauses, pause, resumed) = self.pauses_after(now_us, key, operation);
        let restamped = ban_restamped || seats.iter().any(|seat| seat.restamped);
        let hold = hold.filter(|_| answer.allowed);
        if let Some(hold) = hold {
            holding::hold(&mut seats, now_us, hold)?;
        }
        let policies = seats.iter().map(report).collect::<Result<_, _>>()?;
        let stored = self.keys.get(key);
        let held =
            hold.and_then(|hold| holding::record(stored, now_us, hold, self.returns, &seats));
        let holds = held.is_some();
        if !matches!(operation, Operation::Peek { .. }) {
            let accounts =
                seats.into_iter().map(|seat| (seat.named.name.clone(), seat.account)).collect();
            self.keys.insert(key.to_vec(), accounts);
            if let Some(denials) = denials {
                self.bans.insert(key.to_vec(), denials);
            }
            self.pauses.insert(key.to_vec(), pauses);
        }
        if let Some((hold, held)) = hold.zip(held) {
            self.free(key, hold.id);
            self.holds.insert((key.to_vec(), hold.id), held);
        }
        self.waiters = waiters;
        if *operation == Operation::Reset {
            self.holds.retain(|(holder, _), _| holder != key);
            self.waiters.retain(|waiter| waiter.key != key);
            self.leave_line(key);
        }
        Ok(Answer {
            allowed: answer.allowed,
            binding: answer.binding,
            wait_us: answer.wait_us,
            retry: match ban {
                Some(ban) if !answer.allowed => answer.retry.max(Retry::After(ban.ends_in_us)),
                _ => answer.retry,
            },
            granted: answer.granted,
            lease,
            holds,
            queued,
            repeat: Repeat::No,
            ban,
            pause,
            resumed,
            restamped,
            policies,
        })
    }

    fn is_bookable(&self) -> bool {
        self.policies.iter().all(|named| algorithms::is_bookable(named.policy.algorithm()))
    }

    fn seats(
        &self,
        now_us: u64,
        key: &[u8],
        operation: &Operation,
    ) -> Result<Vec<Seat<'_>>, Refusal> {
        let seat = |(index, named)| {
            let (account, restamped) = self.account(now_us, key, named, operation)?;
            let at = account.newest().map_or(now_us, |newest| newest.max(now_us));
            let units = operation.units_for(index, named.policy.cost().get());
            Ok(Seat {
                named,
                account,
                at,
                units,
                taken: 0,
                slot: None,
                restamped,
                verdict: Verdict::ADMITTED,
            })
        };
        self.policies.iter().enumerate().map(seat).collect()
    }

    /// Returns the state of one policy as it is evaluated now, and whether it was restamped.
    fn account(
        &self,
        now_us: u64,
        key: &[u8],
        named: &Named,
        operation: &Operation,
    ) -> Result<(Box<dyn Account>, bool), Refusal> {
        if matches!(named.policy.algorithm(), Algorithm::Concurrency { .. }) {
            let is_reset = *operation == Operation::Reset;
            let held = if is_reset { Vec::new() } else { self.in_flight(key, &named.name) };
            return Ok((Box::new(algorithms::Permits::of(held)), false));
        }
        let stored = self.keys.get(key).and_then(|accounts| accounts.get(&named.name));
        let mut account = stored
            .map_or_else(|| algorithms::fresh(named.policy.algorithm()), |account| account.boxed());
        if let (Operation::Reset, Some(newest)) = (operation, account.newest()) {
            // A state that is reset can't be too large for the new numbers.
            account.reset(named.policy.algorithm(), newest);
        }
        let ahead = account.newest().is_some_and(|newest| match self.clock {
            Clock::Injected => false,
            Clock::Own { max_clock_back_us } => newest > now_us + max_clock_back_us,
        });
        if ahead {
            account.restamp(named.policy.algorithm(), now_us)?;
        }
        Ok((account, ahead))
    }
}

/// Names the policies. One without a name gets its algorithm's name, then `-2`, `-3` in order.
fn name_all(policies: Vec<Policy>) -> Vec<Named> {
    let mut unnamed: HashMap<&'static str, usize> = HashMap::new();
    let name = |policy: Policy| {
        let name = policy.name().map_or_else(
            || {
                let word = policy.algorithm().keyword();
                let count = unnamed.entry(word).or_default();
                *count += 1;
                if *count == 1 { word.to_owned() } else { format!("{word}-{count}") }
            },
            ToString::to_string,
        );
        Named { name, policy }
    };
    policies.into_iter().map(name).collect()
}
