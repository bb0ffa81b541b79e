//! Units held under an id until a time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A random 128-bit id, chosen by the caller, that names one hold of a subject.
///
/// No other hold of the subject may have the same id. Prints as 32 hexadecimal digits and parses
/// back.
///
/// ```
/// use sluicegate_core::HoldId;
///
/// let id: HoldId = "00112233445566778899aabbccddeeff".parse()?;
/// assert_eq!(id.to_bytes()[..2], [0x00, 0x11]);
/// assert_eq!(id.to_string(), "00112233445566778899aabbccddeeff");
/// assert!("0011".parse::<HoldId>().is_err());
/// # Ok::<(), sluicegate_core::HoldIdError>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct HoldId([u8; Self::BYTES]);

/// The error for text that isn't a hold id.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HoldIdError(String);

/// A record of the units that each policy charged, so that the real use can be settled later.
///
/// ```
/// use std::time::Duration;
/// use sluicegate_core::{Hold, HoldId, Request};
///
/// let hold = Hold { id: HoldId::from_bytes([7; 16]), lasts: Duration::from_secs(60) };
/// let request = Request::check(b"alice").hold(&hold);
/// assert_eq!(request.holds(), Some(&hold));
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Hold {
    /// The id of the record. Records that exist at the same time must have different ids.
    pub id: HoldId,
    /// Lifetime of the record, from the decision: 1 ms to a day. Units that aren't settled by then
    /// stay charged, unless the limit [returns](crate::OnExpiry) them.
    pub lasts: Duration,
}

/// The result of settling or renewing a hold.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum HoldFound {
    /// The hold existed and has been settled or renewed.
    Live,
    /// The hold was settled before. Nothing has changed; the answer repeats what was given back
    /// then.
    Settled,
    /// The hold's request waited in a queue, and has left it.
    Waited,
    /// No hold has this id: it has expired, was reset, or never existed. Nothing has changed.
    Unknown,
}

impl HoldId {
    /// Returns the next id.
    pub(crate) const fn next(self) -> Self {
        Self(u128::from_be_bytes(self.0).wrapping_add(1).to_be_bytes())
    }

    /// The number of bytes of an id.
    pub const BYTES: usize = 16;

    /// Creates the id from these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of the id.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; Self::BYTES] {
        self.0
    }
}

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl FromStr for HoldId {
    type Err = HoldIdError;

    fn from_str(text: &str) -> Result<Self, HoldIdError> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let digits = Some(text).filter(|text| text.len() == 2 * Self::BYTES);
        digits
            .filter(|digits| digits.bytes().all(is_digit))
            .and_then(|digits| u128::from_str_radix(digits, 16).ok())
            .map(|number| Self(number.to_be_bytes()))
            .ok_or_else(|| HoldIdError(text.chars().take(2 * Self::BYTES + 1).collect()))
    }
}

impl fmt::Display for HoldIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not the id of a hold, which is {} digits from 0 to 9 and a to f",
            self.0.escape_debug(),
            2 * HoldId::BYTES
        )
    }
}

impl std::error::Error for HoldIdError {}

impl Hold {
    /// The shortest lifetime of a record.
    pub const MIN_LASTS: Duration = Duration::from_millis(1);
    /// The longest lifetime of a record.
    pub const MAX_LASTS: Duration = Duration::from_secs(24 * 60 * 60);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_id_reads_back_from_its_text(bytes in any::<[u8; 16]>()) {
            let id = HoldId::from_bytes(bytes);
            prop_assert_eq!(id.to_string().parse::<HoldId>(), Ok(id));
        }

        #[test]
        fn any_text_is_an_id_or_an_error(text in "[0-9a-fA-F+-]{31,33}|.{0,40}") {
            if let Ok(id) = text.parse::<HoldId>() {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }
}
