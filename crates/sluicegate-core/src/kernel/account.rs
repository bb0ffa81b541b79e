//! A rule together with a state.

use super::{Admission, Kernel, Now, Overflow, Reading, Rule, State, Verdict};
use super::{bucket, counter, log, warm_up, window};

/// A rule and a state as of the time of judgement, which no other rule can judge.
#[derive(Clone, Debug)]
pub(crate) enum Account<'r> {
    Bucket(Bound<'r, bucket::Bucket>),
    Window(Bound<'r, window::FixedWindow>),
    Log(Bound<'r, log::Log>),
    Counter(Bound<'r, counter::Counter>),
    WarmUp(Bound<'r, warm_up::WarmUp>),
    /// A log that stays in the store, which judged it.
    Read(Reading),
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

/// Evaluates one expression for the account of any kernel, and another for a reading.
macro_rules! each {
    ($account:expr, $bound:ident => $body:expr, $reading:pat => $read:expr) => {
        match $account {
            Account::Bucket($bound) => $body,
            Account::Window($bound) => $body,
            Account::Log($bound) => $body,
            Account::Counter($bound) => $body,
            Account::WarmUp($bound) => $body,
            Account::Read($reading) => $read,
        }
    };
}

impl<'r> Account<'r> {
    /// Brings a state to the time of judgement; a state of another kernel counts as absent. The
    /// flag is set if it was restamped.
    pub(crate) fn open(
        rule: &'r Rule,
        state: Option<State>,
        now: Now,
    ) -> Result<(Self, bool), Overflow> {
        Ok(match rule {
            Rule::Bucket(rule) => {
                let state = if let Some(State::Bucket(state)) = state { Some(state) } else { None };
                let (balance, restamped) = rule.balance(state, now)?;
                (Self::Bucket(Bound { rule, balance }), restamped)
            }
            Rule::Window(rule) => {
                let state = if let Some(State::Window(state)) = state { Some(state) } else { None };
                let (balance, restamped) = rule.balance(state, now)?;
                (Self::Window(Bound { rule, balance }), restamped)
            }
            Rule::Log(rule) => {
                let state = if let Some(State::Log(state)) = state { Some(state) } else { None };
                let (balance, restamped) = rule.balance(state, now)?;
                (Self::Log(Bound { rule, balance }), restamped)
            }
            Rule::Counter(rule) => {
                let state =
                    if let Some(State::Counter(state)) = state { Some(state) } else { None };
                let (balance, restamped) = rule.balance(state, now)?;
                (Self::Counter(Bound { rule, balance }), restamped)
            }
            Rule::WarmUp(rule) => {
                let state = if let Some(State::WarmUp(state)) = state { Some(state) } else { None };
                let (balance, restamped) = rule.balance(state, now)?;
                (Self::WarmUp(Bound { rule, balance }), restamped)
            }
        })
    }

    /// The state to keep; `None` if there is nothing to keep.
    pub(crate) fn into_state(self) -> Option<State> {
        match self {
            Self::Bucket(bound) => bound.into_state().map(State::Bucket),
            Self::Window(bound) => bound.into_state().map(State::Window),
            Self::Log(bound) => bound.into_state().map(State::Log),
            Self::Counter(bound) => bound.into_state().map(State::Counter),
            Self::WarmUp(bound) => bound.into_state().map(State::WarmUp),
            Self::Read(_) => None,
        }
    }

    pub(crate) fn judge(&self, cost: u64, within: Option<u64>) -> Verdict {
        each!(self, bound => bound.rule.judge(&bound.balance, cost, within),
            reading => reading.verdict)
    }

    /// Fails if [`Account::charge`] would, without changing anything.
    pub(crate) fn can_charge(&self, charge: Charge) -> Result<(), Overflow> {
        each!(self, bound => bound.can_charge(charge), _ => Ok(()))
    }

    pub(crate) fn charge(&mut self, charge: Charge) -> Result<(), Overflow> {
        each!(self, bound => bound.charge(charge), _ => Ok(()))
    }

    pub(crate) fn refund(&mut self, units: u64) {
        each!(self, bound => bound.rule.refund(&mut bound.balance, units), _ => ());
    }

    /// For [`Rule::whole_units`].
    pub(crate) fn remaining_ticks(&self) -> u64 {
        each!(self, bound => bound.rule.remaining_ticks(&bound.balance),
            reading => reading.remaining)
    }

    /// The same before a charge that the store made itself.
    pub(crate) fn remaining_before(&self) -> u64 {
        each!(self, bound => bound.rule.remaining(&bound.balance),
            reading => reading.remaining_before)
    }

    /// The same, for [`Rule::whole_micros`].
    pub(crate) fn reset_ticks(&self) -> u64 {
        each!(self, bound => bound.rule.reset_ticks(&bound.balance),
            reading => reading.reset_after)
    }

    /// The µs from `now` for which the state is worth keeping.
    pub(crate) fn keep_for(&self, now: Now) -> u64 {
        each!(self, bound => bound.keep_for(now), reading => reading.reset_after)
    }

    pub(crate) fn counts(&self) -> (u64, u64) {
        each!(self, bound => bound.rule.counts(&bound.balance),
            reading => (reading.total, reading.current))
    }

    pub(crate) fn violated(&self, cost: u64) -> u32 {
        each!(self, bound => bound.rule.violated(&bound.balance, cost),
            reading => reading.violated)
    }

    pub(crate) fn is_known(&self) -> bool {
        each!(self, bound => bound.rule.is_known(&bound.balance), _ => true)
    }
}

impl<K: Kernel> Bound<'_, K> {
    fn into_state(self) -> Option<K::State> {
        self.rule.state(self.balance)
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
        let ahead = K::judged_at(&self.balance).saturating_sub(now.micros);
        self.rule.keep_for(&self.balance).saturating_add(ahead)
    }
}
