//! The scales of a table's deficits.
//!
//! A deficit is counted in ticks, with a number of ticks per unit: its scale. A changed rate of a
//! policy may change the scale, and every state is converted when it is next written. Until then a
//! [`Tag`] in the state identifies its scale. The deficit and the time leave 22 bits free in their
//! two words. The tag takes 21 of them, and the last bit marks states with a second bound.

use std::sync::{PoisonError, RwLock};

use sluicegate_core::MAX_EXACT;

/// The scales seen by a table, by index.
#[derive(Debug, Default)]
pub(crate) struct Scales(RwLock<Vec<u64>>);

/// The index of a scale, split in two and shifted to the free bits of a state's words.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Tag {
    pub(crate) low: u64,
    pub(crate) high: u64,
}

impl Scales {
    /// Maximum number of scales that a table can distinguish.
    const MOST: usize = 1 << (2 * Tag::BITS - 1);

    /// Returns the tag of a scale; `None` if the table has seen too many.
    pub(crate) fn tag_of(&self, unit: u64) -> Option<Tag> {
        let mut units = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let index = match units.iter().position(|&seen| seen == unit) {
            Some(index) => index,
            None if units.len() < Self::MOST => {
                units.push(unit);
                units.len() - 1
            }
            None => return None,
        };
        let index = index as u64;
        Some(Tag { low: index << Tag::SHIFT, high: index >> Tag::BITS << Tag::SHIFT })
    }

    /// Returns the scale of a state's two tagged words.
    #[cold]
    pub(crate) fn unit_of(&self, low: u64, high: u64) -> u64 {
        let high = high & !Tag::MARK;
        let index = (high >> Tag::SHIFT << Tag::BITS) | (low >> Tag::SHIFT);
        let units = self.0.read().unwrap_or_else(PoisonError::into_inner);
        usize::try_from(index).ok().and_then(|index| units.get(index)).copied().unwrap_or(1)
    }
}

impl Tag {
    /// The tag of states without a scale.
    pub(crate) const NONE: Self = Self { low: 0, high: 0 };
    /// The bit of the high word that marks a state with a [second bound](crate::held_records).
    pub(crate) const MARK: u64 = 1 << (u64::BITS - 1);
    /// Tag bits per word.
    const BITS: u32 = 11;
    /// Position of the tag's lowest bit.
    const SHIFT: u32 = MAX_EXACT.count_ones();

    /// Returns the tag with the mark of a second bound, if `is_marked`.
    pub(crate) const fn marked(self, is_marked: bool) -> Self {
        Self { low: self.low, high: self.high | if is_marked { Self::MARK } else { 0 } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_lead_back_to_their_scales() {
        let scales = Scales::default();
        let tags: Vec<Tag> = (1..=5_000).map(|unit| scales.tag_of(unit).unwrap()).collect();
        assert_eq!(scales.tag_of(77), Some(tags[76]));
        for (tag, unit) in tags.iter().zip(1..) {
            assert_eq!((tag.low | tag.high) & MAX_EXACT, 0);
            assert_eq!(scales.unit_of(tag.low | MAX_EXACT, tag.high | 5), unit);
        }
    }
}
