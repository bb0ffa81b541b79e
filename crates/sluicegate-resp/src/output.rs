//! Answers as bytes.

use std::fmt::Display;
use std::io::Write as _;

/// The version of the protocol.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Protocol {
    /// RESP2, that of a connection without `HELLO 3`.
    #[default]
    Resp2,
    /// RESP3.
    Resp3,
}

/// The first word of an error, by which clients distinguish errors.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ErrorKind {
    /// Any other error: `ERR`.
    Err,
    /// The transaction had an error: `EXECABORT`.
    ExecAbort,
    /// The caller has to present a token: `NOAUTH`.
    NoAuth,
    /// There is no such limit: `NOLIMIT`.
    NoLimit,
    /// The caller lacks the right: `NOPERM`.
    NoPerm,
    /// The version of the protocol isn't supported: `NOPROTO`.
    NoProto,
    /// The store failed, or had no time to decide: `STORE`.
    Store,
    /// The token or the name is wrong: `WRONGPASS`.
    WrongPass,
}

impl ErrorKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Err => "ERR",
            Self::ExecAbort => "EXECABORT",
            Self::NoAuth => "NOAUTH",
            Self::NoLimit => "NOLIMIT",
            Self::NoPerm => "NOPERM",
            Self::NoProto => "NOPROTO",
            Self::Store => "STORE",
            Self::WrongPass => "WRONGPASS",
        }
    }
}

/// Answers that wait to be sent, in the version of the protocol that the connection speaks. Its memory is reused.
///
/// ```
/// use sluicegate_resp::{ErrorKind, Output, Protocol};
///
/// let mut output = Output::default();
/// output.map(1);
/// output.bulk(b"allowed");
/// output.boolean(true);
/// assert_eq!(output.bytes(), b"*2\r\n$7\r\nallowed\r\n:1\r\n");
/// output.clear();
/// output.speak(Protocol::Resp3);
/// output.map(1);
/// output.bulk(b"allowed");
/// output.boolean(true);
/// assert_eq!(output.bytes(), b"%1\r\n$7\r\nallowed\r\n#t\r\n");
/// output.clear();
/// output.error(ErrorKind::NoLimit, "there is no limit\r\ncalled `x`");
/// assert_eq!(output.bytes(), b"-NOLIMIT there is no limit  called `x`\r\n");
/// ```
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    protocol: Protocol,
}

impl Output {
    /// Returns the bytes that wait.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the bytes alone.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Removes the bytes, once they are sent. Memory of more than `most` bytes is released.
    pub fn sent(&mut self, most: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(most);
    }

    /// Removes the bytes.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Returns the version of the protocol.
    #[must_use]
    pub const fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Sets the version of the protocol for the next answers.
    pub const fn speak(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// Writes a short text without a line break.
    pub fn simple(&mut self, text: &'static str) {
        self.line(b'+', text.as_bytes());
    }

    /// Writes an error. Line breaks in the message become spaces.
    pub fn error(&mut self, kind: ErrorKind, message: impl Display) {
        self.bytes.push(b'-');
        let start = self.bytes.len();
        // Writing into memory never fails.
        let _ = write!(self.bytes, "{} {message}", kind.as_str());
        for byte in &mut self.bytes[start..] {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Writes a whole number.
    pub fn integer(&mut self, number: i64) {
        self.number(b':', number.unsigned_abs(), number < 0);
    }

    /// Writes any bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.count(b'$', bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Writes nothing as a value.
    pub fn null(&mut self) {
        self.bytes.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// Writes a boolean: 1 or 0 in RESP2.
    pub fn boolean(&mut self, is_true: bool) {
        self.bytes.extend_from_slice(match (self.protocol, is_true) {
            (Protocol::Resp2, true) => b":1\r\n",
            (Protocol::Resp2, false) => b":0\r\n",
            (Protocol::Resp3, true) => b"#t\r\n",
            (Protocol::Resp3, false) => b"#f\r\n",
        });
    }

    /// Begins an array of this many values.
    pub fn array(&mut self, length: usize) {
        self.count(b'*', length);
    }

    /// Begins a map of this many pairs: an array of names and values in RESP2.
    pub fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Resp2 => self.count(b'*', pairs * 2),
            Protocol::Resp3 => self.count(b'%', pairs),
        }
    }

    /// Begins an answer with this many named values: a map in RESP3, and an array of the values in RESP2.
    ///
    /// ```
    /// use sluicegate_resp::Output;
    ///
    /// let mut output = Output::default();
    /// output.record(1);
    /// output.field("remaining");
    /// output.integer(9);
    /// assert_eq!(output.bytes(), b"*1\r\n:9\r\n");
    /// ```
    pub fn record(&mut self, fields: usize) {
        match self.protocol {
            Protocol::Resp2 => self.count(b'*', fields),
            Protocol::Resp3 => self.count(b'%', fields),
        }
    }

    /// Writes the name of the next value of a record, in RESP3.
    pub fn field(&mut self, name: &str) {
        if self.protocol == Protocol::Resp3 {
            self.bulk(name.as_bytes());
        }
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn count(&mut self, kind: u8, count: usize) {
        self.number(kind, count as u64, false);
    }

    fn number(&mut self, kind: u8, mut left: u64, is_negative: bool) {
        // The longest number, its sign, its kind and CRLF.
        let mut text = [0; 24];
        let mut start = text.len() - 2;
        text[start..].copy_from_slice(b"\r\n");
        loop {
            start -= 1;
            text[start] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                break;
            }
        }
        if is_negative {
            start -= 1;
            text[start] = b'-';
        }
        start -= 1;
        text[start] = kind;
        self.bytes.extend_from_slice(&text[start..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_all_their_digits() {
        for number in [0, 7, -1, 10, 1_234_567_890, i64::MAX, i64::MIN] {
            let mut output = Output::default();
            output.integer(number);
            assert_eq!(output.bytes(), format!(":{number}\r\n").as_bytes());
        }
        let mut output = Output::default();
        output.number(b'*', u64::MAX, false);
        assert_eq!(output.bytes(), format!("*{}\r\n", u64::MAX).as_bytes());
    }

    #[test]
    fn nulls_and_empty_texts_differ() {
        for (protocol, null) in [(Protocol::Resp2, "$-1\r\n"), (Protocol::Resp3, "_\r\n")] {
            let mut output = Output::default();
            output.speak(protocol);
            output.null();
            output.bulk(b"");
            assert_eq!(output.bytes(), format!("{null}$0\r\n\r\n").as_bytes());
        }
    }
}
