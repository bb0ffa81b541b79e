//! Replies of the script as they arrive: the call's tag, the server's time, and the content.

use bytes::{Buf as _, Bytes};

use crate::program_frame::TAG_BYTES;
use crate::resp::Value;

/// The number of a call, which its reply repeats.
pub(crate) type Tag = [u8; TAG_BYTES];

/// The script's reply to one caller.
#[derive(Clone, Debug)]
pub enum Said {
    /// The usual, brief reply.
    Briefly(ReplyFrame),
    /// An array, without its stamp.
    Fully(Vec<Value>),
}

/// A brief reply of the script, parsed.
#[derive(Clone, Debug)]
pub struct ReplyFrame {
    /// The server's time, in µs since the epoch.
    pub(crate) micros: u64,
    pub(crate) sign: u8,
    pub(crate) rest: Bytes,
    /// Position of this caller, from 0, if a reply is for several callers.
    pub(crate) turn: usize,
}

// The signs.
pub(crate) const ALLOWED: u8 = b'+';
pub(crate) const DENIED: u8 = b'-';
/// Several equal checks of a bucket.
pub(crate) const SEVERAL: u8 = b'*';
/// The caller's deadline had passed, so the call was skipped.
pub(crate) const LATE: u8 = b'<';
/// A ban or a pause denied.
pub(crate) const REFUSED: u8 = b'!';
/// Several calls in a batch: the rest is a [`List`].
pub(crate) const TOGETHER: u8 = b'=';
/// In a list: an array or an error, which follows the list.
pub(crate) const OTHER: u8 = b'#';

/// Returns the tag of a reply of any form; `None` if it isn't a reply of the script.
pub(crate) fn tag(reply: &Value) -> Option<Tag> {
    let first = match reply {
        Value::Array(items) => items.first()?,
        first => first,
    };
    if let Value::Bytes(bytes) = first { bytes.first_chunk().copied() } else { None }
}

impl Said {
    /// Parses a reply to one caller; `None` if it is malformed.
    #[must_use]
    pub fn of(reply: Value) -> Option<Self> {
        match reply {
            Value::Bytes(bytes) => ReplyFrame::of(&bytes).map(Self::Briefly),
            Value::Array(mut items) => {
                if items.is_empty() {
                    return None;
                }
                items.remove(0);
                Some(Self::Fully(items))
            }
            _ => None,
        }
    }

    /// Returns the reply for the caller at this position.
    #[must_use]
    pub fn to(self, turn: usize) -> Self {
        match self {
            Self::Briefly(frame) => Self::Briefly(ReplyFrame { turn, ..frame }),
            full => full,
        }
    }
}

impl ReplyFrame {
    /// Returns whether the request was fulfilled.
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        self.sign == ALLOWED
    }

    /// Parses a reply.
    pub(crate) fn of(reply: &Bytes) -> Option<Self> {
        let stamp = reply.get(TAG_BYTES..)?;
        let (seconds, length) = digits(stamp)?;
        let rest = stamp.get(length..)?.strip_prefix(b" ")?;
        let (micros, more) = digits(rest)?;
        let at = TAG_BYTES + length + 1 + more;
        let sign = *reply.get(at)?;
        let micros = seconds.checked_mul(1_000_000)?.checked_add(micros)?;
        Some(Self { micros, sign, rest: reply.slice(at + 1..), turn: 0 })
    }
}

/// The replies to the calls of a batch, one after the other: sign and rest.
#[derive(Debug)]
pub(crate) struct List(pub(crate) Bytes);

impl List {
    /// Takes the next reply; `None` if there is none, or if it is malformed.
    pub(crate) fn next(&mut self) -> Option<(u8, Bytes)> {
        let sign = *self.0.first()?;
        if sign == OTHER {
            self.0.advance(1);
            return Some((sign, Bytes::new()));
        }
        let mut rest = self.0.slice(1..);
        let word = take_word(&mut rest)?;
        self.0 = rest;
        Some((sign, word))
    }
}

/// Takes the word at the front, which comes after its length. Returns `None`, and takes nothing, if it is cut short.
pub(crate) fn take_word(bytes: &mut Bytes) -> Option<Bytes> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let head = bytes.len() - rest.len();
    if rest.len() < length {
        return None;
    }
    bytes.advance(head);
    Some(bytes.split_to(length))
}

/// Returns the number at the front, and the number of its digits.
fn digits(text: &[u8]) -> Option<(u64, usize)> {
    // Any time below 2^53 µs has fewer digits.
    const MOST: usize = 12;
    let length = text.iter().take(MOST).take_while(|byte| byte.is_ascii_digit()).count();
    let number = text[..length].iter().fold(0, |number, byte| 10 * number + u64::from(byte - b'0'));
    (length > 0).then_some((number, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_a_tag_a_time_and_a_sign() {
        let reply = Bytes::from_static(b"\0\x01 71790000000 42+\x01states");
        assert_eq!(tag(&Value::Bytes(reply.clone())), Some(*b"\0\x01 7"));
        let frame = ReplyFrame::of(&reply).unwrap();
        assert_eq!(frame.micros, 1_790_000_000_000_042);
        assert_eq!((frame.sign, &frame.rest[..]), (ALLOWED, &b"\x01states"[..]));
        let list = Value::Array(vec![Value::Bytes(Bytes::from_static(b"abcd")), Value::Int(1)]);
        assert_eq!(tag(&list), Some(*b"abcd"));
    }

    #[test]
    fn a_list_has_signs_with_what_follows_them() {
        let mut list = List(Bytes::from_static(b"+\0\0\0\x02ab#-\0\0\0\0"));
        let mut next = || list.next().map(|(sign, rest)| (sign, rest.to_vec()));
        assert_eq!(next(), Some((ALLOWED, b"ab".to_vec())));
        assert_eq!(next(), Some((OTHER, Vec::new())));
        assert_eq!(next(), Some((DENIED, Vec::new())));
        assert_eq!(next(), None);
        for torn in [&b"+"[..], b"+\0\0\0", b"+\0\0\0\x01", b"+\xff\xff\xff\xffabc"] {
            assert!(List(Bytes::copy_from_slice(torn)).next().is_none(), "{torn:?}");
        }
    }

    #[test]
    fn what_is_no_stamp_is_refused() {
        for bytes in [
            &b""[..],
            b"abc",
            b"abcd",
            b"abcd1",
            b"abcd1 ",
            b"abcd1 2",
            b"abcd 2+",
            b"abcd1 x+",
            b"abcd1234567890123 1+",
            b"abcd-1 2+",
        ] {
            assert!(ReplyFrame::of(&Bytes::copy_from_slice(bytes)).is_none(), "{bytes:?}");
        }
        let one = |item| Value::Array(vec![item]);
        for reply in [
            Value::Int(1),
            Value::Nil,
            one(Value::Int(1)),
            one(Value::Bytes(Bytes::from_static(b"abc"))),
            Value::Array(Vec::new()),
        ] {
            assert_eq!(tag(&reply), None, "{reply:?}");
        }
    }
}
