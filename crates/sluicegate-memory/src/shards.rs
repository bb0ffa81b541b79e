//! The shards of a table: one at first; a shard that grows too large is replaced by sixteen.
//!
//! The low half of a fingerprint selects the shard, with four bits at each level. A table without
//! keys has no heap memory, and one with few keys has one small array.

use std::sync::OnceLock;

use crate::cell::Cell;
use crate::fingerprint::Fingerprint;
use crate::lock::{Guard, Lock};
use crate::shard::Shard;

/// All shards of a table.
pub(crate) struct Shards<C: Cell> {
    root: Leaf<C>,
}

/// A shard, or the shards that replaced it. It has its own cache line, so that neighbors don't slow
/// each other down.
#[repr(align(64))]
struct Leaf<C: Cell> {
    /// Empty and unused once there are parts.
    shard: Lock<Shard<C>>,
    /// Made under the lock of the shard, and never removed.
    parts: OnceLock<Box<[Self; PARTS]>>,
}

/// The fingerprints of one shard: those whose low half begins with the same bits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Range {
    start: u64,
    bits: u32,
}

impl Range {
    const fn of(at: u64, bits: u32) -> Self {
        Self { start: at & !rest(bits), bits }
    }

    /// Returns whether a fingerprint belongs to the shard.
    pub(crate) fn has(self, fingerprint: Fingerprint) -> bool {
        self.has_place(fingerprint.low)
    }

    /// Returns whether the range contains a position.
    pub(crate) const fn has_place(self, at: u64) -> bool {
        at & !rest(self.bits) == self.start
    }

    /// Returns a number that identifies the range.
    pub(crate) const fn code(self) -> u64 {
        self.start | self.bits as u64
    }

    /// Returns the range of a number, if it is valid.
    pub(crate) fn of_code(code: u64) -> Option<Self> {
        let bits = u32::try_from(code & CODE).ok().filter(|bits| *bits <= DEEPEST)?;
        let range = Self::of(code & !CODE, bits);
        (range.code() == code).then_some(range)
    }

    pub(crate) const fn start(self) -> u64 {
        self.start
    }

    /// Returns the start of the next shard; `None` after the last one.
    pub(crate) fn end(self) -> Option<u64> {
        (self.start | rest(self.bits)).checked_add(1)
    }
}

/// Returns a mask of the bits in which a shard's fingerprints differ.
const fn rest(bits: u32) -> u64 {
    match u64::MAX.checked_shr(bits) {
        Some(rest) => rest,
        None => 0,
    }
}

impl<C: Cell> Default for Shards<C> {
    fn default() -> Self {
        Self { root: Leaf::new(Shard::default()) }
    }
}

impl<C: Cell> Shards<C> {
    /// Locks the shard at a position, which is the low half of a fingerprint.
    #[inline]
    pub(crate) fn lock(&self, at: u64) -> Guard<'_, Shard<C>> {
        self.lock_with_range(at).0
    }

    /// Locks the shard at a position, and returns its range too.
    #[inline]
    pub(crate) fn lock_with_range(&self, at: u64) -> (Guard<'_, Shard<C>>, Range) {
        loop {
            let (leaf, bits) = self.leaf(at);
            let mut shard = leaf.shard.lock();
            if leaf.is_in_use(&mut shard, bits) {
                return (shard, Range::of(at, bits));
            }
        }
    }

    /// Locks the shard at a position unless another thread holds it.
    #[inline]
    pub(crate) fn try_lock(&self, at: u64) -> Option<(Guard<'_, Shard<C>>, Range)> {
        loop {
            let (leaf, bits) = self.leaf(at);
            let mut shard = leaf.shard.try_lock()?;
            if leaf.is_in_use(&mut shard, bits) {
                return Some((shard, Range::of(at, bits)));
            }
        }
    }

    /// Returns the range of the shard at a position. It doesn't change while a thread holds the
    /// shard.
    pub(crate) fn range(&self, at: u64) -> Range {
        Range::of(at, self.leaf(at).1)
    }

    #[inline]
    fn leaf(&self, at: u64) -> (&Leaf<C>, u32) {
        let (mut leaf, mut bits) = (&self.root, 0);
        while let Some(parts) = leaf.parts.get() {
            leaf = &parts[part(at, bits)];
            bits += BITS;
        }
        (leaf, bits)
    }
}

impl<C: Cell> Leaf<C> {
    const fn new(shard: Shard<C>) -> Self {
        Self { shard: Lock::new(shard), parts: OnceLock::new() }
    }

    /// Returns whether the locked shard is still in use. Divides a shard that is too large first.
    #[inline]
    fn is_in_use(&self, shard: &mut Shard<C>, bits: u32) -> bool {
        if shard.len() >= most_at(bits) {
            self.divide(shard, bits);
        }
        self.parts.get().is_none()
    }

    #[cold]
    fn divide(&self, shard: &mut Shard<C>, bits: u32) {
        self.parts.get_or_init(|| {
            let parts = shard.divide(|fingerprint| part(fingerprint.low, bits));
            Box::new(parts.map(Self::new))
        });
    }
}

const fn part(at: u64, bits: u32) -> usize {
    ((at << bits) >> (u64::BITS - BITS)) as usize
}

/// Returns the number of states at which a shard divides.
#[inline]
const fn most_at(bits: u32) -> usize {
    match bits {
        0..APART => MOST_UNTIL_APART,
        APART..DEEPEST => MOST,
        _ => usize::MAX,
    }
}

/// Number of parts of a divided shard.
const PARTS: usize = 1 << BITS;
const BITS: u32 = 4;
/// With 256 shards, two threads seldom use the same one.
const APART: u32 = 8;
/// Size at which a shard divides while a table has fewer than 256 shards. The parts then have
/// enough states for the samples of an eviction, and to fill their arrays.
const MOST_UNTIL_APART: usize = 256;
/// Size at which other shards divide. Growing or dividing such a shard takes a small part of a
/// millisecond.
const MOST: usize = 4_096;
const DEEPEST: u32 = 48;
/// The bits of a range's code that hold the number of shared bits. They are below all bits that can
/// be shared.
const CODE: u64 = 0xffff;

#[cfg(test)]
mod tests {
    use sluicegate_core::kernel::bucket;

    use super::*;
    use crate::cell::BucketCell;
    use crate::scales::Tag;

    fn fingerprint(key: u64) -> Fingerprint {
        let mix = |key: u64| key.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Fingerprint { high: mix(key ^ 0xabcd).min(u64::MAX - 1), low: mix(key) }
    }

    fn put(shards: &Shards<BucketCell>, keys: std::ops::Range<u64>) {
        for key in keys {
            let state = bucket::State { newest: key, deficit: key, unit: 1 };
            let fingerprint = fingerprint(key);
            let mut shard = shards.lock(fingerprint.low);
            shard.insert(fingerprint, BucketCell::new(state, Tag::NONE));
        }
    }

    fn ranges(shards: &Shards<BucketCell>) -> Vec<Range> {
        let mut next = Some(0);
        std::iter::from_fn(|| {
            let (_, range) = shards.lock_with_range(next?);
            next = range.end();
            Some(range)
        })
        .collect()
    }

    #[test]
    fn a_shard_takes_one_cache_line() {
        assert_eq!(size_of::<Leaf<BucketCell>>(), 64);
    }

    #[test]
    fn a_shard_divides_as_it_grows_and_each_state_is_found() {
        let shards = Shards::default();
        put(&shards, 0..200);
        assert_eq!(ranges(&shards).len(), 1, "few keys take one small array");
        put(&shards, 200..300);
        assert_eq!(ranges(&shards).len(), 16);
        put(&shards, 300..20_000);
        assert_eq!(ranges(&shards).len(), 256);
        for key in 0..20_000 {
            let fingerprint = fingerprint(key);
            let (shard, range) = shards.lock_with_range(fingerprint.low);
            assert!(range.has(fingerprint) && shard.find(fingerprint).is_ok(), "key {key}");
        }
        let sum: usize = ranges(&shards).iter().map(|range| shards.lock(range.start).len()).sum();
        assert_eq!(sum, 20_000);
        assert!(shards.try_lock(0).is_some());
    }

    #[test]
    fn ranges_cover_all_fingerprints_once() {
        let shards = Shards::default();
        put(&shards, 0..3_000);
        let all = ranges(&shards);
        for (one, next) in all.iter().zip(&all[1..]) {
            assert_eq!(one.end(), Some(next.start));
        }
        assert_eq!(all.last().and_then(|range| range.end()), None);
        for range in &all {
            assert_eq!(Range::of_code(range.code()), Some(*range));
        }
        assert!([49, 1 << 40, u64::MAX].map(Range::of_code).iter().all(Option::is_none));
        let here = |key| all.iter().filter(|range| range.has(fingerprint(key))).count();
        assert!((0..3_000).all(|key| here(key) == 1));
    }
}
