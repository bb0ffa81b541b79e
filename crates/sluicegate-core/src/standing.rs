//! A policy's state, brought to the time of judgement: where a request meets the kernels.

use crate::decision::NEVER;
use crate::kernel::{Ask, Overflow, Rule, Times, bucket, counter, log, warm_up, window};
use crate::packed::State;

/// A policy's state, brought to the time of judgement.
#[derive(Debug)]
#[non_exhaustive]
pub enum Standing<'a> {
    /// Of the bucket family.
    Bucket(bucket::Standing),
    /// Of a two-cell counter.
    Counter(counter::Standing),
    /// Of a log or ring that is at hand.
    Log {
        /// The state, restamped already if that was due.
        state: &'a mut log::State,
        /// The time of judgement.
        at: u64,
    },
    /// Of a log or ring that stays in the store, which judged it.
    Read(Reading),
    /// Of a warm-up.
    WarmUp(warm_up::Standing),
    /// Of a fixed window.
    Window(window::Standing),
}

/// What a store that judged a log by itself says of it.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Whether the cost passes.
    pub ask: Ask,
    /// The strategies that refuse, as bits.
    pub violated: u32,
    /// The largest cost that would have been admitted before the decision.
    pub remaining_before: u64,
    /// The same after it.
    pub remaining: u64,
    /// The time until the last entry has left, in µs.
    pub reset_after: u64,
    /// The units that count now over the longest window.
    pub total: u64,
    /// The units in the current slice.
    pub current: u64,
}

/// What a policy is charged.
#[derive(Clone, Copy)]
pub(crate) enum Charge {
    Admitted { cost: u64, wait: u64, act_in: u64 },
    Denied { cost: u64 },
    Forced { cost: u64 },
    None,
}

impl<'a> Standing<'a> {
    /// Whether there was a state: nothing can be given back to a key that was never used.
    pub(crate) fn is_known(&self) -> bool {
        match self {
            Self::Bucket(standing) => standing.is_known(),
            Self::Counter(standing) => standing.current() > 0,
            Self::Log { state, .. } => !state.entries.is_empty(),
            Self::Read(_) => true,
            Self::WarmUp(standing) => standing.is_known(),
            Self::Window(standing) => standing.is_open(),
        }
    }

    /// Brings the state of a policy that keeps no log to the time of judgement; `None` for one
    /// that does. The flag tells that the state was restamped.
    ///
    /// # Errors
    /// When the state can't be counted in the policy's present numbers.
    pub fn of(
        rule: &Rule,
        state: Option<&State>,
        times: Times,
    ) -> Result<Option<(Self, bool)>, Overflow> {
        Ok(Some(match rule {
            Rule::Bucket(rule) => {
                let state = state.and_then(|state| {
                    if let State::Bucket(state) = state { Some(*state) } else { None }
                });
                let (standing, restamped) = rule.stand(state, times)?;
                (Self::Bucket(standing), restamped)
            }
            Rule::Counter(rule) => {
                let state = state.and_then(|state| {
                    if let State::Counter(state) = state { Some(*state) } else { None }
                });
                let (standing, restamped) = rule.stand(state, times)?;
                (Self::Counter(standing), restamped)
            }
            Rule::WarmUp(rule) => {
                let state = state.and_then(|state| {
                    if let State::WarmUp(state) = state { Some(*state) } else { None }
                });
                let (standing, restamped) = rule.stand(state, times)?;
                (Self::WarmUp(standing), restamped)
            }
            Rule::Window(rule) => {
                let state = state.and_then(|state| {
                    if let State::Window(state) = state { Some(*state) } else { None }
                });
                let (standing, restamped) = rule.stand(state, times);
                (Self::Window(standing), restamped)
            }
            Rule::Log(_) => return Ok(None),
        }))
    }

    /// Brings the state of a log or ring to the time of judgement; the flag tells that it was
    /// restamped.
    pub fn of_log(rule: &log::Log, state: &'a mut log::State, times: Times) -> (Self, bool) {
        let restamped = rule.needs_restamp(state, times);
        if restamped {
            rule.restamp(state, times.now);
        }
        let at = rule.at(state, times);
        (Self::Log { state, at }, restamped)
    }
}

impl Standing<'_> {
    /// The state to keep of a policy that keeps no log; `None` when there is nothing to keep, and
    /// of a log, which changes in place.
    #[must_use]
    pub fn state(&self, rule: &Rule) -> Option<State> {
        match (rule, self) {
            (Rule::Bucket(rule), Self::Bucket(standing)) => {
                Some(State::Bucket(rule.state(standing)))
            }
            (Rule::Counter(rule), Self::Counter(standing)) => {
                Some(State::Counter(rule.state(standing)))
            }
            (Rule::WarmUp(rule), Self::WarmUp(standing)) => {
                Some(State::WarmUp(rule.state(standing)))
            }
            (Rule::Window(rule), Self::Window(standing)) => {
                standing.is_open().then(|| State::Window(rule.state(standing)))
            }
            _ => None,
        }
    }

    /// What the policy says to a cost.
    pub(crate) fn ask(&self, rule: &Rule, cost: u64, within: Option<u64>) -> Ask {
        match (rule, self) {
            (Rule::Bucket(rule), Self::Bucket(standing)) => rule.ask(standing, cost, within),
            (Rule::Counter(rule), Self::Counter(standing)) => rule.ask(standing, cost),
            (Rule::Log(rule), Self::Log { state, at }) => rule.ask(state, *at, cost),
            (Rule::WarmUp(rule), Self::WarmUp(standing)) => rule.ask(standing, within),
            (Rule::Window(rule), Self::Window(standing)) => rule.ask(standing, cost),
            (_, Self::Read(reading)) => reading.ask,
            _ => mismatch(),
        }
    }

    /// Fails where [`Standing::apply`] would, without changing anything.
    pub(crate) fn prepare(&self, rule: &Rule, charge: Charge) -> Result<(), Overflow> {
        let (cost, denied) = match charge {
            Charge::Admitted { cost, .. } | Charge::Forced { cost } => (cost, false),
            Charge::Denied { cost } => (cost, true),
            Charge::None => return Ok(()),
        };
        match (rule, self) {
            (Rule::Log(rule), Self::Log { state, at }) => {
                let cost = if denied { cost.min(rule.limit()) } else { cost };
                rule.can_admit(state, *at, cost)
            }
            (Rule::Bucket(_), Self::Bucket(standing)) => {
                Self::Bucket(*standing).apply(rule, charge)
            }
            (Rule::Counter(_), Self::Counter(standing)) => {
                Self::Counter(*standing).apply(rule, charge)
            }
            (Rule::WarmUp(_), Self::WarmUp(standing)) => {
                Self::WarmUp(*standing).apply(rule, charge)
            }
            (Rule::Window(_), Self::Window(standing)) => {
                Self::Window(*standing).apply(rule, charge)
            }
            _ => Ok(()),
        }
    }

    /// Charges it. A log changes in place.
    pub(crate) fn apply(&mut self, rule: &Rule, charge: Charge) -> Result<(), Overflow> {
        match (rule, self, charge) {
            (
                Rule::Bucket(rule),
                Self::Bucket(standing),
                Charge::Admitted { cost, wait, act_in },
            ) => rule.admit(standing, cost, wait, act_in),
            (Rule::Bucket(rule), Self::Bucket(standing), Charge::Forced { cost }) => {
                rule.force(standing, cost)
            }
            (Rule::Bucket(rule), Self::Bucket(standing), Charge::Denied { cost }) => {
                rule.charge_denied(standing, cost);
                Ok(())
            }
            (Rule::WarmUp(rule), Self::WarmUp(standing), Charge::Admitted { cost, act_in, .. }) => {
                rule.admit(standing, cost, act_in)
            }
            (Rule::WarmUp(rule), Self::WarmUp(standing), Charge::Forced { cost }) => {
                rule.admit(standing, cost, 0)
            }
            (Rule::WarmUp(rule), Self::WarmUp(standing), Charge::Denied { cost }) => {
                rule.charge_denied(standing, cost);
                Ok(())
            }
            (Rule::Counter(rule), Self::Counter(standing), Charge::Denied { cost }) => {
                rule.charge_denied(standing, cost);
                Ok(())
            }
            (
                Rule::Counter(rule),
                Self::Counter(standing),
                Charge::Admitted { cost, .. } | Charge::Forced { cost },
            ) => rule.admit(standing, cost),
            (Rule::Window(rule), Self::Window(standing), Charge::Denied { cost }) => {
                rule.charge_denied(standing, cost);
                Ok(())
            }
            (
                Rule::Window(rule),
                Self::Window(standing),
                Charge::Admitted { cost, .. } | Charge::Forced { cost },
            ) => rule.admit(standing, cost),
            (Rule::Log(rule), Self::Log { state, at }, Charge::Denied { cost }) => {
                rule.charge_denied(state, *at, cost)
            }
            (
                Rule::Log(rule),
                Self::Log { state, at },
                Charge::Admitted { cost, .. } | Charge::Forced { cost },
            ) => rule.admit(state, *at, cost),
            (_, Self::Read(_), _) | (_, _, Charge::None) => Ok(()),
            _ => mismatch(),
        }
    }

    /// Gives units back.
    pub(crate) fn refund(&mut self, rule: &Rule, units: u64) {
        match (rule, self) {
            (Rule::Bucket(rule), Self::Bucket(standing)) => rule.refund(standing, units),
            (Rule::Counter(rule), Self::Counter(standing)) => rule.refund(standing, units),
            (Rule::Log(rule), Self::Log { state, at }) => rule.refund(state, *at, units),
            (Rule::WarmUp(rule), Self::WarmUp(standing)) => rule.refund(standing, units),
            (Rule::Window(rule), Self::Window(standing)) => rule.refund(standing, units),
            (_, Self::Read(_)) => {}
            _ => mismatch(),
        }
    }

    /// The largest cost that would pass now.
    pub(crate) fn remaining(&self, rule: &Rule) -> u64 {
        match (rule, self) {
            (Rule::Bucket(rule), Self::Bucket(standing)) => rule.remaining(standing),
            (Rule::Counter(rule), Self::Counter(standing)) => rule.remaining(standing),
            (Rule::Log(rule), Self::Log { state, at }) => rule.remaining(state, *at),
            (Rule::WarmUp(rule), Self::WarmUp(standing)) => rule.remaining(standing),
            (Rule::Window(rule), Self::Window(standing)) => rule.remaining(standing),
            (_, Self::Read(reading)) => reading.remaining,
            _ => mismatch(),
        }
    }

    /// The same before a charge that the store has made by itself.
    pub(crate) fn remaining_before(&self, rule: &Rule) -> u64 {
        match self {
            Self::Read(reading) => reading.remaining_before,
            standing => standing.remaining(rule),
        }
    }

    /// The time until the state equals a fresh key's, in µs, or [`NEVER`].
    pub(crate) fn reset_after(&self, rule: &Rule) -> u64 {
        match (rule, self) {
            (Rule::Bucket(rule), Self::Bucket(standing)) => {
                rule.reset_after(standing).unwrap_or(NEVER)
            }
            (Rule::Counter(rule), Self::Counter(standing)) => rule.reset_after(standing),
            (Rule::Log(rule), Self::Log { state, at }) => rule.reset_after(state, *at),
            (Rule::WarmUp(rule), Self::WarmUp(standing)) => {
                rule.reset_after(standing).unwrap_or(NEVER)
            }
            (Rule::Window(rule), Self::Window(standing)) => rule.reset_after(standing),
            (_, Self::Read(reading)) => reading.reset_after,
            _ => mismatch(),
        }
    }

    /// Of a log or ring: the units that count over its longest window, and those in the current slice.
    pub(crate) fn counts(&self, rule: &Rule) -> (u64, u64) {
        match (rule, self) {
            (Rule::Log(rule), Self::Log { state, at }) => {
                (rule.used(state, *at, rule.horizon()), rule.current(state, *at))
            }
            (_, Self::Read(reading)) => (reading.total, reading.current),
            _ => (0, 0),
        }
    }

    /// Of a log: the strategies that refuse a cost, as bits.
    pub(crate) fn violated(&self, rule: &Rule, cost: u64) -> u32 {
        match (rule, self) {
            (Rule::Log(rule), Self::Log { state, at }) => rule.violated(state, *at, cost),
            (_, Self::Read(reading)) => reading.violated,
            _ => 0,
        }
    }
}

/// A store handed over the standing of another kernel.
#[cold]
fn mismatch() -> ! {
    #[expect(
        clippy::panic,
        reason = "a store builds each standing from the very rule it is judged by"
    )]
    {
        panic!("a standing belongs to another kernel than its rule")
    }
}
