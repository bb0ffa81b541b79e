//! A rule together with a state.

use super::permits::{self, Permits};
use super::{Admission, Kernel, NEVER, Now, Overflow, Reading, Rule, State, Taken, Verdict};
use crate::{for_each_kernel, match_kernel};

macro_rules! account {
    (() $($(#[$_:meta])* $name:ident: $kernel:ty,)*) => {
        /// A rule and a state as of the time of judgement, which no other rule can judge.
        #[derive(Clone, Debug)]
        pub(crate) enum Account<'r> {
            $($name(Bound<'r, $kernel>),)*
            /// A log that stays in the store, which judged it.
            Read(Reading),
        }

        impl<'r> Account<'r> {
            /// Brings a state to the time of judgement; a state of another kernel counts as
            /// absent. The flag is set if it was restamped.
            pub(crate) fn open(
                rule: &'r Rule,
                state: Option<State>,
                now: Now,
            ) -> Result<(Self, bool), Overflow> {
                Ok(match rule {
                    $(Rule::$name(rule) => {
                        let state = match state {
                            Some(State::$name(state)) => Some(state),
                            _ => None,
                        };
                        let (balance, restamped) = rule.balance(state, now)?;
                        (Self::$name(Bound { rule, balance }), restamped)
                    })*
                })
            }

            /// The same account, brought on to a later time.
            ///
            /// # Errors
            /// Never for a state that this account could be opened with.
            pub(crate) fn later(self, micros: u64) -> Result<Self, Overflow> {
                let then = Now { micros, max_clock_back: None };
                Ok(match self {
                    $(Self::$name(Bound { rule, balance }) => {
                        let (balance, _) = rule.balance(rule.state(balance), then)?;
                        Self::$name(Bound { rule, balance })
                    })*
                    Self::Read(reading) => Self::Read(reading),
                })
            }

            /// The state to keep; `None` if there is nothing to keep.
            pub(crate) fn into_state(self) -> Option<State> {
                match self {
                    $(Self::$name(bound) => bound.into_state().map(State::$name),)*
                    Self::Read(_) => None,
                }
            }
        }
    };
}

for_each_kernel!([account]);

impl<'r> Account<'r> {
    /// What is in flight, which no state says.
    pub(crate) const fn in_flight(rule: &'r Permits, balance: permits::Balance) -> Self {
        Self::Permits(Bound { rule, balance })
    }

    /// What is in flight is as before, and the ticket of who asks is another one, or none: its units, and
    /// when it ends.
    pub(crate) const fn set_own_ticket(&mut self, (units, end): (u64, u64)) {
        if let Self::Permits(Bound { balance, .. }) = self {
            (balance.waiting.own, balance.waiting.own_end) = (units, end);
        }
    }
}

#[derive(Debug)]
pub(crate) struct Bound<'r, K: Kernel> {
    rule: &'r K,
    balance: K::Balance,
}

impl<K: Kernel> Clone for Bound<'_, K> {
    fn clone(&self) -> Self {
        Self { rule: self.rule, balance: self.balance.clone() }
    }
}

/// What a policy is charged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Charge {
    Admitted(Admission),
    Denied { cost: u64 },
    None,
}

impl Account<'_> {
    pub(crate) fn judge(&self, cost: u64, within: Option<u64>) -> Verdict {
        match_kernel!(Self, self, bound => bound.rule.judge(&bound.balance, cost, within);
            Self::Read(reading) => reading.verdict)
    }

    /// Fails if [`Account::charge`] would, without changing anything.
    pub(crate) fn can_charge(&self, charge: Charge) -> Result<(), Overflow> {
        match_kernel!(Self, self, bound => bound.can_charge(charge);
            Self::Read(_) => Ok(()))
    }

    pub(crate) fn charge(&mut self, charge: Charge) -> Result<(), Overflow> {
        match_kernel!(Self, self, bound => bound.charge(charge);
            Self::Read(_) => Ok(()))
    }

    /// Returns the units given back.
    pub(crate) fn refund(&mut self, units: u64) -> Option<u64> {
        Some(match_kernel!(Self, self, bound => bound.rule.refund(&mut bound.balance, units);
            Self::Read(reading) => reading.given_back))
    }

    /// Returns the units given back; `None` if the balance didn't change.
    pub(crate) fn give_back(&mut self, taken: Taken) -> Option<u64> {
        match_kernel!(Self, self, bound => bound.rule.give_back(&mut bound.balance, taken);
            Self::Read(reading) => Some(reading.given_back))
    }

    /// What a unit comes to, and how many flow back, of a kernel to which that matters.
    pub(crate) fn flow(&self) -> Option<(u64, u64)> {
        match_kernel!(Self, self, bound => bound.rule.flow();
            Self::Read(_) => None)
    }

    /// For [`Rule::whole_units`].
    pub(crate) fn remaining_ticks(&self) -> u64 {
        match_kernel!(Self, self, bound => bound.rule.remaining_ticks(&bound.balance);
            Self::Read(reading) => reading.remaining)
    }

    /// The same before a charge that the store made itself.
    pub(crate) fn remaining_before(&self) -> u64 {
        match_kernel!(Self, self, bound => bound.rule.remaining(&bound.balance);
            Self::Read(reading) => reading.remaining_before)
    }

    /// The same, for [`Rule::whole_micros`].
    pub(crate) fn reset_ticks(&self) -> u64 {
        match_kernel!(Self, self, bound => bound.rule.reset_ticks(&bound.balance);
            Self::Read(reading) => reading.reset_after)
    }

    /// The µs from `now` for which the state is worth keeping.
    pub(crate) fn keep_for(&self, now: Now) -> u64 {
        match_kernel!(Self, self, bound => bound.keep_for(now);
            Self::Read(reading) => reading.reset_after)
    }

    pub(crate) fn counts(&self) -> (u64, u64) {
        match_kernel!(Self, self, bound => bound.rule.counts(&bound.balance);
            Self::Read(reading) => (reading.total, reading.current))
    }

    pub(crate) fn violated(&self, cost: u64) -> u32 {
        match_kernel!(Self, self, bound => bound.rule.violated(&bound.balance, cost);
            Self::Read(reading) => reading.violated)
    }

    /// The time of judgement, in µs since the epoch.
    pub(crate) fn judged_at(&self) -> u64 {
        match_kernel!(Self, self, bound => bound.judged_at();
            Self::Read(reading) => reading.judged_at)
    }

    /// Whether what is used flows back as time passes.
    pub(crate) fn drains(&self) -> bool {
        match_kernel!(Self, self, bound => bound.drains();
            Self::Read(_) => false)
    }

    /// Counts at least so many units as used.
    pub(crate) fn pin(&mut self, units: u64) {
        match_kernel!(Self, self, bound => bound.rule.pin(&mut bound.balance, units);
            Self::Read(_) => {});
    }

    /// Counts no more as used than another account of the same rule does.
    pub(crate) fn lower_to(&mut self, other: &Self) {
        if let (Self::Bucket(Bound { rule, balance }), Self::Bucket(other)) = (self, other) {
            rule.lower_to(balance, &other.balance);
        }
    }

    /// The units that count as used beyond a number of them, rounded up.
    pub(crate) fn used_beyond(&self, units: u64) -> u64 {
        match_kernel!(Self, self, bound => bound.rule.used_beyond(&bound.balance, units);
            Self::Read(_) => 0)
    }

    /// When every lease is over, in µs since the epoch.
    pub(crate) fn leases_end(&self) -> u64 {
        match_kernel!(Self, self, bound => bound.rule.leases_end(&bound.balance);
            Self::Read(_) => 0)
    }

    /// The largest cost that a fresh key admits.
    pub(crate) fn limit(&self) -> u64 {
        match_kernel!(Self, self, bound => bound.rule.limit();
            Self::Read(_) => NEVER)
    }

    /// How many [ticks until a reset](Account::reset_ticks) make a µs.
    pub(crate) fn ticks_per_micro(&self) -> u64 {
        match_kernel!(Self, self, bound => bound.rule.ticks_per_micro();
            Self::Read(_) => 1)
    }

    pub(crate) fn is_known(&self) -> bool {
        match_kernel!(Self, self, bound => bound.rule.is_known(&bound.balance);
            Self::Read(_) => true)
    }
}

impl<K: Kernel> Bound<'_, K> {
    fn into_state(self) -> Option<K::State> {
        self.rule.state(self.balance)
    }

    #[expect(clippy::unused_self, reason = "to be asked of any kernel's")]
    const fn drains(&self) -> bool {
        K::DRAINS
    }

    fn judged_at(&self) -> u64 {
        K::judged_at(&self.balance)
    }

    fn can_charge(&self, charge: Charge) -> Result<(), Overflow> {
        match charge {
            Charge::Admitted(admission) => self.rule.can_admit(&self.balance, admission),
            Charge::Denied { cost } => self.rule.can_charge_denied(&self.balance, cost),
            Charge::None => Ok(()),
        }
    }

    fn charge(&mut self, charge: Charge) -> Result<(), Overflow> {
        match charge {
            Charge::Admitted(admission) => self.rule.admit(&mut self.balance, admission),
            Charge::Denied { cost } => self.rule.charge_denied(&mut self.balance, cost),
            Charge::None => Ok(()),
        }
    }

    fn keep_for(&self, now: Now) -> u64 {
        let ahead = self.judged_at().saturating_sub(now.micros);
        self.rule.keep_for(&self.balance).saturating_add(ahead)
    }
}
