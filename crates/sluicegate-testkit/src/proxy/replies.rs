//! A stream of replies with a fault in one of them.

use std::mem::take;
use std::sync::Mutex;

use super::{ReplyFault, lock};

/// Maximum length of a reply; no test needs a longer one. A larger number isn't a valid length.
const LONGEST: usize = 64 << 20;

/// The replies of one connection.
#[derive(Debug, Default)]
pub(super) struct Replies {
    /// The unfinished reply, from its start.
    begun: Vec<u8>,
    /// The number of its bytes that were forwarded already.
    passed: usize,
    /// The first of two replies that are swapped.
    first: Option<Vec<u8>>,
    /// Whether the bytes weren't a valid reply. Then everything else is forwarded unchanged.
    is_other: bool,
}

/// The length of the reply at the start of some bytes.
#[derive(Debug, PartialEq, Eq)]
enum Length {
    Whole(usize),
    Unfinished,
    NoReply,
}

impl Replies {
    /// Returns the bytes to forward after these bytes have arrived.
    pub(super) fn take(&mut self, piece: &[u8], fault: &Mutex<Option<ReplyFault>>) -> Vec<u8> {
        if self.is_other {
            return piece.to_vec();
        }
        self.begun.extend_from_slice(piece);
        let mut out = Vec::new();
        loop {
            match length(&self.begun) {
                Length::Whole(length) => {
                    let rest = self.begun.split_off(length);
                    let reply = std::mem::replace(&mut self.begun, rest);
                    let passed = take(&mut self.passed);
                    if passed > 0 || reply.first() == Some(&b'>') {
                        out.extend_from_slice(&reply[passed..]);
                    } else {
                        self.add(reply, fault, &mut out);
                    }
                }
                Length::Unfinished => {
                    // A fault of whole replies must wait for the end of this one.
                    if self.passed > 0 || self.first.is_none() && lock(fault).is_none() {
                        out.extend_from_slice(&self.begun[self.passed..]);
                        self.passed = self.begun.len();
                    }
                    return out;
                }
                Length::NoReply => {
                    self.is_other = true;
                    out.extend(self.first.take().unwrap_or_default());
                    out.extend_from_slice(&take(&mut self.begun)[take(&mut self.passed)..]);
                    return out;
                }
            }
        }
    }

    fn add(&mut self, reply: Vec<u8>, fault: &Mutex<Option<ReplyFault>>, out: &mut Vec<u8>) {
        if let Some(first) = self.first.take() {
            out.extend(reply);
            out.extend(first);
            return;
        }
        match lock(fault).take() {
            None => out.extend(reply),
            Some(ReplyFault::Swap) => self.first = Some(reply),
            Some(ReplyFault::Duplicate) => out.extend(reply.repeat(2)),
            Some(ReplyFault::Drop) => {}
            Some(ReplyFault::Truncate) => out.extend_from_slice(&reply[..reply.len() / 2]),
        }
    }
}

fn length(bytes: &[u8]) -> Length {
    let mut at = 0;
    // The number of values still to come.
    let mut wanted = 1_usize;
    while wanted > 0 {
        wanted -= 1;
        let Some(end) = bytes[at..].windows(2).position(|two| two == b"\r\n") else {
            let is_kind = bytes.get(at).is_none_or(|kind| b"+-:$*_#,(!=%~>|".contains(kind));
            return if is_kind { Length::Unfinished } else { Length::NoReply };
        };
        let line = &bytes[at..at + end];
        at += end + 2;
        let Some((kind, text)) = line.split_first() else { return Length::NoReply };
        let size = || match str::from_utf8(text).ok()?.parse::<i64>().ok()? {
            -1 => Some(None),
            size => usize::try_from(size).ok().filter(|size| *size <= LONGEST).map(Some),
        };
        match kind {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => {}
            b'$' | b'!' | b'=' => match size() {
                Some(size) => at += size.map_or(0, |size| size + 2),
                None => return Length::NoReply,
            },
            b'*' | b'~' | b'>' | b'%' | b'|' => match size() {
                // An attribute precedes the value that it describes.
                Some(size) => {
                    let pairs = if b"%|".contains(kind) { 2 } else { 1 };
                    wanted += size.unwrap_or(0) * pairs + usize::from(*kind == b'|');
                }
                None => return Length::NoReply,
            },
            _ => return Length::NoReply,
        }
        if at > bytes.len() {
            return Length::Unfinished;
        }
    }
    Length::Whole(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_of_every_kind_are_whole_where_they_end() {
        for reply in [
            "+OK\r\n",
            "-ERR no\r\n",
            "$4\r\na\r\nb\r\n",
            "$-1\r\n",
            "*2\r\n:1\r\n*1\r\n$1\r\nx\r\n",
            "%1\r\n+key\r\n:1\r\n",
            "|1\r\n+ttl\r\n:1\r\n~2\r\n#t\r\n,1.5\r\n",
            "*0\r\n",
        ] {
            let followed = format!("{reply}+OK\r\n");
            assert_eq!(length(followed.as_bytes()), Length::Whole(reply.len()), "{reply:?}");
            for end in 0..reply.len() {
                assert_eq!(length(&reply.as_bytes()[..end]), Length::Unfinished, "{reply:?} {end}");
            }
        }
        assert_eq!(length(b"\x15\x03\x03"), Length::NoReply);
        assert_eq!(length(b"$x\r\n"), Length::NoReply);
    }
}
