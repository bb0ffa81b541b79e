//! Recent request rates of a bounded number of keys.

use crate::layers::fingerprint::Fingerprint;

/// Counts by key. If there is no slot for another key, the least recently used one is replaced.
pub(super) struct Uses {
    sets: Box<[Set]>,
}

/// The counts of four keys that share one cache line.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Set([Use; 4]);

/// The number of requests for a key in this slot of time and in the one before.
#[derive(Clone, Copy, Default)]
struct Use {
    /// A part of the key's fingerprint.
    tag: u32,
    slot: u32,
    /// When it was last used, in units of 1,024 µs.
    at: u32,
    current: u16,
    previous: u16,
}

/// Maximum number of keys that are counted at the same time, so that memory stays bounded regardless of the
/// configuration.
const MOST: usize = 1 << 20;

impl Uses {
    /// Makes counts of about `keys` keys.
    pub(super) fn new(keys: usize) -> Self {
        let sets = keys.min(MOST).div_ceil(4).max(1);
        Self { sets: vec![Set::default(); sets].into() }
    }

    /// Counts a use in a slot of this width, both in µs. Returns the number of uses in this slot and in the one before.
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are what is wanted")]
    pub(super) fn count(&mut self, subject: Fingerprint, width: u64, now: u64) -> u64 {
        // Use other bits than those that choose the part.
        let (tag, place) = ((subject >> 32) as u32, (subject >> 64) as usize);
        let (slot, at) = ((now / width.max(1)) as u32, (now >> 10) as u32);
        let index = place % self.sets.len();
        let Set(set) = &mut self.sets[index];
        let known = set.iter().position(|it| it.tag == tag && it.current > 0);
        let age = |it: &Use| if it.current == 0 { u32::MAX } else { at.wrapping_sub(it.at) };
        let oldest = || (0..set.len()).max_by_key(|index| age(&set[*index]));
        let it = &mut set[known.or_else(oldest).unwrap_or(0)];
        if known.is_none() {
            *it = Use { tag, slot, ..Use::default() };
        }
        it.count(slot);
        it.at = at;
        u64::from(it.current) + u64::from(it.previous)
    }
}

impl Use {
    fn count(&mut self, slot: u32) {
        if slot != self.slot {
            self.previous = if slot == self.slot.wrapping_add(1) { self.current } else { 0 };
            (self.slot, self.current) = (slot, 0);
        }
        self.current = self.current.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: u64 = 250_000;

    /// A key whose counts are in the first set.
    fn key(tag: u32) -> Fingerprint {
        Fingerprint::from(tag) << 32
    }

    #[test]
    fn uses_of_this_slot_and_the_one_before_count() {
        let mut uses = Uses::new(64);
        let mut count = |now| uses.count(key(7), WIDTH, now);
        assert_eq!([0, 1, WIDTH - 1].map(&mut count), [1, 2, 3]);
        assert_eq!([WIDTH, 2 * WIDTH - 1].map(&mut count), [4, 5]);
        assert_eq!(count(2 * WIDTH), 3, "two of the slot before");
        assert_eq!(count(4 * WIDTH), 1, "none of the slot before");
        assert_eq!(count(WIDTH), 1, "a clock that went back");
    }

    #[test]
    fn keys_are_counted_apart() {
        let mut uses = Uses::new(1);
        for round in 1..=5 {
            for tag in 0..4 {
                assert_eq!(uses.count(key(tag), WIDTH, round), round, "{tag}");
            }
        }
    }

    #[test]
    fn a_key_that_is_used_often_stays_among_many_that_are_not() {
        let mut uses = Uses::new(1);
        let mut count = 0;
        for round in 0..1_000_u32 {
            let now = u64::from(round) * 2_000;
            count = uses.count(key(1_000_000), 1 << 40, now);
            let once = uses.count(key(round), 1 << 40, now + 1);
            assert_eq!(once, 1);
        }
        assert_eq!(count, 1_000);
    }

    #[test]
    fn no_count_overflows() {
        let mut uses = Uses::new(1);
        let last = (0..=u64::from(u16::MAX)).map(|_| uses.count(key(1), WIDTH, 0)).last();
        assert_eq!(last, Some(u16::MAX.into()));
        assert_eq!(uses.count(key(1), WIDTH, WIDTH), u64::from(u16::MAX) + 1);
    }
}
