//! The permits kernel: a maximum number of units in flight, each under a hold id.
//!
//! It has no state of its own. The units in flight are the policy's holds in the
//! [book](crate::for_stores::Book) of the subject. A permit therefore ends with its record,
//! regardless of its holder. This is a counting semaphore with leases (C. Gray and D. Cheriton,
//! "Leases: an efficient fault-tolerant mechanism for distributed file cache consistency", 1989).

use std::fmt;

use super::{
    Charge, FixedKind, Kernel, Layout, Leases, Now, Overflow, Profile, Quota, Report, SpecFormat,
    Taken, Verdict,
};
use crate::algorithm::{Algorithm, Queue};
use crate::error::PolicyError;
use crate::hold::Hold;
use crate::number::MAX_EXACT;
use crate::spec::{Amount, Grammar, OptionWord};
use crate::time::Span;

/// The rule of a number of permits.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Permits {
    limit: u64,
    /// The maximum time that a permit is held without renewal, in µs.
    hold: u64,
    /// The maximum number of waiters; 0 for no queue.
    queue: u64,
    priorities: u8,
}

/// An empty state: a store keeps the records of holds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct State;

/// The units in flight at the evaluation time.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Balance {
    /// The evaluation time, in µs since the epoch.
    pub at: u64,
    /// The units in flight.
    pub in_flight: u64,
    /// The time when the last of them ends, in µs since the epoch.
    pub last_end: u64,
    /// The time when the units of this request will end.
    pub new_end: u64,
    /// The times when the first units end, in order, with the number of units that end then. The
    /// list has the units that a request may have to wait for, up to the counting limit.
    pub ends: Vec<(u64, u64)>,
    /// The waiters, if there is a queue.
    pub waiting: Waiting,
}

/// The units for which tickets wait. If they are more than the free units, their exact number
/// doesn't matter, so a sum is then some number above that.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Waiting {
    /// The units of the tickets ahead of the request.
    pub ahead: u64,
    /// The units of all tickets except for the request's own.
    pub others: u64,
    /// The time when the last of those tickets ends, in µs since the epoch.
    pub others_end: u64,
    /// The units of the request's own ticket, if it has one.
    pub own: u64,
    /// The time when that ticket ends.
    pub own_end: u64,
}

impl Permits {
    /// The largest number of permits.
    pub const MAX_LIMIT: u64 = 65_536;

    pub(crate) fn new(limit: u64, hold: Span, queue: Option<Queue>) -> Result<Self, PolicyError> {
        if limit > Self::MAX_LIMIT {
            return Err(PolicyError::new(
                "limit",
                format!("{limit} is above {}, the largest number of permits", Self::MAX_LIMIT),
            ));
        }
        let (least, most) = (Span::from(Hold::MIN_LASTS), Span::from(Hold::MAX_LASTS));
        if !(least..=most).contains(&hold) {
            return Err(PolicyError::new(
                "hold",
                format!("{hold} is out of range: a permit is held for {least} to {most}"),
            ));
        }
        let length = queue.map_or(1, |queue| queue.length);
        if !(1..=Queue::MAX_LENGTH).contains(&length) {
            let most = Queue::MAX_LENGTH;
            return Err(PolicyError::new(
                "queue",
                format!("{length} is out of range: 1 to {most} can wait"),
            ));
        }
        let count = queue.map_or(1, |queue| queue.priorities);
        let in_range = Some(count).filter(|count| (1..=Queue::MAX_PRIORITIES).contains(count));
        let Some(priorities) = in_range.and_then(|count| u8::try_from(count).ok()) else {
            let most = Queue::MAX_PRIORITIES;
            return Err(PolicyError::new(
                "priorities",
                format!("{count} is out of range: there are 1 to {most} priorities"),
            ));
        };
        let queue = queue.map_or(0, |queue| queue.length);
        Ok(Self { limit, hold: hold.as_micros(), queue, priorities })
    }

    /// Returns the maximum number of waiters; 0 for no queue.
    #[must_use]
    pub const fn queue(&self) -> u64 {
        self.queue
    }

    /// Returns the number of priorities. Priority 0 is the highest.
    #[must_use]
    pub const fn priorities(&self) -> u8 {
        self.priorities
    }

    /// Returns the free units, regardless of waiters.
    #[must_use]
    pub const fn free(&self, in_flight: u64) -> u64 {
        self.limit.saturating_sub(in_flight)
    }

    /// Returns the maximum time that a permit is held without renewal, in µs.
    #[must_use]
    pub const fn hold(&self) -> u64 {
        self.hold
    }

    /// Returns the units that have to end before a cost passes; 0 if it passes now.
    #[must_use]
    pub const fn excess(&self, in_flight: u64, cost: u64) -> u64 {
        in_flight.saturating_add(cost).saturating_sub(self.limit)
    }
}

impl Kernel for Permits {
    /// Newest time, units in flight, and the ends of the first and the last record. For a store
    /// that can't examine its records each time.
    const FIXED: FixedKind = FixedKind { kind: 0x06, numbers: 4 };

    const LEASES: Option<Leases<Self>> = None;

    type State = State;
    type Balance = Balance;

    fn profile(&self) -> Profile {
        Profile {
            limit: self.limit,
            retention: self.hold,
            layout: Layout::Fixed(Self::FIXED),
            flow: None,
            can_reserve: false,
            is_shaper: false,
            can_lease: false,
        }
    }

    fn balance(&self, _state: Option<State>, now: Now) -> Result<(Balance, bool), Overflow> {
        Ok((Balance { at: now.micros, ..Balance::default() }, false))
    }

    fn judge(&self, balance: &Balance, cost: u64, _within: Option<u64>) -> Verdict {
        if cost > self.limit {
            return Verdict::Refuse { retry: None };
        }
        let mut excess = self.excess(balance.in_flight, cost);
        let ahead = balance.waiting.ahead;
        if self.excess(balance.in_flight.saturating_add(ahead), cost) == 0 {
            return Verdict::Pass { wait: 0 };
        }
        // Waiters ahead may take the units that end. By the latest end, all of them have taken
        // theirs or left.
        if ahead > 0 {
            let last_end = balance.last_end.max(balance.waiting.others_end);
            return Verdict::Refuse { retry: Some(last_end.saturating_sub(balance.at).max(1)) };
        }
        let mut enough = balance.last_end;
        for (until, units) in &balance.ends {
            excess = excess.saturating_sub(*units);
            if excess == 0 {
                enough = *until;
                break;
            }
        }
        Verdict::Refuse { retry: Some(enough.saturating_sub(balance.at).max(1)) }
    }

    /// Charges an admitted request; a denied one holds no permit.
    fn charge(&self, balance: &mut Balance, charge: Charge) -> Result<(), Overflow> {
        self.can_charge(balance, charge)?;
        if let Charge::Admitted { cost, .. } = charge {
            balance.in_flight += cost;
            balance.last_end = balance.last_end.max(balance.new_end);
        }
        Ok(())
    }

    fn can_charge(&self, balance: &Balance, charge: Charge) -> Result<(), Overflow> {
        match charge {
            Charge::Admitted { cost, .. } if balance.in_flight + cost > MAX_EXACT => Err(Overflow),
            _ => Ok(()),
        }
    }

    /// Gives nothing back: a permit is given back by its id.
    fn refund(&self, _balance: &mut Balance, _units: u64) -> Option<u64> {
        Some(0)
    }

    /// Gives all units back: they are no longer in flight.
    fn give_back(&self, balance: &mut Balance, taken: Taken) -> Option<u64> {
        balance.in_flight = balance.in_flight.saturating_sub(taken.units);
        Some(taken.units)
    }

    fn report(&self, balance: &Balance) -> Report {
        let Waiting { others, own, others_end, own_end, .. } = balance.waiting;
        let end = balance.last_end.max(others_end).max(own_end);
        Report {
            evaluated_at: balance.at,
            remaining: self.free(balance.in_flight).saturating_sub(others.saturating_add(own)),
            reset: end.saturating_sub(balance.at),
            ..Report::default()
        }
    }

    fn used(&self, _state: &State, _now: Now) -> u64 {
        0
    }

    fn state(&self, _balance: Balance) -> Option<State> {
        None
    }

    fn newest(_state: &State) -> u64 {
        0
    }

    fn write(_state: &State, _numbers: &mut Vec<u64>) {}

    fn read(_numbers: &[u64]) -> Option<State> {
        None
    }
}

impl SpecFormat for Permits {
    const GRAMMARS: &'static [Grammar] = &[Grammar {
        word: "concurrency",
        amount: Amount::Number,
        options: &[
            OptionWord::value("hold", "T", "30s"),
            OptionWord::value("queue", "M", "100"),
            OptionWord::value("priorities", "P", "3"),
        ],
        example: "concurrency 10 hold 30s",
        read: |spec| {
            let hold = spec.time("hold")?.ok_or_else(|| spec.missing("hold T"))?;
            let priorities = spec.number("priorities")?;
            let queue = match (spec.number("queue")?, priorities) {
                (None, Some(_)) => return Err(spec.missing("queue M")),
                (None, None) => None,
                (Some(length), priorities) => {
                    Some(Queue { length, priorities: priorities.unwrap_or(1) })
                }
            };
            Ok(Algorithm::Concurrency { permits: spec.count()?, hold, queue })
        },
    }];

    fn write_spec(algorithm: &Algorithm, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match algorithm {
            Algorithm::Concurrency { permits, hold, queue } => {
                write!(f, "{permits} hold {}", Span::from(*hold))?;
                match queue {
                    None => Ok(()),
                    Some(Queue { length, priorities: 1 }) => write!(f, " queue {length}"),
                    Some(Queue { length, priorities }) => {
                        write!(f, " queue {length} priorities {priorities}")
                    }
                }
            }
            _ => Ok(()),
        }
    }

    fn quota(&self, _: &Algorithm) -> Quota {
        Quota { units: self.limit, window: None }
    }
}
