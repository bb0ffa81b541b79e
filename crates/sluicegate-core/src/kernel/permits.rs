//! The permits kernel: at most so many units in flight at once, each under the id of a hold.
//!
//! It has no state of its own: what is in flight is what the [book](crate::for_stores::Book) of the subject holds
//! of the policy, so that a permit ends when its record does, whoever took it. This is a counting
//! semaphore with leases (C. Gray and D. Cheriton, "Leases: an efficient fault-tolerant mechanism for
//! distributed file cache consistency", 1989).

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
    /// For how long a permit is held at most, in µs, unless it is renewed.
    hold: u64,
    /// How many wait at most; 0 for no queue.
    queue: u64,
    priorities: u8,
}

/// None: a store keeps the records of what is held.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct State;

/// What is in flight at the time of judgement.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Balance {
    /// The time of judgement, in µs since the epoch.
    pub at: u64,
    /// The units in flight.
    pub in_flight: u64,
    /// When the last of them ends, in µs since the epoch.
    pub last_end: u64,
    /// When those end that the request takes.
    pub new_end: u64,
    /// When the first of them end, in order, and how many each time: as many as anybody may have to wait
    /// for, or as are looked at.
    pub ends: Vec<(u64, u64)>,
    /// Who waits, if there is a queue.
    pub waiting: Waiting,
}

/// The units that tickets wait for. Where those are more than what is free, nobody needs to know how many:
/// then the sums are some number above that.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Waiting {
    /// Of the tickets that come before the request.
    pub ahead: u64,
    /// Of all tickets but the request's own.
    pub others: u64,
    /// When the last of those ends, in µs since the epoch.
    pub others_end: u64,
    /// Of the request's own ticket, if it has one,
    pub own: u64,
    /// and when that ends.
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
        let (least, most) = (Hold::MIN_LASTS, Hold::MAX_LASTS);
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

    /// How many wait at most; 0 for no queue.
    #[must_use]
    pub const fn queue(&self) -> u64 {
        self.queue
    }

    /// How many priorities there are. They count from 0, which is the highest.
    #[must_use]
    pub const fn priorities(&self) -> u8 {
        self.priorities
    }

    /// The units that are in nobody's hands, whoever waits for them.
    #[must_use]
    pub const fn free(&self, in_flight: u64) -> u64 {
        self.limit.saturating_sub(in_flight)
    }

    /// For how long a permit is held at most, in µs, unless it is renewed.
    #[must_use]
    pub const fn hold(&self) -> u64 {
        self.hold
    }

    /// The units that have to end before a cost passes; 0 if it does.
    #[must_use]
    pub const fn excess(&self, in_flight: u64, cost: u64) -> u64 {
        in_flight.saturating_add(cost).saturating_sub(self.limit)
    }
}

impl Kernel for Permits {
    /// Newest time, units in flight, and when the first and the last record end: where a store's records can't
    /// be looked through each time.
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
        // Those who come first may take what ends: by then they have all taken it, or gone.
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

    /// A denied request holds no permit.
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

    /// Nothing: a permit is given back by its id.
    fn refund(&self, _balance: &mut Balance, _units: u64) -> Option<u64> {
        Some(0)
    }

    /// All of them: what was in flight is no longer.
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
            let hold = spec.span("hold")?.ok_or_else(|| spec.missing("hold T"))?;
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
                write!(f, "{permits} hold {hold}")?;
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
