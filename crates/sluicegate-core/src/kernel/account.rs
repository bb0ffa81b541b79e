//! A rule together with a state.

use super::permits::{self, Permits};
use super::rule::AnyKernel as _;
use super::{
    Charge, Kernel, NEVER, Now, Overflow, Profile, Reading, Report, Rule, State, Taken, Verdict,
};
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

impl Account<'_> {
    pub(crate) fn judge(&self, cost: u64, within: Option<u64>) -> Verdict {
        match_kernel!(Self, self, bound => bound.rule.judge(&bound.balance, cost, within);
            Self::Read(reading) => reading.verdict)
    }

    /// Fails if [`Account::charge`] would, without changing anything.
    pub(crate) fn can_charge(&self, charge: Charge) -> Result<(), Overflow> {
        match_kernel!(Self, self, bound => bound.rule.can_charge(&bound.balance, charge);
            Self::Read(_) => Ok(()))
    }

    pub(crate) fn charge(&mut self, charge: Charge) -> Result<(), Overflow> {
        match_kernel!(Self, self, bound => bound.rule.charge(&mut bound.balance, charge);
            Self::Read(_) => Ok(()))
    }

    /// Returns the units given back; `None` for a key that was never used.
    pub(crate) fn refund(&mut self, units: u64) -> Option<u64> {
        match_kernel!(Self, self, bound => bound.rule.refund(&mut bound.balance, units);
            Self::Read(reading) => Some(reading.given_back))
    }

    /// Returns the units given back; `None` if the balance didn't change.
    pub(crate) fn give_back(&mut self, taken: Taken) -> Option<u64> {
        match_kernel!(Self, self, bound => bound.rule.give_back(&mut bound.balance, taken);
            Self::Read(reading) => Some(reading.given_back))
    }

    /// What other code has to know of the rule; `None` for a log that the store judged.
    fn profile(&self) -> Option<Profile> {
        match_kernel!(Self, self, bound => Some(bound.rule.profile());
            Self::Read(_) => None)
    }

    /// What a unit comes to in ticks, and how many flow back in a µs, of a kernel to which that matters.
    pub(crate) fn flow(&self) -> Option<(u64, u64)> {
        self.profile()?.flow
    }

    /// Whether a fresh key admits so many units.
    pub(crate) fn fits(&self, units: u64) -> bool {
        self.profile().is_none_or(|profile| units <= profile.limit)
    }

    /// The ticks that µs come to [until a reset](Report::reset).
    pub(crate) fn ticks_of_micros(&self, micros: u64) -> u64 {
        self.profile().map_or(micros, |profile| profile.ticks_of_micros(micros))
    }

    /// What the balance comes to.
    pub(crate) fn report(&self) -> Report {
        match_kernel!(Self, self, bound => bound.rule.report(&bound.balance);
            Self::Read(reading) => reading.report())
    }

    /// The largest cost that passes, in units, before a charge that the store made itself.
    pub(crate) fn remaining_before(&self) -> u64 {
        match_kernel!(Self, self,
            bound => bound.rule.profile().whole_units(bound.rule.report(&bound.balance).remaining);
            Self::Read(reading) => reading.remaining_before)
    }

    /// The µs from `now` for which the state is worth keeping.
    pub(crate) fn keep_for(&self, now: Now) -> u64 {
        let ahead = self.judged_at().saturating_sub(now.micros);
        match_kernel!(Self, self,
            bound => bound.rule.keep_for(&bound.balance).saturating_add(ahead);
            Self::Read(reading) => reading.reset_after)
    }

    pub(crate) fn violated(&self, cost: u64) -> u32 {
        match_kernel!(Self, self, bound => bound.rule.violated(&bound.balance, cost);
            Self::Read(reading) => reading.violated)
    }

    /// The time of judgement, in µs since the epoch.
    pub(crate) fn judged_at(&self) -> u64 {
        match_kernel!(Self, self, bound => bound.balance.at;
            Self::Read(reading) => reading.judged_at)
    }

    /// Whether what is used flows back as time passes.
    pub(crate) fn drains(&self) -> bool {
        match_kernel!(Self, self, bound => bound.rule.drains(); Self::Read(_) => false)
    }

    /// Counts at least so many units as used.
    pub(crate) fn pin(&mut self, units: u64) {
        match_kernel!(Self, self, bound => bound.pin(units); Self::Read(_) => {});
    }

    /// Counts no more as used than another account of the same rule does.
    pub(crate) const fn lower_to(&mut self, other: &Self) {
        if let (Self::Bucket(own), Self::Bucket(other)) = (self, other) {
            own.balance.lower_to(&other.balance);
        }
    }

    /// The units that count as used beyond a number of them, rounded up.
    pub(crate) fn used_beyond(&self, units: u64) -> u64 {
        match_kernel!(Self, self, bound => bound.used_beyond(units); Self::Read(_) => 0)
    }

    /// When every lease is over, in µs since the epoch.
    pub(crate) fn leases_end(&self) -> u64 {
        match_kernel!(Self, self, bound => bound.leases_end(); Self::Read(_) => 0)
    }
}

impl<K: Kernel> Bound<'_, K> {
    fn into_state(self) -> Option<K::State> {
        self.rule.state(self.balance)
    }

    fn pin(&mut self, units: u64) {
        if let Some(leases) = K::LEASES {
            (leases.pin)(self.rule, &mut self.balance, units);
        }
    }

    fn used_beyond(&self, units: u64) -> u64 {
        K::LEASES.map_or(0, |leases| (leases.used_beyond)(self.rule, &self.balance, units))
    }

    fn leases_end(&self) -> u64 {
        K::LEASES.map_or(NEVER, |leases| (leases.end)(&self.balance))
    }
}
