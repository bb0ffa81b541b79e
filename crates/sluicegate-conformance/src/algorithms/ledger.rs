//! Fixed windows, rings of slices and sliding logs: the list of admissions, recounted for every
//! request.

use std::collections::BTreeSet;

use sluicegate_core::for_stores::ReportedUnits;
use sluicegate_core::{Algorithm, CalendarWindow, MAX_EXACT, Window};

use super::account::{Account, Patience, Report, Retry, Verdict, unknown};
use super::calendar::{date_at, end_of_date, window_around as calendar_window};
use super::refusal::Refusal;
use super::slots::{Slots, first_instant};
use crate::times::micros;

/// Maximum number of entries in a log.
const MAX_ENTRIES: usize = 65_536;

/// The admissions that still count, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    newest: Option<u64>,
    entries: Vec<Entry>,
    /// The leased units of a fixed window. The entries always contain at least as many units.
    slots: Slots,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    stamp: u64,
    /// Units that still count. Refunds can reduce them to 0.
    units: u64,
    /// The first date of its window, in days since 1970-01-01, if the window is across zones.
    date: Option<u64>,
}

impl Ledger {
    /// Returns the first instant at which an entry no longer counts.
    fn leaves(&self, algorithm: &Algorithm, Entry { stamp, date, .. }: Entry) -> u64 {
        match algorithm {
            Algorithm::FixedWindow { window: Window::FirstAdmitted(length), .. } => {
                // All entries belong to one window, which the oldest entry opened.
                self.entries.first().map_or(stamp, |opening| opening.stamp) + micros(*length)
            }
            Algorithm::FixedWindow { window: Window::Calendar(calendar), .. } => match date {
                Some(date) => end_of_date(calendar, date),
                None => calendar_window(calendar, stamp).1,
            },
            Algorithm::FixedWindow { window, .. } => {
                window_around(window, stamp).map_or(0, |(_, end)| end)
            }
            Algorithm::SlidingWindow { window, slices, .. } => {
                let slice = micros(*window) / slices;
                (stamp / slice + slices) * slice
            }
            Algorithm::SlidingLog { tiers } => {
                let longest = tiers.iter().map(|tier| micros(tier.window)).max();
                stamp + longest.unwrap_or(0)
            }
            _ => unknown(algorithm),
        }
    }

    /// Returns each limit with the units that count against it at `at`.
    fn counts(&self, algorithm: &Algorithm, at: u64) -> Vec<(u64, u64)> {
        let count = |counts: &dyn Fn(Entry) -> bool| -> u64 {
            self.entries.iter().filter(|entry| counts(**entry)).map(|entry| entry.units).sum()
        };
        match algorithm {
            Algorithm::SlidingLog { tiers } => tiers
                .iter()
                .map(|tier| (tier.limit, count(&|entry| at < entry.stamp + micros(tier.window))))
                .collect(),
            Algorithm::FixedWindow { limit, .. } | Algorithm::SlidingWindow { limit, .. } => {
                vec![(*limit, count(&|entry| at < self.leaves(algorithm, entry)))]
            }
            _ => unknown(algorithm),
        }
    }

    fn passes(&self, algorithm: &Algorithm, at: u64, units: u64) -> bool {
        self.violated(algorithm, at, units).is_empty()
    }

    fn violated(&self, algorithm: &Algorithm, at: u64, units: u64) -> Vec<usize> {
        let counts = self.counts(algorithm, at).into_iter().enumerate();
        counts
            .filter(|(_, (limit, count))| count + units > *limit)
            .map(|(index, _)| index)
            .collect()
    }

    /// Returns every instant after `at` at which an entry stops counting, soonest first.
    fn departures(&self, algorithm: &Algorithm, at: u64) -> BTreeSet<u64> {
        let entries = self.entries.iter();
        let departures: BTreeSet<u64> = match algorithm {
            Algorithm::SlidingLog { tiers } => entries
                .flat_map(|entry| tiers.iter().map(move |tier| entry.stamp + micros(tier.window)))
                .collect(),
            _ => entries.map(|entry| self.leaves(algorithm, *entry)).collect(),
        };
        departures.into_iter().filter(|instant| *instant > at).collect()
    }

    /// Removes entries that no longer count at `at`. They don't return if the clock steps back.
    fn forget(&mut self, algorithm: &Algorithm, at: u64) {
        let gone: Vec<bool> =
            self.entries.iter().map(|entry| at >= self.leaves(algorithm, *entry)).collect();
        let mut gone = gone.into_iter();
        self.entries.retain(|_| gone.next() == Some(false));
        if matches!(algorithm, Algorithm::SlidingLog { .. }) {
            self.entries.retain(|entry| entry.units > 0);
        }
    }

    fn record(&mut self, algorithm: &Algorithm, at: u64, units: u64) -> Result<(), Refusal> {
        self.forget(algorithm, at);
        self.newest = Some(at);
        // A date that was begun in another zone stays begun.
        let begun = self.entries.last().and_then(|last| last.date);
        let date = across_zones(algorithm).map(|calendar| date_at(calendar, at)).max(begun);
        match self.entries.last_mut() {
            Some(last) if (last.stamp, last.date) == (at, date) => {
                last.units = last.units.checked_add(units).ok_or(Refusal::TooLarge)?;
            }
            _ => self.entries.push(Entry { stamp: at, units, date }),
        }
        let total: u128 = self.entries.iter().map(|entry| u128::from(entry.units)).sum();
        let is_log = matches!(algorithm, Algorithm::SlidingLog { .. });
        if total > u128::from(MAX_EXACT) || is_log && self.entries.len() > MAX_ENTRIES {
            return Err(Refusal::TooLarge);
        }
        Ok(())
    }

    /// Returns the ledger at `at`. While units are leased, at least those count.
    fn brought(&self, algorithm: &Algorithm, at: u64) -> Result<Self, Refusal> {
        let mut brought = self.clone();
        brought.slots.drop_over(at);
        if !brought.slots.is_empty() {
            brought.newest = Some(at);
            brought.forget(algorithm, at);
            let used = brought.used();
            let missing = brought.slots.outstanding().saturating_sub(used);
            if missing > 0 {
                brought.record(algorithm, at, missing)?;
            }
        }
        Ok(brought)
    }

    fn is_leased(&self, at: u64) -> bool {
        self.slots.iter().any(|slot| slot.until > at)
    }

    fn used(&self) -> u64 {
        self.entries.iter().map(|entry| entry.units).sum()
    }

    /// Gives back units that count at `at`, oldest first, but never the leased ones. If nothing
    /// counts, writes nothing.
    fn take_off(&mut self, algorithm: &Algorithm, at: u64, units: u64) -> Result<(), Refusal> {
        let mut brought = self.brought(algorithm, at)?;
        let counts: Vec<bool> =
            brought.entries.iter().map(|entry| at < brought.leaves(algorithm, *entry)).collect();
        let mut left = units;
        if !brought.slots.is_empty() {
            left = left.min(brought.used().saturating_sub(brought.slots.outstanding()));
        }
        let is_current = counts.contains(&true);
        for (entry, _) in brought.entries.iter_mut().zip(counts).filter(|(_, counts)| *counts) {
            let given = entry.units.min(left);
            entry.units -= given;
            left -= given;
        }
        if is_current {
            *self = brought;
        }
        Ok(())
    }

    /// Returns the time from `at` until the state equals a fresh key's, if nothing is leased.
    fn stays_for(&self, algorithm: &Algorithm, at: u64) -> u64 {
        let stays = |entry: &&Entry| match algorithm {
            // An empty window that a request opened still differs from a fresh key's.
            Algorithm::FixedWindow { window: Window::FirstAdmitted(_), .. } => true,
            _ => entry.units > 0 || entry.date.is_some(),
        };
        let stay = self.entries.iter().filter(stays);
        let last = stay.map(|entry| self.leaves(algorithm, *entry)).max();
        last.map_or(0, |last| last.saturating_sub(at))
    }

    fn least_limit(&self, algorithm: &Algorithm) -> u64 {
        self.counts(algorithm, 0).into_iter().map(|(limit, _)| limit).min().unwrap_or(0)
    }

    /// Returns the slice of an entry. All entries of a slice of a ring expire together.
    fn slot(algorithm: &Algorithm, stamp: u64) -> u64 {
        match algorithm {
            Algorithm::SlidingWindow { window, slices, .. } => stamp / (micros(*window) / slices),
            _ => stamp,
        }
    }
}

impl Account for Ledger {
    fn boxed(&self) -> Box<dyn Account> {
        Box::new(self.clone())
    }

    fn newest(&self) -> Option<u64> {
        self.newest
    }

    fn restamp(&mut self, algorithm: &Algorithm, now: u64) -> Result<(), Refusal> {
        self.newest = Some(now);
        let latest = across_zones(algorithm).map(|calendar| date_at(calendar, now));
        for entry in &mut self.entries {
            entry.stamp = entry.stamp.min(now);
            entry.date = entry.date.min(latest);
        }
        self.slots.restamp(now);
        Ok(())
    }

    fn judge(
        &self,
        algorithm: &Algorithm,
        at: u64,
        units: u64,
        _: Patience,
    ) -> Result<Verdict, Refusal> {
        let violated = self.brought(algorithm, at)?.violated(algorithm, at, units);
        if violated.is_empty() {
            return Ok(Verdict::ADMITTED);
        }
        let retry = if units > self.least_limit(algorithm) {
            Retry::Never
        } else if self.is_leased(at) {
            let passes = |then| Ok(self.brought(algorithm, then)?.passes(algorithm, then, units));
            first_instant(at, passes)?.map_or(Retry::Never, |then| Retry::After(then - at))
        } else {
            let departures: Vec<u64> = self.departures(algorithm, at).into_iter().collect();
            // Expired entries don't return, so a request that passes once keeps passing.
            let index =
                departures.partition_point(|instant| !self.passes(algorithm, *instant, units));
            departures.get(index).map_or(Retry::Never, |instant| Retry::After(instant - at))
        };
        // A ring is a log with one tier. A fixed window has none.
        let violated =
            if matches!(algorithm, Algorithm::FixedWindow { .. }) { Vec::new() } else { violated };
        Ok(Verdict { violated, ..Verdict::refused(retry) })
    }

    fn admit(&mut self, algorithm: &Algorithm, at: u64, units: u64, _: u64) -> Result<(), Refusal> {
        *self = self.brought(algorithm, at)?;
        self.record(algorithm, at, units)
    }

    fn charge_denied(&mut self, algorithm: &Algorithm, at: u64, units: u64) -> Result<(), Refusal> {
        *self = self.brought(algorithm, at)?;
        let units = units.min(self.least_limit(algorithm));
        if let Algorithm::FixedWindow { .. } = algorithm {
            let room = self
                .counts(algorithm, at)
                .into_iter()
                .map(|(limit, used)| limit.saturating_sub(used));
            return self.record(algorithm, at, units.min(room.min().unwrap_or(0)));
        }
        if units == 0 {
            return Ok(());
        }
        self.record(algorithm, at, units)?;
        // With several tiers the oldest entry is removed only if no tier needs it.
        let most =
            self.counts(algorithm, at).into_iter().map(|(limit, _)| limit).max().unwrap_or(0);
        while let Some(oldest) =
            self.entries.first().map(|entry| Self::slot(algorithm, entry.stamp))
        {
            let rest = |entry: &&Entry| Self::slot(algorithm, entry.stamp) != oldest;
            let units: u64 = self.entries.iter().filter(rest).map(|entry| entry.units).sum();
            if units < most {
                break;
            }
            self.entries.retain(|entry| Self::slot(algorithm, entry.stamp) != oldest);
        }
        Ok(())
    }

    fn count_denied(&mut self, algorithm: &Algorithm, at: u64, units: u64) -> Result<(), Refusal> {
        *self = self.brought(algorithm, at)?;
        let used = self.counts(algorithm, at).into_iter().map(|(_, used)| used).max();
        let room = MAX_EXACT - used.unwrap_or(0);
        self.record(algorithm, at, units.min(room))
    }

    fn refund(&mut self, algorithm: &Algorithm, at: u64, units: u64) -> Result<(), Refusal> {
        // Expired entries can't be refunded, but they aren't removed either. A request with an
        // earlier stamp is evaluated at the newest admission, where they may still count.
        self.take_off(algorithm, at, units)
    }

    fn give_back(
        &mut self,
        algorithm: &Algorithm,
        at: u64,
        units: u64,
        taken_at: u64,
        _then: Option<&Algorithm>,
    ) -> Result<(), Refusal> {
        if taken_at > at {
            return Ok(());
        }
        if let Algorithm::FixedWindow { window, .. } = algorithm {
            let brought = self.brought(algorithm, at)?;
            let is_current = match window_around(window, taken_at) {
                Some((_, end)) => at < end,
                None => brought.entries.first().is_some_and(|opening| {
                    opening.stamp <= taken_at && at < brought.leaves(algorithm, *opening)
                }),
            };
            return if is_current { self.refund(algorithm, at, units) } else { Ok(()) };
        }
        let slot = Self::slot(algorithm, taken_at);
        if at >= self.leaves(algorithm, Entry { stamp: taken_at, units, date: None }) {
            return Ok(());
        }
        let mut left = units;
        let is_own = |entry: &&mut Entry| Self::slot(algorithm, entry.stamp) == slot;
        for entry in self.entries.iter_mut().filter(is_own) {
            let given = entry.units.min(left);
            entry.units -= given;
            left -= given;
        }
        Ok(())
    }

    fn report(&self, algorithm: &Algorithm, at: u64) -> Result<Report, Refusal> {
        let counts = self.brought(algorithm, at)?.counts(algorithm, at);
        let limit = counts.iter().map(|(limit, _)| *limit).min();
        let remaining = counts.iter().map(|(limit, count)| limit.saturating_sub(*count)).min();
        let reset = if self.is_leased(at) {
            let is_fresh = |then| {
                let brought = self.brought(algorithm, then)?;
                Ok(brought.slots.is_empty() && brought.stays_for(algorithm, then) == 0)
            };
            first_instant(at, is_fresh)?.map(|then| then - at)
        } else {
            Some(self.stays_for(algorithm, at))
        };
        let current_slice = matches!(algorithm, Algorithm::SlidingWindow { .. }).then(|| {
            let current =
                |entry: &&Entry| Self::slot(algorithm, entry.stamp) == Self::slot(algorithm, at);
            self.entries.iter().filter(current).map(|entry| entry.units).sum()
        });
        // No tier of a log counts more units than the longest one.
        let used = counts.iter().map(|(_, count)| *count).max();
        Ok(Report { limit, remaining, reset, current_slice, used })
    }

    fn reset(&mut self, algorithm: &Algorithm, at: u64) {
        let mut slots = std::mem::take(&mut self.slots);
        slots.drop_over(at);
        *self = Self::default();
        if !slots.is_empty() {
            self.newest = Some(at);
            let date = across_zones(algorithm).map(|calendar| date_at(calendar, at));
            self.entries.push(Entry { stamp: at, units: slots.outstanding(), date });
            self.slots = slots;
        }
    }

    fn slots(&self) -> Slots {
        self.slots.clone()
    }

    fn window_end(&self, algorithm: &Algorithm, at: u64) -> Option<u64> {
        let Algorithm::FixedWindow { window, .. } = algorithm else { return None };
        let end = window_around(window, at).map(|(_, end)| end);
        let entry = Entry { stamp: at, units: 0, date: None };
        Some(end.unwrap_or_else(|| self.leaves(algorithm, entry)))
    }

    fn lease(
        &mut self,
        algorithm: &Algorithm,
        at: u64,
        units: u64,
        slots: Slots,
    ) -> Result<(), Refusal> {
        self.admit(algorithm, at, units, 0)?;
        self.slots = slots;
        Ok(())
    }

    fn hear(
        &mut self,
        algorithm: &Algorithm,
        at: u64,
        tag: u64,
        units: ReportedUnits,
    ) -> Result<(), Refusal> {
        let mut heard = self.brought(algorithm, at)?;
        if let Some(returned) = heard.slots.take(tag, units.spent, units.returned) {
            *self = heard;
            self.take_off(algorithm, at, returned)?;
        }
        Ok(())
    }
}

/// Returns the calendar of windows across zones.
fn across_zones(algorithm: &Algorithm) -> Option<&CalendarWindow> {
    match algorithm {
        Algorithm::FixedWindow { window: Window::Calendar(calendar), .. } => {
            calendar.is_across_zones().then_some(calendar)
        }
        _ => None,
    }
}

/// Returns the start of the window that contains `stamp` and the start of the next one, for windows
/// that begin at fixed times.
fn window_around(window: &Window, stamp: u64) -> Option<(u64, u64)> {
    match window {
        Window::FirstAdmitted(_) => None,
        Window::Aligned(length) => {
            let length = micros(*length);
            let start = stamp / length * length;
            Some((start, start + length))
        }
        Window::Calendar(calendar) => Some(calendar_window(calendar, stamp)),
        _ => unknown(window),
    }
}
