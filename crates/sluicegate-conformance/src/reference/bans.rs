//! Bans, from the list of the denials that count.

use std::collections::HashMap;

use sluicegate_core::Ban;

use super::answer::Banned;
use super::{Clock, Model, Operation, Seat};
use crate::times::micros;

/// The denials of each key.
pub(super) type Bans = HashMap<Vec<u8>, Denials>;

/// The denials of one key, and its last ban.
#[derive(Clone, Debug, Default)]
pub(super) struct Denials {
    /// Time of the last counted denial or the start of the last ban.
    stamp: u64,
    /// Times of the denials that count together.
    times: Vec<u64>,
    last_ban: Option<LastBan>,
}

#[derive(Clone, Copy, Debug)]
struct LastBan {
    ends: u64,
    /// Length of the last ban that wasn't manual.
    length: Option<u64>,
}

impl Denials {
    pub(super) fn rest(&self, now: u64) -> Option<u64> {
        self.last_ban.filter(|last| last.ends > now).map(|last| last.ends - now)
    }

    /// Returns the length of the last ban, unless the quiet time has passed since.
    fn remembered(&self, ban: &Ban, now: u64) -> Option<u64> {
        let last = self.last_ban?;
        if now < last.ends + micros(ban.up_to()) { last.length } else { None }
    }

    fn deny(&mut self, ban: &Ban, now: u64) -> Option<Banned> {
        let is_over = |first: &u64| now >= first + micros(ban.after().period());
        if self.times.first().is_some_and(is_over) {
            self.times.clear();
        }
        self.times.push(now);
        self.stamp = self.stamp.max(now);
        if (self.times.len() as u64) < ban.after().count() {
            return None;
        }
        let length = match self.remembered(ban, now) {
            Some(before) if ban.is_doubling() => (2 * before).min(micros(ban.up_to())),
            _ => micros(ban.lasts()),
        };
        self.times.clear();
        self.last_ban = Some(LastBan { ends: now + length, length: Some(length) });
        Some(Banned { ends_in_us: length, begins: true })
    }

    fn ban_by_hand(&mut self, ban: &Ban, now: u64, lasts: u64) -> Banned {
        let length = self.remembered(ban, now).filter(|_| ban.is_doubling());
        self.stamp = self.stamp.max(now);
        self.times.clear();
        let ends = self.last_ban.map_or(0, |last| last.ends).max(now + lasts);
        self.last_ban = Some(LastBan { ends, length });
        Banned { ends_in_us: ends - now, begins: true }
    }

    fn restamp(&mut self, ban: &Ban, now: u64) {
        self.stamp = now;
        self.times.iter_mut().for_each(|time| *time = (*time).min(now));
        if let Some(last) = &mut self.last_ban {
            last.ends = last.ends.min(now + micros(ban.up_to()));
        }
    }
}

impl Model {
    /// Returns all banned keys, each with the remaining µs.
    #[must_use]
    pub fn banned(&self, now_us: u64) -> Vec<(Vec<u8>, u64)> {
        let banned = self
            .bans
            .iter()
            .filter_map(|(key, denials)| Some((key.clone(), denials.rest(now_us)?)));
        banned.collect()
    }

    /// Bans keys that are denied too often.
    #[must_use]
    pub fn banning(self, ban: Option<Ban>) -> Self {
        Self { ban, ..self }
    }

    /// Returns the times at which a key's denials stop counting together, its ban ends, and its
    /// bans are forgotten.
    #[must_use]
    pub fn ban_edges(&self, key: &[u8]) -> Vec<u64> {
        let Some((ban, denials)) = self.ban.as_ref().zip(self.bans.get(key)) else {
            return Vec::new();
        };
        let count = denials.times.first().map(|first| first + micros(ban.after().period()));
        let end = denials.last_ban.map(|last| last.ends);
        let quiet = end.map(|end| end + micros(ban.up_to()));
        [count, end, quiet].into_iter().flatten().collect()
    }

    /// Returns a key's denials at `now`, and whether they were restamped.
    pub(super) fn denials(&self, now: u64, key: &[u8]) -> (Denials, bool) {
        let mut denials = self.bans.get(key).cloned().unwrap_or_default();
        let is_ahead = match self.clock {
            Clock::Own { max_clock_back_us } => denials.stamp > now + max_clock_back_us,
            Clock::Injected => false,
        };
        if let Some(ban) = self.ban.as_ref().filter(|_| is_ahead) {
            denials.restamp(ban, now);
        }
        (denials, is_ahead)
    }

    /// Counts an operation's denial after the policies were evaluated. Returns the key's denials
    /// and the ban that begins.
    pub(super) fn count_denial(
        &self,
        (now, key): (u64, &[u8]),
        operation: &Operation,
        allowed: bool,
        seats: &[Seat<'_>],
    ) -> (Option<Denials>, Option<Banned>, bool) {
        let Some(ban) = &self.ban else { return (None, None, false) };
        let (mut denials, restamped) = self.denials(now, key);
        let refused = seats.iter().any(|seat| !seat.is_shadow() && !seat.verdict.admitted());
        let banned = match operation {
            Operation::Reset | Operation::Unban => {
                return (
                    Some(Denials::default()),
                    None,
                    restamped && *operation == Operation::Unban,
                );
            }
            Operation::Ban { lasts_us } => Some(denials.ban_by_hand(ban, now, *lasts_us)),
            Operation::Check { .. } | Operation::Reserve { .. } | Operation::Take { .. }
                if !allowed && refused =>
            {
                denials.deny(ban, now)
            }
            _ => None,
        };
        (Some(denials), banned, restamped)
    }
}
