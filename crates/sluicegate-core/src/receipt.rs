//! Receipts: proof of a reservation, for cancelling it.

use std::fmt;
use std::str::FromStr;

use crate::failure::{RequestError, RequestErrorKind};
use crate::limit::Limit;
use crate::line::PlaceName;
use crate::name::LimitName;

/// Proof of a reservation, used to cancel it. A receipt is a plain value that any process can use.
///
/// It contains the state of each subject before and after the reservation. A store that still finds
/// the later state restores the earlier one. If the reservation has a queue position, the position
/// must still exist, so the reservation is cancelled only once. A receipt prints as text and parses
/// back.
///
/// ```
/// use sluicegate_core::Receipt;
///
/// let text = "1:login:616c696365:-:0102";
/// let receipt: Receipt = text.parse()?;
/// assert_eq!((receipt.subject(0), receipt.to_string().as_str()), (&b"alice"[..], text));
/// assert!("1:login:616c69636".parse::<Receipt>().is_err());
/// # Ok::<(), sluicegate_core::ReceiptError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Receipt {
    parts: Vec<PartReceipt>,
    place: Option<PlaceName>,
}

/// The receipt for one part of a limit: its subject, and the subject's states before and after.
///
/// The states are in the [stored format](crate::record), regardless of the store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PartReceipt {
    /// The name of the part.
    pub limit: LimitName,
    /// The subject.
    pub subject: Vec<u8>,
    /// The change; `None` if the reservation changed nothing in this part.
    pub change: Option<Change>,
}

/// The packed states of one subject before and after.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Change {
    /// The states before the reservation; `None` if there were none.
    pub before: Option<Vec<u8>>,
    /// The states after it.
    pub after: Vec<u8>,
}

/// The error for text that isn't a receipt.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ReceiptError(String);

impl Change {
    /// Creates a change of a stored value; `None` if the value is unchanged and there is nothing to
    /// give back.
    #[must_use]
    pub fn of(before: Option<Vec<u8>>, after: Option<Vec<u8>>) -> Option<Self> {
        (before != after).then_some(after)?.map(|after| Self { before, after })
    }
}

impl Receipt {
    /// Creates the receipt of a reservation, with one entry per part of its limit, in order. For
    /// stores.
    #[must_use]
    pub const fn new(parts: Vec<PartReceipt>) -> Self {
        Self { parts, place: None }
    }

    /// Adds the queue position of the reservation. For stores.
    #[must_use]
    pub const fn with_place(mut self, place: Option<PlaceName>) -> Self {
        self.place = place;
        self
    }

    /// Returns the queue position of a waiting reservation; `None` if it has none.
    #[must_use]
    pub const fn place(&self) -> Option<PlaceName> {
        self.place
    }

    /// Returns the changes, per part of the limit.
    #[must_use]
    pub fn parts(&self) -> &[PartReceipt] {
        &self.parts
    }

    /// Returns the subject of a part; empty if there is no such part.
    #[must_use]
    pub fn subject(&self, part: usize) -> &[u8] {
        self.parts.get(part).map_or(&[], |part| &part.subject)
    }

    /// Returns `true` if there is nothing to give back.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.place.is_none() && !self.has_changes()
    }

    /// Returns `true` if the reservation changed any state. One that took a turn changed none.
    pub(crate) fn has_changes(&self) -> bool {
        self.parts.iter().any(|part| part.change.is_some())
    }

    pub(crate) fn validate(&self, limit: &Limit) -> Result<(), RequestError> {
        if self.parts.iter().map(|part| &part.limit).eq(limit.parts()) {
            return Ok(());
        }
        let names: Vec<&str> = self.parts.iter().map(|part| part.limit.as_str()).collect();
        Err(RequestError::new(
            RequestErrorKind::Invalid,
            format!(
                "the receipt is from limit `{}`, not `{}`: cancel a reservation on the limit that made it",
                names.join(" + "),
                limit.name()
            ),
        ))
    }
}

/// The version, at the start of the text.
const VERSION: &str = "1";
/// The version of a receipt with a queue position, whose name follows.
const WITH_PLACE: &str = "2";
/// An absent value; others are pairs of hexadecimal digits.
const NONE: &str = "-";

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            None => f.write_str(VERSION)?,
            Some(place) => {
                write!(f, "{WITH_PLACE}:")?;
                write_bytes(f, Some(&place.to_bytes()))?;
            }
        }
        for PartReceipt { limit, subject, change } in &self.parts {
            // Only a limit's name may contain colons, and no name contains a `%`.
            write!(f, ":{}:", limit.as_str().replace(':', "%"))?;
            write_bytes(f, Some(subject))?;
            f.write_str(":")?;
            write_bytes(f, change.as_ref().and_then(|change| change.before.as_deref()))?;
            f.write_str(":")?;
            write_bytes(f, change.as_ref().map(|change| change.after.as_slice()))?;
        }
        Ok(())
    }
}

impl FromStr for Receipt {
    type Err = ReceiptError;

    fn from_str(text: &str) -> Result<Self, ReceiptError> {
        let (version, fields) = text.split_once(':').ok_or_else(|| malformed("version"))?;
        let (place, fields) = match version {
            VERSION => (None, fields),
            WITH_PLACE => {
                let (place, fields) = fields.split_once(':').unwrap_or((fields, ""));
                let name = read_bytes(place)?.and_then(|bytes| bytes.try_into().ok());
                let name = name.and_then(|bytes| PlaceName::from_bytes(&bytes));
                (Some(name.ok_or_else(|| malformed("place"))?), fields)
            }
            _ => return Err(malformed("version")),
        };
        let fields: Vec<&str> = fields.split(':').collect();
        let chunks = fields.chunks_exact(4);
        if !chunks.remainder().is_empty() {
            return Err(malformed("number of fields"));
        }
        let part = |fields: &[&str]| {
            let limit = fields[0].replace('%', ":").parse().map_err(|_| malformed("limit name"))?;
            let subject = read_bytes(fields[1])?.ok_or_else(|| malformed("subject"))?;
            let (before, after) = (read_bytes(fields[2])?, read_bytes(fields[3])?);
            let change = match (before, after) {
                (before, Some(after)) => Some(Change { before, after }),
                (None, None) => None,
                (Some(_), None) => return Err(malformed("change")),
            };
            Ok(PartReceipt { limit, subject, change })
        };
        Ok(Self { parts: chunks.map(part).collect::<Result<_, _>>()?, place })
    }
}

fn write_bytes(f: &mut fmt::Formatter<'_>, bytes: Option<&[u8]>) -> fmt::Result {
    match bytes {
        None => f.write_str(NONE),
        Some(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
    }
}

fn read_bytes(text: &str) -> Result<Option<Vec<u8>>, ReceiptError> {
    if text == NONE {
        return Ok(None);
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        _ => Err(malformed("digit")),
    };
    let pairs = text.as_bytes().chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return Err(malformed("number of digits"));
    }
    pairs.map(|pair| Ok(digit(pair[0])? << 4 | digit(pair[1])?)).collect::<Result<_, _>>().map(Some)
}

fn malformed(what: &str) -> ReceiptError {
    ReceiptError(format!("not a receipt: its {what} is malformed"))
}

impl fmt::Display for ReceiptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ReceiptError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 0..40)
    }

    fn parts() -> impl Strategy<Value = PartReceipt> {
        let change = (prop::option::of(bytes()), bytes());
        let change = change.prop_map(|(before, after)| Change { before, after });
        ("[a-zA-Z0-9_.:/@-]{1,64}", bytes(), prop::option::of(change)).prop_map(
            |(limit, subject, change)| PartReceipt {
                limit: limit.parse().unwrap(),
                subject,
                change,
            },
        )
    }

    fn place() -> impl Strategy<Value = PlaceName> {
        (0..=crate::number::MAX_EXACT, any::<[u8; 16]>()).prop_map(|(instant, id)| PlaceName {
            instant,
            id: crate::hold::HoldId::from_bytes(id),
        })
    }

    proptest! {
        #[test]
        fn a_receipt_reads_back_from_its_text(parts in prop::collection::vec(parts(), 1..4),
                                              place in prop::option::of(place())) {
            let receipt = Receipt::new(parts).with_place(place);
            prop_assert_eq!(receipt.to_string().parse::<Receipt>(), Ok(receipt));
        }

        #[test]
        fn any_text_is_a_receipt_or_an_error(text in "[0-9a-f:%-]{0,60}|2:00[0-9a-f]{44}(:a:6:-:0){0,2}|.{0,30}") {
            if let Ok(receipt) = text.parse::<Receipt>() {
                prop_assert_eq!(receipt.to_string(), text);
            }
        }
    }
}
