//! The permits kernel: at most so many units in flight at once, each under the id of a hold.
//!
//! It has no state of its own: what is in flight is what the [book](crate::Book) of the subject holds
//! of the policy, so that a permit ends when its record does, whoever took it. This is a counting
//! semaphore with leases (C. Gray and D. Cheriton, "Leases: an efficient fault-tolerant mechanism for
//! distributed file cache consistency", 1989).

use std::fmt;

use super::{Admission, FixedKind, Kernel, Now, Overflow, Quota, SpecFormat, Taken, Verdict};
use crate::algorithm::Algorithm;
use crate::error::PolicyError;
use crate::number::MAX_EXACT;
use crate::spec::{Amount, Grammar, OptionWord};
use crate::time::Span;

/// The rule of a number of permits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Permits {
    limit: u64,
    /// For how long a permit is held at most, in µs, unless it is renewed.
    hold: u64,
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
}

impl Permits {
    /// The largest number of permits.
    pub const MAX_LIMIT: u64 = 65_536;

    pub(super) fn new(limit: u64, hold: Span) -> Result<Self, PolicyError> {
        if limit > Self::MAX_LIMIT {
            return Err(PolicyError::new(
                "limit",
                format!("{limit} is above {}, the largest number of permits", Self::MAX_LIMIT),
            ));
        }
        let (least, most) = (crate::hold::Hold::MIN_LASTS, crate::hold::Hold::MAX_LASTS);
        if !(least..=most).contains(&hold) {
            return Err(PolicyError::new(
                "hold",
                format!("{hold} is out of range: a permit is held for {least} to {most}"),
            ));
        }
        Ok(Self { limit, hold: hold.as_micros() })
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
    /// Newest time and units in flight: where a store's records can't be added up each time.
    const FIXED: FixedKind = FixedKind { kind: 0x06, numbers: 2 };

    type State = State;
    type Balance = Balance;

    fn balance(&self, _state: Option<State>, now: Now) -> Result<(Balance, bool), Overflow> {
        Ok((Balance { at: now.micros, ..Balance::default() }, false))
    }

    fn judge(&self, balance: &Balance, cost: u64, _within: Option<u64>) -> Verdict {
        if cost > self.limit {
            return Verdict::Refuse { retry: None };
        }
        let mut excess = self.excess(balance.in_flight, cost);
        if excess == 0 {
            return Verdict::Pass { wait: 0 };
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

    fn admit(&self, balance: &mut Balance, admission: Admission) -> Result<(), Overflow> {
        let in_flight = balance.in_flight + admission.cost;
        if in_flight > MAX_EXACT {
            return Err(Overflow);
        }
        balance.in_flight = in_flight;
        balance.last_end = balance.last_end.max(balance.new_end);
        Ok(())
    }

    fn can_admit(&self, balance: &Balance, admission: Admission) -> Result<(), Overflow> {
        if balance.in_flight + admission.cost > MAX_EXACT { Err(Overflow) } else { Ok(()) }
    }

    /// Nothing: a denied request holds no permit.
    fn charge_denied(&self, _balance: &mut Balance, _cost: u64) -> Result<(), Overflow> {
        Ok(())
    }

    /// Nothing: a permit is given back by its id.
    fn refund(&self, _balance: &mut Balance, _units: u64) -> u64 {
        0
    }

    /// All of them: what was in flight is no longer.
    fn give_back(&self, balance: &mut Balance, taken: Taken) -> Option<u64> {
        balance.in_flight = balance.in_flight.saturating_sub(taken.units);
        Some(taken.units)
    }

    fn remaining(&self, balance: &Balance) -> u64 {
        self.limit.saturating_sub(balance.in_flight)
    }

    fn reset_after(&self, balance: &Balance) -> u64 {
        balance.last_end.saturating_sub(balance.at)
    }

    fn used(&self, _state: &State, _now: Now) -> u64 {
        0
    }

    fn is_known(&self, _balance: &Balance) -> bool {
        true
    }

    fn judged_at(balance: &Balance) -> u64 {
        balance.at
    }

    fn state(&self, _balance: Balance) -> Option<State> {
        None
    }

    fn newest(_state: &State) -> u64 {
        0
    }

    fn limit(&self) -> u64 {
        self.limit
    }

    fn write(_state: &State, _numbers: &mut Vec<u64>) {}

    fn read(_numbers: &[u64]) -> Option<State> {
        None
    }

    fn retention(&self) -> u64 {
        self.hold
    }
}

impl SpecFormat for Permits {
    const GRAMMARS: &'static [Grammar] = &[Grammar {
        word: "concurrency",
        amount: Amount::Number,
        options: &[OptionWord::value("hold", "T", "30s")],
        example: "concurrency 10 hold 30s",
        read: |spec| {
            let hold = spec.span("hold")?.ok_or_else(|| spec.missing("hold T"))?;
            Ok(Algorithm::Concurrency { permits: spec.count()?, hold })
        },
    }];

    fn write_spec(algorithm: &Algorithm, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match algorithm {
            Algorithm::Concurrency { permits, hold } => write!(f, "{permits} hold {hold}"),
            _ => Ok(()),
        }
    }

    fn quota(&self, _: &Algorithm) -> Quota {
        Quota { units: self.limit, window: None }
    }
}
