//! A reader for numbers and texts in sequence, the stored form of a key's data other than states.

use crate::kernel::NUMBER_BYTES;
use crate::number::MAX_EXACT;

/// Reads one value after another from stored bytes.
pub(crate) struct Reader<'b>(pub(crate) &'b [u8]);

impl<'b> Reader<'b> {
    pub(crate) fn array<const N: usize>(&mut self) -> Option<&'b [u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(array)
    }

    pub(crate) fn whole(&mut self) -> Option<u64> {
        let bytes: &[u8; NUMBER_BYTES] = self.array()?;
        Some(bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        self.whole().filter(|number| *number <= MAX_EXACT)
    }

    pub(crate) fn text(&mut self) -> Option<&'b [u8]> {
        let length = u16::from_be_bytes(*self.array()?);
        let (text, rest) = self.0.split_at_checked(length.into())?;
        self.0 = rest;
        Some(text)
    }
}

pub(crate) fn push(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&number.to_be_bytes()[1..]);
}
