//! The fund of a limit and key: what its holders have, need and lack.

use std::collections::{BTreeMap, HashMap};

use sluicegate_core::for_stores::Pace;

use super::level::level;
use super::{FILLED, Summary};

/// The holders of a limit and key at this replica, and a summary of those at other replicas.
///
/// Its numbers only say what is worth asking for. The store decides what is free.
#[derive(Debug, Default)]
pub(crate) struct Fund {
    holders: HashMap<u64, Holder>,
    /// The booked shares of all holders.
    booked: u64,
    /// Shares of former assignments that are still booked, by their ends in whole seconds.
    former: BTreeMap<u64, u64>,
    others: Summary,
    fair: Option<Fair>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Holder {
    need: Option<u64>,
    share: u64,
}

/// The fair shares, as computed at an instant.
#[derive(Clone, Copy, Debug)]
struct Fair {
    at: u64,
    level: u64,
    lacking: u64,
}

/// For how long the fair shares are used, in µs.
const FAIR_FOR: u64 = 250_000;
const SECOND: u64 = 1_000_000;

impl Fund {
    /// Notes what a holder needs, once it is known, and its booked share.
    pub(crate) fn note(&mut self, holder: u64, need: Option<u64>, share: u64) {
        let known = self.holders.entry(holder).or_default();
        self.booked = self.booked - known.share + share;
        *known = Holder { need, share };
    }

    /// Forgets a holder.
    pub(crate) fn forget(&mut self, holder: u64) {
        if let Some(known) = self.holders.remove(&holder) {
            self.booked -= known.share;
        }
    }

    /// Notes a share that stays booked until an instant, although no holder is known for it.
    pub(crate) fn retire(&mut self, share: u64, ends: u64) {
        if share > 0 {
            *self.former.entry(ends.div_ceil(SECOND)).or_default() += share;
        }
    }

    /// Notes what the other replicas have.
    pub(crate) fn hear(&mut self, others: Summary) {
        self.others = others;
    }

    /// Returns whether no holder is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }

    /// Returns the number of holders with a share.
    pub(crate) fn assigned(&self) -> usize {
        self.holders.values().filter(|holder| holder.share > 0).count()
    }

    /// Returns the share that this replica has booked, without former assignments.
    pub(crate) const fn booked(&self) -> u64 {
        self.booked
    }

    /// Returns the sum of all known needs.
    pub(crate) fn needed(&self) -> u64 {
        self.holders.values().map(|holder| holder.need.unwrap_or(holder.share)).sum()
    }

    /// Returns the share that is free below a bound, as far as this replica knows.
    pub(crate) fn free_below(&mut self, most: u64, now: u64) -> u64 {
        self.former = self.former.split_off(&(now / SECOND + 1));
        let former: u64 = self.former.values().sum();
        most.saturating_sub(self.booked.saturating_add(former).saturating_add(self.others.booked()))
    }

    /// Returns the fair share of a holder with unlimited needs.
    pub(crate) fn level(&mut self, now: u64) -> u64 {
        self.fair(now).level
    }

    /// Returns whether holders lack more than is free, so that others must give.
    pub(crate) fn is_short(&mut self, now: u64) -> bool {
        self.fair(now).lacking > self.free_below(FILLED, now)
    }

    /// Returns the summary for other replicas.
    pub(crate) fn summary(&mut self, now: u64) -> Summary {
        let booked = FILLED.saturating_sub(self.free_below(FILLED, now));
        let fair = self.fair(now);
        let mut summary =
            Summary::new(booked.saturating_sub(self.others.booked()), self.lacking(fair.level));
        for holder in self.holders.values() {
            summary.add(holder.need.unwrap_or(holder.share));
        }
        summary
    }

    fn fair(&mut self, now: u64) -> Fair {
        if let Some(fair) = self.fair
            && (fair.at..fair.at.saturating_add(FAIR_FOR)).contains(&now)
        {
            return fair;
        }
        let own = self.holders.values().map(|holder| (holder.need.unwrap_or(holder.share), 1));
        let mut needs: Vec<_> = own.chain(self.others.needs()).collect();
        let level = level(&mut needs, FILLED);
        let lacking = self.lacking(level).saturating_add(self.others.lacking());
        *self.fair.insert(Fair { at: now, level: level.min(Pace::MOST), lacking })
    }

    /// Returns what holders lack that are worth a change.
    fn lacking(&self, level: u64) -> u64 {
        let lack = |holder: &Holder| {
            let target = holder.need.unwrap_or(0).min(level);
            if is_raise(holder.share, target) { target - holder.share } else { 0 }
        };
        self.holders.values().map(lack).sum()
    }
}

/// Returns whether a target is above a share by more than noise: a tenth.
pub(super) const fn is_raise(share: u64, target: u64) -> bool {
    target > share + share / 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_of_all_replicas_make_the_level() {
        let mut fund = Fund::default();
        fund.note(1, Some(900_000), 400_000);
        fund.note(2, Some(100_000), 100_000);
        assert_eq!((fund.level(0), fund.is_short(0)), (880_000, false));
        assert_eq!(fund.free_below(FILLED, 0), 480_000);
        let mut other = Summary::new(300_000, 0);
        other.add(900_000);
        fund.hear(other);
        assert_eq!(fund.level(FAIR_FOR - 1), 880_000, "it is computed four times a second");
        assert_eq!((fund.level(FAIR_FOR), fund.free_below(FILLED, 0)), (440_000, 180_000));
        fund.note(2, Some(300_000), 100_000);
        assert!(fund.is_short(3 * FAIR_FOR), "both others hold too much");
    }

    #[test]
    fn former_assignments_are_booked_until_their_end() {
        let mut fund = Fund::default();
        fund.note(1, None, 200_000);
        fund.forget(1);
        fund.retire(200_000, 7_300_000);
        assert_eq!(fund.free_below(FILLED, 7_300_000), 780_000);
        assert_eq!(fund.free_below(FILLED, 8_000_000), FILLED);
        assert!(fund.is_empty());
    }

    #[test]
    fn a_summary_has_what_this_replica_has() {
        let mut fund = Fund::default();
        fund.note(1, Some(500_000), 100_000);
        fund.note(2, None, 50_000);
        fund.hear(Summary::new(200_000, 0));
        let summary = fund.summary(0);
        assert_eq!((summary.booked(), summary.lacking()), (150_000, 400_000));
        assert_eq!(summary.needs().count(), 2);
    }
}
