//! The log kernel: the exact sliding log, several strategies over one log, and the ring of
//! slices, which is a log whose stamps are rounded down to the slice.
//!
//! Entries hold running totals instead of costs: what a window holds is then the difference of
//! two totals, found by binary search, so that no idle time and no cost makes a decision walk
//! through the entries.

use std::collections::VecDeque;

use super::window::{check_limit, check_window};
use super::{Ask, Overflow, Times};
use crate::error::PolicyError;
use crate::number::MAX_EXACT;
use crate::policy::Strategy;
use crate::time::Span;

/// A log or ring made ready to decide.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Log {
    strategies: Box<[Strategy]>,
    /// What stamps are rounded down to, in µs: 1 for a log, the slice for a ring.
    quantum: u64,
    /// The longest window, in µs: what is older has left.
    horizon: u64,
}

/// What is kept of a key.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct State {
    /// The newest admitted time, in microseconds since the epoch.
    pub newest: u64,
    /// The running total before the first entry.
    pub base: u64,
    /// The entries, oldest first, with strictly growing stamps and totals.
    pub entries: VecDeque<Entry>,
}

/// The requests of one stamp.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Entry {
    /// When they were made, in microseconds since the epoch, rounded down to the quantum.
    pub stamp: u64,
    /// The units of this entry and all before it.
    pub total: u64,
}

impl Log {
    /// The largest limit of an exact log.
    pub const MAX_LIMIT: u64 = 65_536;
    /// The most entries a log or ring holds.
    pub const MAX_ENTRIES: usize = 65_536;
    /// The most strategies over one log.
    pub const MAX_STRATEGIES: usize = 32;

    pub(crate) fn exact(strategies: &[Strategy]) -> Result<Self, PolicyError> {
        if strategies.is_empty() || strategies.len() > Self::MAX_STRATEGIES {
            return Err(PolicyError::new(
                "strategies",
                format!(
                    "there are {}, but a log has 1 to {}",
                    strategies.len(),
                    Self::MAX_STRATEGIES
                ),
            ));
        }
        for strategy in strategies {
            if strategy.limit > Self::MAX_LIMIT {
                return Err(PolicyError::new(
                    "limit",
                    format!(
                        "{} is above {}, the largest limit of a log: use sliding_window or sliding_counter",
                        strategy.limit,
                        Self::MAX_LIMIT
                    ),
                ));
            }
            check_window(strategy.window)?;
        }
        Ok(Self::over(strategies.into(), 1))
    }

    pub(crate) fn ring(limit: u64, window: Span, slices: u64) -> Result<Self, PolicyError> {
        let limit = check_limit(limit)?;
        let length = check_window(window)?;
        let most = Self::MAX_ENTRIES as u64;
        if slices == 0 || slices > most {
            return Err(PolicyError::new(
                "slices",
                format!("{slices} is not a whole number from 1 to {most}"),
            ));
        }
        let whole = |slices: u64| length.is_multiple_of(slices * Span::MILLISECOND.as_micros());
        if !whole(slices) {
            let below = (1..slices).rev().find(|&n| whole(n));
            let above = (slices + 1..=most).find(|&n| whole(n));
            let hint = match (below, above) {
                (Some(below), Some(above)) => format!(": {below} and {above} do"),
                (Some(one), None) | (None, Some(one)) => format!(": {one} does"),
                (None, None) => String::new(),
            };
            return Err(PolicyError::new(
                "slices",
                format!("{slices} doesn't divide {window} into whole milliseconds{hint}"),
            ));
        }
        Ok(Self::over(Box::new([Strategy { limit, window }]), length / slices))
    }

    fn over(strategies: Box<[Strategy]>, quantum: u64) -> Self {
        let horizon =
            strategies.iter().map(|strategy| strategy.window.as_micros()).max().unwrap_or(0);
        Self { strategies, quantum, horizon }
    }

    /// The strategies, in the order given.
    #[must_use]
    pub fn strategies(&self) -> &[Strategy] {
        &self.strategies
    }

    /// What stamps are rounded down to, in µs.
    #[must_use]
    pub const fn quantum(&self) -> u64 {
        self.quantum
    }

    /// The longest window, in µs.
    #[must_use]
    pub const fn horizon(&self) -> u64 {
        self.horizon
    }

    /// Whether stamps are rounded to slices.
    #[must_use]
    pub const fn is_ring(&self) -> bool {
        self.quantum > 1
    }

    /// The largest cost a fresh key admits.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.strategies.iter().map(|strategy| strategy.limit).min().unwrap_or(0)
    }

    /// Whether the state is stamped too far ahead of now to be believed.
    #[must_use]
    pub const fn needs_restamp(&self, state: &State, times: Times) -> bool {
        times.is_too_far_ahead(state.newest)
    }

    /// Counts every entry that lies ahead of now as made now.
    pub fn restamp(&self, state: &mut State, now: u64) {
        state.newest = now;
        let stamp = self.stamp(now);
        let ahead = state.entries.partition_point(|entry| entry.stamp <= now);
        let Some(&Entry { total, .. }) =
            state.entries.back().filter(|_| ahead < state.entries.len())
        else {
            return;
        };
        state.entries.truncate(ahead);
        match state.entries.back_mut() {
            Some(last) if last.stamp == stamp => last.total = total,
            _ => state.entries.push_back(Entry { stamp, total }),
        }
    }

    /// The time of judgement.
    #[must_use]
    pub fn at(&self, state: &State, times: Times) -> u64 {
        times.now.max(state.newest)
    }

    /// The units that count at `at` over the last `window` µs.
    #[must_use]
    pub fn used(&self, state: &State, at: u64, window: u64) -> u64 {
        state.total() - state.total_before(first_within(state, at, window))
    }

    /// Whether a cost passes.
    #[must_use]
    pub fn ask(&self, state: &State, at: u64, cost: u64) -> Ask {
        let mut wait = 0;
        for strategy in &self.strategies {
            let Some(room) = strategy.limit.checked_sub(cost) else {
                return Ask::Refuse { retry: None };
            };
            let window = strategy.window.as_micros();
            let first = first_within(state, at, window);
            let before = state.total_before(first);
            let Some(excess) =
                (state.total() - before).checked_sub(room).filter(|&excess| excess > 0)
            else {
                continue;
            };
            // The entry whose leaving makes enough room.
            let last_to_leave =
                state.entries.partition_point(|entry| entry.total < before + excess);
            wait = wait.max(state.entries[last_to_leave].stamp + window - at);
        }
        if wait == 0 { Ask::Pass { wait: 0 } } else { Ask::Refuse { retry: Some(wait) } }
    }

    /// The strategies that refuse a cost, as a set of bits in the order given.
    #[must_use]
    pub fn violated(&self, state: &State, at: u64, cost: u64) -> u32 {
        self.strategies.iter().enumerate().fold(0, |violated, (index, strategy)| {
            let used = self.used(state, at, strategy.window.as_micros());
            if used + cost > strategy.limit { violated | 1 << index } else { violated }
        })
    }

    /// Charges a cost, admitted or by force.
    ///
    /// # Errors
    /// When the log has no room for another entry, or the count is beyond what it can hold.
    pub fn admit(&self, state: &mut State, at: u64, cost: u64) -> Result<(), Overflow> {
        self.forget(state, at);
        if state.total() + cost > MAX_EXACT {
            state.rebase();
        }
        let total = state.total() + cost;
        let stamp = self.stamp(at);
        let joins = state.entries.back().is_some_and(|last| last.stamp == stamp);
        if total > MAX_EXACT || (!joins && state.entries.len() == Self::MAX_ENTRIES) {
            return Err(Overflow);
        }
        match state.entries.back_mut() {
            Some(last) if joins => last.total = total,
            _ => state.entries.push_back(Entry { stamp, total }),
        }
        state.newest = at;
        Ok(())
    }

    /// Whether [`Log::admit`] would succeed, without changing anything.
    ///
    /// # Errors
    /// Those of [`Log::admit`].
    pub fn can_admit(&self, state: &State, at: u64, cost: u64) -> Result<(), Overflow> {
        let first = first_within(state, at, self.horizon);
        let held = state.total() - state.total_before(first);
        let joins = state.entries.back().is_some_and(|last| last.stamp == self.stamp(at));
        if held + cost > MAX_EXACT || (!joins && state.entries.len() - first == Self::MAX_ENTRIES) {
            return Err(Overflow);
        }
        Ok(())
    }

    /// Charges a denied request; the oldest entries go while the rest alone still exhaust every
    /// strategy.
    ///
    /// # Errors
    /// Those of [`Log::admit`].
    pub fn charge_denied(&self, state: &mut State, at: u64, cost: u64) -> Result<(), Overflow> {
        let cost = cost.min(self.limit());
        if cost == 0 {
            return Ok(());
        }
        self.admit(state, at, cost)?;
        let largest = self.strategies.iter().map(|strategy| strategy.limit).max().unwrap_or(0);
        while let Some(first) =
            state.entries.front().filter(|first| state.total() - first.total >= largest)
        {
            state.base = first.total;
            state.entries.pop_front();
        }
        Ok(())
    }

    /// Gives units back, oldest entries first. The newest time stays.
    pub fn refund(&self, state: &mut State, at: u64, units: u64) {
        // Nothing is ever judged before the newest time; what has left since then has nothing to
        // give back, but counts again if time steps back.
        self.forget(state, state.newest);
        let first = first_within(state, at, self.horizon);
        let before = state.total_before(first);
        let given = units.min(state.total() - before);
        let gone = state.entries.partition_point(|entry| entry.total <= before + given);
        if first == 0 {
            state.base += given;
        } else {
            for entry in state.entries.iter_mut().skip(gone) {
                entry.total -= given;
            }
        }
        state.entries.drain(first..gone.max(first));
    }

    /// The largest cost that would pass now.
    #[must_use]
    pub fn remaining(&self, state: &State, at: u64) -> u64 {
        self.strategies
            .iter()
            .map(|strategy| {
                strategy.limit.saturating_sub(self.used(state, at, strategy.window.as_micros()))
            })
            .min()
            .unwrap_or(0)
    }

    /// The time until the last entry has left, in µs.
    #[must_use]
    pub fn reset_after(&self, state: &State, at: u64) -> u64 {
        state.entries.back().map_or(0, |last| (last.stamp + self.horizon).saturating_sub(at))
    }

    /// Of a ring: the units in the slice of `at`.
    #[must_use]
    pub fn current(&self, state: &State, at: u64) -> u64 {
        match state.entries.back() {
            Some(last) if self.is_ring() && last.stamp == self.stamp(at) => {
                last.total - state.total_before(state.entries.len() - 1)
            }
            _ => 0,
        }
    }

    /// Drops the entries that have left the longest window.
    fn forget(&self, state: &mut State, at: u64) {
        let gone = first_within(state, at, self.horizon);
        state.base = state.total_before(gone);
        state.entries.drain(..gone);
    }

    const fn stamp(&self, at: u64) -> u64 {
        at - at % self.quantum
    }
}

impl State {
    fn total(&self) -> u64 {
        self.entries.back().map_or(self.base, |last| last.total)
    }

    fn total_before(&self, index: usize) -> u64 {
        index.checked_sub(1).map_or(self.base, |previous| self.entries[previous].total)
    }

    fn rebase(&mut self) {
        for entry in &mut self.entries {
            entry.total -= self.base;
        }
        self.base = 0;
    }
}

/// The first entry that counts at `at` over `window` µs: a request made at `s` counts while
/// `at − window < s`.
fn first_within(state: &State, at: u64, window: u64) -> usize {
    // Most often nothing has left since the last look, or all of it.
    match (state.entries.front(), state.entries.back()) {
        (Some(first), _) if first.stamp + window > at => 0,
        (_, Some(last)) if last.stamp + window <= at => state.entries.len(),
        _ => state.entries.partition_point(|entry| entry.stamp + window <= at),
    }
}
