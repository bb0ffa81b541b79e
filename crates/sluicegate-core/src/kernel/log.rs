//! The log kernel: the exact sliding log, several tiers over one log, and the ring of slices. A
//! ring is a log whose stamps are rounded down to the slice.
//!
//! Entries hold running totals instead of costs. The units in a window are the difference of two
//! totals, found by binary search, so a decision never walks through the entries.

mod entries;
mod spec;

pub use entries::Entries;

use std::time::Duration;

use super::{
    Charge, FixedKind, Kernel, Layout, Leases, Now, Overflow, Profile, Report, Taken, Verdict,
};
use crate::algorithm::LogTier;
use crate::error::PolicyError;
use crate::number::{MAX_EXACT, check_limit};
use crate::time::{Span, check_window};

/// The rule of a log or ring.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Log {
    tiers: Box<[LogTier]>,
    /// The unit to which stamps are rounded down, in µs: 1 for a log, the slice for a ring.
    quantum: u64,
    /// The longest window, in µs: older entries have left.
    horizon: u64,
}

/// The state of a key.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct State {
    /// The newest admitted time, in microseconds since the epoch.
    pub newest: u64,
    /// The running total before the first entry.
    pub base: u64,
    /// The entries, oldest first, with strictly growing stamps and totals.
    pub entries: Entries,
}

/// All requests with one stamp.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Entry {
    /// The time of the requests, in microseconds since the epoch, rounded down to the quantum.
    pub stamp: u64,
    /// The units of this entry and all before it.
    pub total: u64,
}

/// A state at the evaluation time.
#[derive(Clone, Debug)]
pub struct Balance {
    state: State,
    pub(super) at: u64,
}

impl Log {
    /// The kind of a ring of few slices, entries included.
    pub const RING_KIND: u8 = 0x81;
    /// The kind of a log or long ring, entries included.
    pub const WHOLE_KIND: u8 = 0xc1;
    /// The maximum number of slices of a ring whose entries share a value with the other policies'
    /// states.
    pub const MAX_INLINE_SLICES: u64 = 64;
    /// The largest limit of an exact log.
    pub const MAX_LIMIT: u64 = 65_536;
    /// The maximum number of entries in a log or ring.
    pub const MAX_ENTRIES: usize = 65_536;
    /// The number of entries whose memory isn't worth freeing.
    const SMALL: usize = 64;
    /// The maximum number of tiers over one log.
    pub const MAX_TIERS: usize = 32;

    pub(super) fn exact(tiers: &[LogTier]) -> Result<Self, PolicyError> {
        if tiers.is_empty() || tiers.len() > Self::MAX_TIERS {
            return Err(PolicyError::new(
                "tiers",
                format!("there are {}, but a log has 1 to {}", tiers.len(), Self::MAX_TIERS),
            ));
        }
        for tier in tiers {
            if tier.limit > Self::MAX_LIMIT {
                return Err(PolicyError::new(
                    "limit",
                    format!(
                        "{} is above {}, the largest limit of a log: use sliding_window or sliding_counter",
                        tier.limit,
                        Self::MAX_LIMIT
                    ),
                ));
            }
            check_window(tier.window)?;
        }
        Ok(Self::over(tiers.into(), 1))
    }

    pub(super) fn ring(limit: u64, window: Duration, slices: u64) -> Result<Self, PolicyError> {
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
                format!(
                    "{slices} doesn't divide {} into whole milliseconds{hint}",
                    Span::from(window)
                ),
            ));
        }
        Ok(Self::over(Box::new([LogTier { limit, window }]), length / slices))
    }

    fn over(tiers: Box<[LogTier]>, quantum: u64) -> Self {
        let horizon = tiers.iter().map(LogTier::micros).max().unwrap_or(0);
        Self { tiers, quantum, horizon }
    }

    /// Returns the tiers, in the order given.
    #[must_use]
    pub fn tiers(&self) -> &[LogTier] {
        &self.tiers
    }

    /// Returns the unit to which stamps are rounded down, in µs.
    #[must_use]
    pub const fn quantum(&self) -> u64 {
        self.quantum
    }

    /// Returns the longest window, in µs.
    #[must_use]
    pub const fn horizon(&self) -> u64 {
        self.horizon
    }

    /// Returns `true` if stamps are rounded to slices.
    #[must_use]
    pub const fn is_ring(&self) -> bool {
        self.quantum > 1
    }

    /// Counts each entry that lies ahead of now as made now.
    fn restamp(&self, state: &mut State, now: u64) {
        state.newest = now;
        let stamp = self.stamp(now);
        let ahead = state.entries.partition_point(|entry| entry.stamp <= now);
        let Some(&Entry { total, .. }) =
            state.entries.back().filter(|_| ahead < state.entries.len())
        else {
            return;
        };
        state.entries.remove(ahead..state.entries.len());
        match state.entries.back_mut() {
            Some(last) if last.stamp == stamp => last.total = total,
            _ => state.entries.push_back(Entry { stamp, total }),
        }
    }

    /// Drops the entries that have left the longest window.
    fn forget(&self, state: &mut State, at: u64) {
        let gone = first_within(state, at, self.horizon);
        state.base = state.total_before(gone);
        state.entries.remove(0..gone);
        let (held, room) = (state.entries.len(), state.entries.capacity());
        if room > Self::SMALL && held * 2 < room {
            state.entries.shrink_to(held + held / 4);
        }
    }

    /// Adds an admitted cost.
    fn add(&self, balance: &mut Balance, cost: u64) -> Result<(), Overflow> {
        let Balance { state, at } = balance;
        self.forget(state, *at);
        if state.total() + cost > MAX_EXACT {
            state.rebase();
        }
        let total = state.total() + cost;
        let stamp = self.stamp(*at);
        let joins = state.entries.back().is_some_and(|last| last.stamp == stamp);
        if total > MAX_EXACT || (!joins && state.entries.len() == Self::MAX_ENTRIES) {
            return Err(Overflow);
        }
        match state.entries.back_mut() {
            Some(last) if joins => last.total = total,
            _ => state.entries.push_back(Entry { stamp, total }),
        }
        state.newest = *at;
        Ok(())
    }

    /// Adds a denied cost, and drops the oldest entries while the others still exhaust every tier.
    fn add_denied(&self, balance: &mut Balance, cost: u64) -> Result<(), Overflow> {
        self.add(balance, cost)?;
        let state = &mut balance.state;
        let largest = self.tiers.iter().map(|tier| tier.limit).max().unwrap_or(0);
        while let Some(first) =
            state.entries.front().filter(|first| state.total() - first.total >= largest)
        {
            state.base = first.total;
            state.entries.remove(0..1);
        }
        Ok(())
    }

    /// Returns the largest cost that a fresh key admits.
    fn limit(&self) -> u64 {
        self.tiers.iter().map(|tier| tier.limit).min().unwrap_or(0)
    }

    const fn stamp(&self, at: u64) -> u64 {
        at - at % self.quantum
    }
}

impl Kernel for Log {
    /// The head: newest time, base, total, first, count.
    const FIXED: FixedKind = FixedKind { kind: 0x05, numbers: 5 };

    const OUTLASTS: &'static [fn(&Self, &Self) -> bool] = &[|a, b| a.horizon >= b.horizon];

    const LEASES: Option<Leases<Self>> = None;

    type State = State;
    type Balance = Balance;

    fn profile(&self) -> Profile {
        Profile {
            limit: self.limit(),
            retention: self.horizon,
            layout: if self.is_ring() && self.horizon / self.quantum <= Self::MAX_INLINE_SLICES {
                Layout::Listed { kind: Self::RING_KIND }
            } else {
                Layout::Apart { head: Self::FIXED, whole: Self::WHOLE_KIND }
            },
            flow: None,
            can_reserve: false,
            is_shaper: false,
            can_lease: false,
        }
    }

    fn balance(&self, state: Option<State>, now: Now) -> Result<(Balance, bool), Overflow> {
        let mut state = state.unwrap_or_default();
        let restamped = now.is_exceeded_by(state.newest);
        if restamped {
            self.restamp(&mut state, now.micros);
        }
        let at = now.micros.max(state.newest);
        Ok((Balance { state, at }, restamped))
    }

    fn judge(&self, balance: &Balance, cost: u64, _within: Option<u64>) -> Verdict {
        let Balance { state, at } = balance;
        let mut wait = 0;
        for tier in &self.tiers {
            let Some(room) = tier.limit.checked_sub(cost) else {
                return Verdict::Refuse { retry: None };
            };
            let window = tier.micros();
            let first = first_within(state, *at, window);
            let before = state.total_before(first);
            let Some(excess) =
                (state.total() - before).checked_sub(room).filter(|&excess| excess > 0)
            else {
                continue;
            };
            // The last entry that must leave to free enough units.
            let last_to_leave =
                state.entries.partition_point(|entry| entry.total < before + excess);
            wait = wait.max(state.entries[last_to_leave].stamp + window - at);
        }
        if wait == 0 { Verdict::Pass { wait: 0 } } else { Verdict::Refuse { retry: Some(wait) } }
    }

    /// Fails if the log can't take another entry, or the count is beyond its maximum.
    fn charge(&self, balance: &mut Balance, charge: Charge) -> Result<(), Overflow> {
        match charge {
            Charge::Admitted { cost, .. } => self.add(balance, cost),
            Charge::Denied { cost } | Charge::Counted { cost } => match cost.min(self.limit()) {
                0 => Ok(()),
                cost => self.add_denied(balance, cost),
            },
        }
    }

    // Without a copy: a log can be long.
    fn can_charge(&self, balance: &Balance, charge: Charge) -> Result<(), Overflow> {
        let cost = match charge {
            Charge::Admitted { cost, .. } => cost,
            Charge::Denied { cost } | Charge::Counted { cost } => cost.min(self.limit()),
        };
        let Balance { state, at } = balance;
        let first = first_within(state, *at, self.horizon);
        let held = state.total() - state.total_before(first);
        let joins = state.entries.back().is_some_and(|last| last.stamp == self.stamp(*at));
        let is_full = !joins && state.entries.len() - first == Self::MAX_ENTRIES;
        if held + cost > MAX_EXACT || is_full { Err(Overflow) } else { Ok(()) }
    }

    /// Gives units back, oldest entries first.
    fn refund(&self, balance: &mut Balance, units: u64) -> Option<u64> {
        let Balance { state, at } = balance;
        if state.entries.is_empty() {
            return None;
        }
        // Nothing is evaluated before the newest time. Entries that have left since then have
        // nothing to give back, but count again if time steps back.
        self.forget(state, state.newest);
        let first = first_within(state, *at, self.horizon);
        let before = state.total_before(first);
        let given = units.min(state.total() - before);
        let gone = state.entries.partition_point(|entry| entry.total <= before + given);
        if first == 0 {
            state.base += given;
        } else {
            for entry in state.entries.iter_mut_from(gone) {
                entry.total -= given;
            }
        }
        state.entries.remove(first..gone.max(first));
        Some(given)
    }

    /// Gives units back from their entry, while that entry counts. Walks through the entries after
    /// it.
    fn give_back(&self, balance: &mut Balance, taken: Taken) -> Option<u64> {
        let Balance { state, at } = balance;
        let stamp = self.stamp(taken.at);
        let index = state.entries.partition_point(|entry| entry.stamp < stamp);
        let is_there = index < state.entries.len() && state.entries[index].stamp == stamp;
        if !is_there || taken.at > *at || stamp + self.horizon <= *at {
            return None;
        }
        let before = state.total_before(index);
        let given = taken.units.min(state.entries[index].total - before);
        for entry in state.entries.iter_mut_from(index) {
            entry.total -= given;
        }
        if state.entries[index].total == before {
            state.entries.remove(index..index + 1);
        }
        Some(given)
    }

    fn report(&self, balance: &Balance) -> Report {
        let Balance { state, at } = balance;
        let left = |tier: &LogTier| {
            let used = used(state, *at, tier.micros());
            tier.limit.saturating_sub(used)
        };
        let current = match state.entries.back() {
            Some(last) if self.is_ring() && last.stamp == self.stamp(*at) => {
                last.total - state.total_before(state.entries.len() - 1)
            }
            _ => 0,
        };
        Report {
            evaluated_at: *at,
            remaining: self.tiers.iter().map(left).min().unwrap_or(0),
            reset: self.keep_for(balance),
            used: used(state, *at, self.horizon),
            current,
        }
    }

    /// Keeps the state until the last entry has left.
    fn keep_for(&self, balance: &Balance) -> u64 {
        let last = balance.state.entries.back();
        last.map_or(0, |last| (last.stamp + self.horizon).saturating_sub(balance.at))
    }

    // Without a copy: a log can be long.
    fn expires_in(&self, state: &State, now: Now) -> u64 {
        let last = state.entries.back().map_or(0, |last| last.stamp + self.horizon);
        last.max(state.newest).saturating_sub(now.micros)
    }

    // Without a copy: a log can be long.
    fn used(&self, state: &State, now: Now) -> u64 {
        used(state, now.micros.max(state.newest), self.horizon)
    }

    fn violated(&self, balance: &Balance, cost: u64) -> u32 {
        self.tiers.iter().enumerate().fold(0, |violated, (index, tier)| {
            let used = used(&balance.state, balance.at, tier.micros());
            if used + cost > tier.limit { violated | 1 << index } else { violated }
        })
    }

    fn state(&self, balance: Balance) -> Option<State> {
        Some(balance.state)
    }

    fn newest(state: &State) -> u64 {
        state.newest
    }

    fn write(state: &State, numbers: &mut Vec<u64>) {
        numbers.extend([state.newest, state.base]);
        numbers.extend(state.entries.iter().flat_map(|entry| [entry.stamp, entry.total]));
    }

    fn read(numbers: &[u64]) -> Option<State> {
        let (&[newest, base], pairs) = numbers.split_first_chunk()?;
        if !pairs.len().is_multiple_of(2) {
            return None;
        }
        let mut entries = Entries::with_capacity(pairs.len() / 2);
        let (mut stamp_before, mut total_before) = (None, base);
        for pair in pairs.chunks_exact(2) {
            let (stamp, total) = (pair[0], pair[1]);
            if stamp_before >= Some(stamp) || total <= total_before || stamp > newest {
                return None;
            }
            (stamp_before, total_before) = (Some(stamp), total);
            entries.push_back(Entry { stamp, total });
        }
        Some(State { newest, base, entries })
    }
}

impl Balance {
    /// Returns the state at the evaluation time.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Returns the evaluation time, in µs since the epoch.
    #[must_use]
    pub const fn at(&self) -> u64 {
        self.at
    }
}

impl State {
    /// Returns the size of the entries in bytes, including spare capacity.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.entries.heap_bytes()
    }

    /// Returns the maximum number of bytes that an admission adds to [`State::heap_bytes`].
    #[must_use]
    pub fn growth_bytes(&self) -> usize {
        self.entries.growth_bytes()
    }

    fn total(&self) -> u64 {
        self.entries.back().map_or(self.base, |last| last.total)
    }

    fn total_before(&self, index: usize) -> u64 {
        index.checked_sub(1).map_or(self.base, |previous| self.entries[previous].total)
    }

    fn rebase(&mut self) {
        for entry in self.entries.iter_mut_from(0) {
            entry.total -= self.base;
        }
        self.base = 0;
    }
}

/// Returns the units that count at `at` over the last `window` µs.
fn used(state: &State, at: u64, window: u64) -> u64 {
    state.total() - state.total_before(first_within(state, at, window))
}

/// Returns the first entry that counts at `at` over `window` µs. A request made at `s` counts while
/// `at − window < s`.
fn first_within(state: &State, at: u64, window: u64) -> usize {
    // Usually no entry has left since the last request, or all have.
    match (state.entries.front(), state.entries.back()) {
        (Some(first), _) if first.stamp + window > at => 0,
        (_, Some(last)) if last.stamp + window <= at => state.entries.len(),
        _ => state.entries.partition_point(|entry| entry.stamp + window <= at),
    }
}
