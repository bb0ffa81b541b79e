//! A rule with the state of a key.

use super::permits::{self, Permits};
use super::rule::AnyKernel as _;
use super::{
    Charge, Kernel, NEVER, Now, Overflow, Profile, Reading, Report, Rule, State, Taken, Verdict,
};
use crate::{for_each_kernel, match_kernel};

macro_rules! account {
    (() $($(#[$_:meta])* $name:ident: $kernel:ty,)*) => {
        /// A rule and a state at the evaluation time, which only this rule can evaluate.
        #[derive(Clone, Debug)]
        pub(crate) enum Account<'r> {
            $($name(Bound<'r, $kernel>),)*
            /// A log that remains in the store, which evaluated it.
            Read(Reading),
        }

        impl<'r> Account<'r> {
            /// Advances a state to the evaluation time; a state of another kernel counts as absent.
            /// The flag is set if it was restamped.
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

            /// Advances the account to a later time.
            ///
            /// # Errors
            /// Returns no error for a state that this account could be opened with.
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

            /// Returns the state to keep; `None` if there is nothing to keep.
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
    /// Creates an account of units in flight, which have no state.
    pub(crate) const fn in_flight(rule: &'r Permits, balance: permits::Balance) -> Self {
        Self::Permits(Bound { rule, balance })
    }

    /// Replaces the request's own ticket, with its units and end; the units in flight are
    /// unchanged.
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

    /// Checks that [`Account::charge`] would succeed, without changing anything.
    pub(crate) fn can_charge(&self, charge: Charge) -> Result<(), Overflow> {
        match_kernel!(Self, self, bound => bound.rule.can_charge(&bound.balance, charge);
            Self::Read(_) => Ok(()))
    }

    pub(crate) fn charge(&mut self, charge: Charge) -> Result<(), Overflow> {
        match_kernel!(Self, self, bound => bound.rule.charge(&mut bound.balance, charge);
            Self::Read(_) => Ok(()))
    }

    /// Gives units back and returns their number; `None` for a key that was never used.
    pub(crate) fn refund(&mut self, units: u64) -> Option<u64> {
        match_kernel!(Self, self, bound => bound.rule.refund(&mut bound.balance, units);
            Self::Read(reading) => Some(reading.given_back))
    }

    /// Gives units back and returns their number; `None` if the balance didn't change.
    pub(crate) fn give_back(&mut self, taken: Taken) -> Option<u64> {
        match_kernel!(Self, self, bound => bound.rule.give_back(&mut bound.balance, taken);
            Self::Read(reading) => Some(reading.given_back))
    }

    /// Returns the properties of the rule that other code needs; `None` for a log that the store
    /// evaluated.
    fn profile(&self) -> Option<Profile> {
        match_kernel!(Self, self, bound => Some(bound.rule.profile());
            Self::Read(_) => None)
    }

    /// Returns the ticks of a unit, and the ticks that flow back per µs, for a kernel that needs
    /// them.
    pub(crate) fn flow(&self) -> Option<(u64, u64)> {
        self.profile()?.flow
    }

    /// Returns `true` if a fresh key admits that many units.
    pub(crate) fn fits(&self, units: u64) -> bool {
        self.profile().is_none_or(|profile| units <= profile.limit)
    }

    /// Returns the ticks [until a reset](Report::reset) that µs make.
    pub(crate) fn ticks_of_micros(&self, micros: u64) -> u64 {
        self.profile().map_or(micros, |profile| profile.ticks_of_micros(micros))
    }

    /// Returns a summary of the balance.
    pub(crate) fn report(&self) -> Report {
        match_kernel!(Self, self, bound => bound.rule.report(&bound.balance);
            Self::Read(reading) => reading.report())
    }

    /// Returns the largest cost that passes, in units, before a charge that the store made itself.
    pub(crate) fn remaining_before(&self) -> u64 {
        match_kernel!(Self, self,
            bound => bound.rule.profile().whole_units(bound.rule.report(&bound.balance).remaining);
            Self::Read(reading) => reading.remaining_before)
    }

    /// Returns the µs from `now` for which the state is worth keeping.
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

    /// Returns the evaluation time, in µs since the epoch.
    pub(crate) fn judged_at(&self) -> u64 {
        match_kernel!(Self, self, bound => bound.balance.at;
            Self::Read(reading) => reading.judged_at)
    }

    /// Returns `true` if used units flow back gradually.
    pub(crate) fn drains(&self) -> bool {
        match_kernel!(Self, self, bound => bound.rule.drains(); Self::Read(_) => false)
    }

    /// Counts at least that many units as used.
    pub(crate) fn pin(&mut self, units: u64) {
        match_kernel!(Self, self, bound => bound.pin(units); Self::Read(_) => {});
    }

    /// Counts at most the units as used that another account of this rule does.
    pub(crate) const fn lower_to(&mut self, other: &Self) {
        if let (Self::Bucket(own), Self::Bucket(other)) = (self, other) {
            own.balance.lower_to(&other.balance);
        }
    }

    /// Returns the units that count as used beyond a number of them, rounded up.
    pub(crate) fn used_beyond(&self, units: u64) -> u64 {
        match_kernel!(Self, self, bound => bound.used_beyond(units); Self::Read(_) => 0)
    }

    /// Returns the time when all leases end, in µs since the epoch.
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
