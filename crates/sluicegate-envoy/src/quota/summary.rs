//! A bounded summary of the holders of one replica, for the other replicas.

use std::collections::BTreeMap;

use prost::{decode_length_delimiter, encode_length_delimiter};
use sluicegate_core::for_stores::Pace;

/// The holders of a limit and key at one replica of the service.
///
/// It has the number of holders for each need, the booked share and the lacking share.
///
/// Needs are rounded to 16 classes for each doubling, so a summary has at most 270 of them. All numbers are millionths of
/// the rate.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Summary {
    /// The number of holders in each class.
    classes: BTreeMap<u16, u64>,
    booked: u64,
    lacking: u64,
}

/// Classes for each doubling, as a power of two.
const BITS: u32 = 4;
const VERSION: u8 = 1;
/// The maximum number of holders in a class that others believe.
const MOST_HOLDERS: u64 = 1_000_000;

impl Summary {
    /// Returns an empty summary with the booked share, and the share that holders lack.
    pub(super) const fn new(booked: u64, lacking: u64) -> Self {
        Self { classes: BTreeMap::new(), booked, lacking }
    }

    /// Adds a holder with this need.
    pub(super) fn add(&mut self, need: u64) {
        let count = self.classes.entry(class_of(need.min(Pace::MOST))).or_default();
        *count = count.saturating_add(1).min(MOST_HOLDERS);
    }

    /// Adds the holders of another replica.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (class, count) in &other.classes {
            let own = self.classes.entry(*class).or_default();
            *own = own.saturating_add(*count);
        }
        self.booked = self.booked.saturating_add(other.booked);
        self.lacking = self.lacking.saturating_add(other.lacking);
    }

    /// Returns each need with the number of its holders.
    pub(super) fn needs(&self) -> impl Iterator<Item = (u64, u64)> {
        self.classes.iter().map(|(class, count)| (need_of(*class), *count))
    }

    /// Returns the share that is booked.
    pub(super) const fn booked(&self) -> u64 {
        self.booked
    }

    /// Returns the share that holders lack.
    pub(super) const fn lacking(&self) -> u64 {
        self.lacking
    }

    /// Writes the summary.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        for number in [self.booked, self.lacking] {
            write(number, &mut bytes);
        }
        for (class, count) in &self.classes {
            write((*class).into(), &mut bytes);
            write(*count, &mut bytes);
        }
        bytes
    }

    /// Reads a summary; `None` if the bytes aren't one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&VERSION, mut rest) = bytes.split_first()? else { return None };
        let most = Pace::MOST + 1;
        let [booked, lacking] = [read(&mut rest)?, read(&mut rest)?];
        let mut summary = Self::new(booked.min(most), lacking.min(most));
        while !rest.is_empty() {
            let class = u16::try_from(read(&mut rest)?).ok()?;
            let count = read(&mut rest)?;
            let is_next = summary.classes.last_key_value().is_none_or(|(last, _)| *last < class);
            if !is_next || class > class_of(Pace::MOST) || !(1..=MOST_HOLDERS).contains(&count) {
                return None;
            }
            summary.classes.insert(class, count);
        }
        Some(summary)
    }
}

/// Returns the class of a need: its doubling and the next four bits.
fn class_of(need: u64) -> u16 {
    let doubling = need.max(1).ilog2();
    let class = match doubling.checked_sub(BITS) {
        Some(shift) => (u64::from(shift) << BITS) + (need >> shift),
        None => need,
    };
    u16::try_from(class).unwrap_or(u16::MAX)
}

/// Returns the middle of a class.
fn need_of(class: u16) -> u64 {
    let class = u64::from(class);
    match (class >> BITS).checked_sub(1) {
        Some(shift) => {
            let first = ((class & ((1 << BITS) - 1)) | (1 << BITS)) << shift;
            first + (1 << shift) / 2
        }
        None => class,
    }
}

/// Appends a number as protobuf does.
fn write(number: u64, bytes: &mut Vec<u8>) {
    // A vector grows, so this never fails.
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    let _ = encode_length_delimiter(number, bytes);
}

fn read(bytes: &mut &[u8]) -> Option<u64> {
    u64::try_from(decode_length_delimiter(bytes).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_close_to_their_needs_and_ordered() {
        let mut last = 0;
        for need in 0..=Pace::MOST {
            let class = class_of(need);
            assert!((last..=last + 1).contains(&class), "{need}");
            assert!(need_of(class).abs_diff(need) * 32 <= need, "{need}: {}", need_of(class));
            last = class;
        }
        assert_eq!(last, 270, "the number of classes is bounded");
    }

    #[test]
    fn a_summary_is_read_as_it_was_written() {
        let mut summary = Summary::new(123_456, 7);
        for need in [0, 1, 17, 300, 300, 65_000, u64::MAX] {
            summary.add(need);
        }
        let bytes = summary.encode();
        assert_eq!(Summary::decode(&bytes), Some(summary.clone()));
        let mut both = summary.clone();
        both.merge(&summary);
        assert_eq!(both.needs().map(|(_, count)| count).sum::<u64>(), 14);
        assert_eq!((both.booked(), both.lacking()), (246_912, 14));
    }

    #[test]
    fn other_bytes_are_no_summary() {
        let mut summary = Summary::new(500_000, 0);
        (0..400).for_each(|power| summary.add(1 << (power % 20)));
        let bytes = summary.encode();
        for end in 0..bytes.len() {
            if let Some(cut) = Summary::decode(&bytes[..end]) {
                assert!(cut.classes.len() < summary.classes.len(), "{end}");
            }
        }
        for wrong in [
            &[][..],
            &[2, 0, 0],
            &[1, 0],
            &[1, 0, 0, 5],
            &[1, 0, 0, 5, 0],
            &[1, 0, 0, 5, 1, 5, 1],
            &[1, 0, 0, 0xff, 0xff, 3, 1],
            &[1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1],
        ] {
            assert_eq!(Summary::decode(wrong), None, "{wrong:?}");
        }
    }
}
