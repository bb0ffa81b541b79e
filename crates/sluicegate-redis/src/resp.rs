//! The Redis protocol, RESP2: writes commands and reads replies.
//!
//! The other end may be anything. Replies with a length beyond [`LONGEST`] or a depth beyond [`DEEPEST`] are
//! refused before any memory is allocated for them.

use std::fmt;

use bytes::{Buf as _, BufMut, Bytes, BytesMut};
use smallvec::SmallVec;

/// Maximum length of a reply in bytes. No reply to a command of this store is longer.
const LONGEST: u64 = 64 << 20;
/// Maximum depth of a reply. No reply to a command of this store is deeper.
const DEEPEST: usize = 8;
/// The longest line without text: a type and a number.
const LONGEST_NUMBER: usize = 24;
/// The longest line of text.
const LONGEST_LINE: usize = 64 << 10;

/// A command: its words, as they are sent.
#[derive(Clone, Default)]
pub(crate) struct Command {
    words: usize,
    bytes: Vec<u8>,
}

impl Command {
    /// Returns a command with capacity for this many bytes of words.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { words: 0, bytes: Vec::with_capacity(bytes) }
    }

    pub(crate) fn of(words: &[&[u8]]) -> Self {
        let mut command = Self::default();
        for word in words {
            command.word(word);
        }
        command
    }

    /// Adds a word.
    pub(crate) fn word(&mut self, word: impl AsRef<[u8]>) -> &mut Self {
        self.words += 1;
        put_word(&mut self.bytes, word.as_ref());
        self
    }

    /// Returns the number of words.
    pub(crate) const fn len(&self) -> usize {
        self.words
    }

    /// Returns the words, as they are sent.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds a number as a word.
    pub(crate) fn number(&mut self, number: u64) -> &mut Self {
        self.word(itoa::Buffer::new().format(number))
    }

    /// Appends the whole command.
    pub(crate) fn write(&self, out: &mut BytesMut) {
        out.reserve(LONGEST_NUMBER + self.bytes.len());
        put_length(out, b'*', self.words);
        out.extend_from_slice(&self.bytes);
    }
}

/// Returns the words in these bytes of a command.
pub(crate) fn words_of(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let length = bytes.iter().position(|byte| *byte == b'\n')?;
        let digits = bytes.get(1..length.checked_sub(1)?)?;
        let count = digits.iter().fold(0, |count, digit| 10 * count + usize::from(digit - b'0'));
        let word = bytes.get(length + 1..length + 1 + count)?;
        bytes = bytes.get(length + 3 + count..)?;
        Some(word)
    })
}

/// Begins an array or a word.
pub(crate) fn put_length(out: &mut impl BufMut, kind: u8, length: usize) {
    out.put_u8(kind);
    out.put_slice(itoa::Buffer::new().format(length).as_bytes());
    out.put_slice(b"\r\n");
}

/// Writes a word.
pub(crate) fn put_word(out: &mut impl BufMut, word: &[u8]) {
    put_length(out, b'$', word.len());
    out.put_slice(word);
    out.put_slice(b"\r\n");
}

impl fmt::Debug for Command {
    /// Writes the first word alone: others may be keys or passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.bytes.split(|byte| *byte == b'\n').nth(1).unwrap_or_default();
        write!(f, "Command({}, {} words)", first.trim_ascii_end().escape_ascii(), self.words)
    }
}

/// A reply.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Value {
    /// No value.
    Nil,
    /// A whole number.
    Int(i64),
    /// A short text, such as `OK`.
    Status(Bytes),
    /// An error, which starts with an upper-case code.
    Error(Bytes),
    /// A string of any bytes.
    Bytes(Bytes),
    /// A sequence of replies.
    Array(Vec<Value>),
}

/// Bytes that are not a valid reply.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct NoReply;

/// Reads replies from a stream of bytes, once each is complete.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// Position up to which the next reply was scanned.
    looked: usize,
    /// Number of missing replies in each open array.
    open: SmallVec<[u64; DEEPEST]>,
}

impl Reader {
    /// Takes the next reply from the front of `bytes`, if it is complete.
    ///
    /// # Errors
    /// Returns an error if the reply is malformed or too large. The replies after it can't be read either.
    pub(crate) fn read(&mut self, bytes: &mut BytesMut) -> Result<Option<Value>, NoReply> {
        if !self.is_whole(bytes)? {
            return Ok(None);
        }
        let mut whole = bytes.split_to(self.looked).freeze();
        *self = Self::default();
        value(&mut whole).map(Some)
    }

    /// Scans the new bytes. The work for a reply is proportional to its length, regardless of the number of
    /// its pieces.
    fn is_whole(&mut self, bytes: &[u8]) -> Result<bool, NoReply> {
        loop {
            let Some(Line { kind, text, end: body }) = line(bytes, self.looked)? else {
                return Ok(false);
            };
            let mut end = body;
            match kind {
                b'+' | b'-' => {}
                b':' => {
                    let _ = number(text)?;
                }
                b'$' => {
                    if let Some(length) = length(text)? {
                        end = body + usize::try_from(length).map_err(|_| NoReply)? + 2;
                        if bytes.len() < end {
                            return Ok(false);
                        }
                        if &bytes[end - 2..end] != b"\r\n" {
                            return Err(NoReply);
                        }
                    }
                }
                b'*' => {
                    if let Some(items @ 1..) = length(text)? {
                        if self.open.len() == DEEPEST {
                            return Err(NoReply);
                        }
                        self.open.push(items);
                        self.looked = end;
                        continue;
                    }
                }
                _ => return Err(NoReply),
            }
            self.looked = end;
            if self.looked as u64 > LONGEST {
                return Err(NoReply);
            }
            // The reply may be the last one of several arrays.
            loop {
                match self.open.last_mut() {
                    None => return Ok(true),
                    Some(1) => drop(self.open.pop()),
                    Some(left) => {
                        *left -= 1;
                        break;
                    }
                }
            }
        }
    }
}

/// A line of a reply.
struct Line<'b> {
    kind: u8,
    text: &'b [u8],
    /// Start of the next line.
    end: usize,
}

/// Returns the line that starts at `from`; `None` if it is incomplete.
fn line(bytes: &[u8], from: usize) -> Result<Option<Line<'_>>, NoReply> {
    let rest = &bytes[from..];
    let Some(&kind) = rest.first() else { return Ok(None) };
    let longest = match kind {
        b'+' | b'-' => LONGEST_LINE,
        b':' | b'$' | b'*' => LONGEST_NUMBER,
        // Fail now, without waiting for the end of a malformed reply.
        _ => return Err(NoReply),
    };
    match rest.iter().take(longest).position(|byte| *byte == b'\n') {
        Some(end) if rest[end - 1] == b'\r' => {
            Ok(Some(Line { kind, text: &rest[1..end - 1], end: from + end + 1 }))
        }
        Some(_) => Err(NoReply),
        None if rest.len() >= longest => Err(NoReply),
        None => Ok(None),
    }
}

fn number(line: &[u8]) -> Result<i64, NoReply> {
    std::str::from_utf8(line).ok().and_then(|line| line.parse().ok()).ok_or(NoReply)
}

/// Parses a length; −1 stands for no value.
fn length(line: &[u8]) -> Result<Option<u64>, NoReply> {
    match number(line)? {
        -1 => Ok(None),
        length => {
            u64::try_from(length).ok().filter(|length| *length <= LONGEST).map(Some).ok_or(NoReply)
        }
    }
}

/// Parses the reply at the front of scanned bytes.
fn value(bytes: &mut Bytes) -> Result<Value, NoReply> {
    let Line { kind, text, end } = line(bytes, 0)?.ok_or(NoReply)?;
    let (number, length) = match kind {
        b':' => (number(text)?, None),
        b'$' | b'*' => (0, length(text)?),
        _ => (0, None),
    };
    let mut line = bytes.split_to(end);
    Ok(match kind {
        b'+' | b'-' => {
            line.advance(1);
            line.truncate(line.len() - 2);
            if kind == b'+' { Value::Status(line) } else { Value::Error(line) }
        }
        b':' => Value::Int(number),
        _ => match length {
            None => Value::Nil,
            Some(length) if kind == b'$' => {
                let length = usize::try_from(length).map_err(|_| NoReply)?;
                let text = bytes.split_to(length);
                bytes.advance(2);
                Value::Bytes(text)
            }
            Some(items) => {
                let items = (0..items).map(|_| value(bytes));
                Value::Array(items.collect::<Result<_, _>>()?)
            }
        },
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    fn read(bytes: &[u8]) -> Result<Option<Value>, NoReply> {
        Reader::default().read(&mut BytesMut::from(bytes))
    }

    #[test]
    fn a_command_is_an_array_of_its_words() {
        let mut command = Command::of(&[b"SET", b"k\r\n", b""]);
        command.number(42);
        let mut out = BytesMut::new();
        command.write(&mut out);
        assert_eq!(&out[..], b"*4\r\n$3\r\nSET\r\n$3\r\nk\r\n\r\n$0\r\n\r\n$2\r\n42\r\n");
        assert_eq!(format!("{command:?}"), "Command(SET, 4 words)");
    }

    #[test]
    fn the_words_of_a_command_are_found_again() {
        let words: [&[u8]; 4] = [b"DEL", b"", b"a\r\n$1\r\n", &[0xff; 300]];
        assert!(words_of(Command::of(&words).bytes()).eq(words));
        assert!(words_of(b"").eq([b""; 0]));
    }

    #[test]
    fn every_type_of_reply_is_read() {
        let all = b"*7\r\n:-7\r\n$-1\r\n*-1\r\n$4\r\na\r\nb\r\n+OK\r\n-ERR no\r\n*1\r\n*0\r\n";
        let expected = Value::Array(vec![
            Value::Int(-7),
            Value::Nil,
            Value::Nil,
            Value::Bytes(text("a\r\nb")),
            Value::Status(text("OK")),
            Value::Error(text("ERR no")),
            Value::Array(vec![Value::Array(Vec::new())]),
        ]);
        assert_eq!(read(all), Ok(Some(expected)));
    }

    #[test]
    fn what_is_no_reply_is_refused_as_soon_as_that_is_clear() {
        for bytes in [
            &b"H"[..],
            b"HTTP/1.1 400",
            b"\x15\x03\x01",
            b"+OK\n",
            b"\n",
            b":\r\n",
            b":1x\r\n",
            b":9223372036854775808\r\n",
            b"$x\r\n",
            b"$-2\r\n",
            b"$68719476736\r\n",
            b"*99999999999\r\n",
            b"$1\r\nabc",
            b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
            b"$0000000000000000000000000",
            b"*2\r\n:1\r\n~1\r\n",
        ] {
            assert_eq!(read(bytes), Err(NoReply), "{}", bytes.escape_ascii());
        }
        assert_eq!(read(&[b'+'; LONGEST_LINE]), Err(NoReply));
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let line = || "[ -~]{0,20}".prop_map(Bytes::from);
        let leaf = prop_oneof![
            Just(Value::Nil),
            any::<i64>().prop_map(Value::Int),
            line().prop_map(Value::Status),
            line().prop_map(Value::Error),
            prop::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| Value::Bytes(bytes.into())),
        ];
        leaf.prop_recursive(4, 30, 6, |value| {
            prop::collection::vec(value, 0..6).prop_map(Value::Array)
        })
    }

    fn write(value: &Value, out: &mut Vec<u8>) {
        match value {
            Value::Nil => out.extend(b"$-1\r\n"),
            Value::Int(number) => out.extend(format!(":{number}\r\n").bytes()),
            Value::Status(text) => out.extend([b"+", &text[..], b"\r\n"].concat()),
            Value::Error(text) => out.extend([b"-", &text[..], b"\r\n"].concat()),
            Value::Bytes(bytes) => {
                out.extend(format!("${}\r\n", bytes.len()).bytes());
                out.extend([&bytes[..], b"\r\n"].concat());
            }
            Value::Array(items) => {
                out.extend(format!("*{}\r\n", items.len()).bytes());
                items.iter().for_each(|item| write(item, out));
            }
        }
    }

    proptest! {
        #[test]
        fn replies_are_read_whole_in_whatever_pieces_they_come(
            values in prop::collection::vec(any_value(), 1..5),
            piece in 1_usize..20,
        ) {
            let mut sent = Vec::new();
            values.iter().for_each(|value| write(value, &mut sent));
            let (mut reader, mut bytes, mut read) = (Reader::default(), BytesMut::new(), Vec::new());
            for piece in sent.chunks(piece) {
                bytes.extend_from_slice(piece);
                while let Some(value) = reader.read(&mut bytes).unwrap() {
                    read.push(value);
                }
            }
            prop_assert_eq!(read, values);
            prop_assert!(bytes.is_empty());
        }

        #[test]
        fn any_bytes_are_answered(bytes in prop::collection::vec(
            prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'$'), Just(b'*'), Just(b'1'), Just(b':'), any::<u8>()], 0..60)
        ) {
            let (mut reader, mut whole) = (Reader::default(), BytesMut::from(&bytes[..]));
            while let Ok(Some(_)) = reader.read(&mut whole) {}
        }
    }
}
