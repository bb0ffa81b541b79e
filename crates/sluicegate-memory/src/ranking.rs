//! The limits of a store, ranked by the states or bytes that they hold.
//!
//! A limit moves when its weight changes by an eighth. So [`Ranking::heaviest`] finds the heaviest
//! limits without examining the others, regardless of their number.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use crate::budget::{Load, Short};
use crate::lock::Lock;
use crate::share::Share;

/// The limits that hold something, by the class of their weight.
pub(crate) struct Ranking {
    by: Short,
    ranks: Lock<Ranks>,
}

#[derive(Default)]
struct Ranks {
    classes: Vec<Vec<Arc<Share>>>,
    /// A bit for each class that has a limit.
    taken: [u64; WORDS],
    limits: usize,
    /// Start of the next search in a class.
    hand: usize,
}

impl Ranking {
    pub(crate) fn by(by: Short) -> Self {
        Self { by, ranks: Lock::default() }
    }

    /// Adds a load to a limit.
    pub(crate) fn add(&self, share: &Arc<Share>, load: Load) {
        let weight = share.by(self.by);
        if load.of(self.by) > 0 {
            let before = weight.sum.fetch_add(load.of(self.by), SeqCst);
            self.settle(share, before.wrapping_add(load.of(self.by)));
        }
    }

    /// Subtracts a load from a limit.
    pub(crate) fn take(&self, share: &Arc<Share>, load: Load) {
        let weight = share.by(self.by);
        if load.of(self.by) > 0 {
            let before = weight.sum.fetch_sub(load.of(self.by), SeqCst);
            self.settle(share, before.wrapping_sub(load.of(self.by)));
        }
    }

    /// Returns the number of limits that hold something.
    pub(crate) fn limits(&self) -> usize {
        self.ranks.lock().limits
    }

    /// Returns the limit that holds most, except for `besides`, and its weight. If the heaviest
    /// class has more than [`COMPARED`] limits, compares only that many of them.
    pub(crate) fn heaviest(&self, besides: Option<&Arc<Share>>) -> Option<(Arc<Share>, usize)> {
        let mut ranks = self.ranks.lock();
        ranks.hand = ranks.hand.wrapping_add(1);
        let (ranks, hand) = (&*ranks, ranks.hand);
        let is_other = |share: &&Arc<Share>| besides.is_none_or(|own| !Arc::ptr_eq(share, own));
        let weight = |share: &Arc<Share>| share.by(self.by).sum.load(SeqCst);
        ranks.descending().find_map(|class| {
            let members = &ranks.classes[class];
            let some = (0..members.len().min(COMPARED))
                .map(|index| &members[hand.wrapping_add(index) % members.len()]);
            let heaviest = some.filter(is_other).max_by_key(|share| weight(share))?;
            Some((Arc::clone(heaviest), weight(heaviest)))
        })
    }

    /// Moves a limit to the class of its new sum.
    #[inline]
    fn settle(&self, share: &Arc<Share>, sum: usize) {
        if share.by(self.by).class.load(SeqCst) != class_of(sum) {
            self.rerank(share);
        }
    }

    fn rerank(&self, share: &Arc<Share>) {
        let weight = share.by(self.by);
        let mut ranks = self.ranks.lock();
        // Other threads change the weight and then read the class; this one reads them the other
        // way round. So one of both threads sees the latest values.
        loop {
            let (class, before) = (class_of(weight.sum.load(SeqCst)), weight.class.load(SeqCst));
            if class == before {
                return;
            }
            if before > 0 {
                ranks.remove(self.by, before, weight.index.load(SeqCst));
            }
            if class > 0 {
                weight.index.store(ranks.push(class, Arc::clone(share)), SeqCst);
            }
            weight.class.store(class, SeqCst);
        }
    }
}

impl Ranks {
    fn push(&mut self, class: usize, share: Arc<Share>) -> usize {
        if self.classes.len() <= class {
            self.classes.resize_with(class + 1, Vec::new);
        }
        let members = &mut self.classes[class];
        members.push(share);
        self.taken[class / BITS] |= 1 << (class % BITS);
        self.limits += 1;
        members.len() - 1
    }

    fn remove(&mut self, by: Short, class: usize, index: usize) {
        let members = &mut self.classes[class];
        members.swap_remove(index);
        if let Some(moved) = members.get(index) {
            moved.by(by).index.store(index, SeqCst);
        }
        if members.is_empty() {
            self.taken[class / BITS] &= !(1 << (class % BITS));
        }
        self.limits -= 1;
    }

    /// Returns the classes that have a limit, the heaviest first.
    fn descending(&self) -> impl Iterator<Item = usize> {
        let words = self.taken.iter().enumerate().rev();
        words.flat_map(|(word, bits)| {
            let mut bits = *bits;
            std::iter::from_fn(move || {
                let highest = bits.checked_ilog2()?;
                bits &= !(1 << highest);
                Some(word * BITS + highest as usize)
            })
        })
    }
}

/// Returns the class of a weight: 0 for nothing, and eight for each power of two.
#[inline]
const fn class_of(weight: usize) -> usize {
    match weight.checked_ilog2() {
        None => 0,
        Some(log) => {
            let eighths = if log >= 3 { weight >> (log - 3) } else { weight << (3 - log) };
            log as usize * 8 + (eighths & 7) + 1
        }
    }
}

/// Maximum number of limits of one class to compare.
const COMPARED: usize = 16;
const BITS: usize = u64::BITS as usize;
/// Number of words for all classes of 64-bit weights.
const WORDS: usize = (64 * 8 + 1) / BITS + 1;

#[cfg(test)]
mod tests {
    use sluicegate_core::TimeSource;

    use super::*;

    fn share() -> Arc<Share> {
        Arc::new(Share::of(TimeSource::Store, "limit".into()))
    }

    fn keys(keys: usize) -> Load {
        Load { keys, bytes: 0 }
    }

    #[test]
    fn classes_grow_with_weights() {
        let mut last = 0;
        for weight in 0..100_000 {
            let class = class_of(weight);
            assert!(class >= last, "{weight}");
            last = class;
        }
        assert!(class_of(usize::MAX) < WORDS * BITS);
        assert_eq!((class_of(0), class_of(1), class_of(8), class_of(9)), (0, 1, 25, 26));
    }

    #[test]
    fn the_heaviest_of_a_hundred_thousand_limits_is_found() {
        let ranking = Ranking::by(Short::Keys);
        let shares: Vec<Arc<Share>> = (0..100_000).map(|_| share()).collect();
        for (index, share) in shares.iter().enumerate() {
            ranking.add(share, keys(index % 50));
        }
        assert_eq!(ranking.limits(), 98_000);
        ranking.add(&shares[7], keys(1_000));
        let (heaviest, weight) = ranking.heaviest(None).unwrap();
        assert!(Arc::ptr_eq(&heaviest, &shares[7]));
        assert_eq!(weight, 1_007);
        let (next, weight) = ranking.heaviest(Some(&shares[7])).unwrap();
        assert!(!Arc::ptr_eq(&next, &shares[7]) && weight >= 48);
        for (index, share) in shares.iter().enumerate() {
            ranking.take(share, keys(index % 50));
        }
        ranking.take(&shares[7], keys(1_000));
        assert_eq!(ranking.limits(), 0);
        assert!(ranking.heaviest(None).is_none());
    }

    #[test]
    fn threads_that_change_one_weight_leave_it_in_its_class() {
        let ranking = Ranking::by(Short::Keys);
        let share = share();
        for _ in 0..200 {
            std::thread::scope(|scope| {
                for thread in 1..4 {
                    let (ranking, share) = (&ranking, &share);
                    scope.spawn(move || {
                        for _ in 0..50 {
                            ranking.add(share, keys(thread));
                            ranking.take(share, keys(thread));
                        }
                    });
                }
            });
            assert_eq!((share.by(Short::Keys).class.load(SeqCst), ranking.limits()), (0, 0));
        }
    }
}
