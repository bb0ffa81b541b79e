//! The elements of a chain, last to first.

use http::HeaderName;
use smallvec::SmallVec;

use super::ClientAddress;
use crate::request::RequestView;

/// Whether double quotes hide the commas between them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Quoting {
    None,
    Quotes,
}

/// The elements and bytes that may still be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) hops: usize,
    pub(super) bytes: usize,
}

/// The lines of a field as one list of elements, read from its end.
///
/// Trusted proxies append to the end, and an unclosed quote that a client sent before it can't
/// change how the end is read.
#[derive(Debug)]
pub(super) struct Chain<'r> {
    /// A ring of the last lines, at most [`ClientAddress::MAX_HOPS`].
    lines: SmallVec<[&'r [u8]; 2]>,
    /// The index in the ring after the last unread line.
    end: usize,
    /// The unread rest of the current line.
    line: Option<&'r [u8]>,
    /// The number of unread lines in the ring.
    unread: usize,
    quoting: Quoting,
}

impl<'r> Chain<'r> {
    pub(super) fn of(request: &'r dyn RequestView, name: &HeaderName, quoting: Quoting) -> Self {
        let mut lines: SmallVec<[&[u8]; 2]> = SmallVec::new();
        let mut end = 0;
        request.each_field(name, &mut |line| {
            match lines.get_mut(end) {
                Some(oldest) => *oldest = line,
                None => lines.push(line),
            }
            end = (end + 1) % ClientAddress::MAX_HOPS;
        });
        let unread = lines.len();
        Self { lines, end, line: None, unread, quoting }
    }

    /// Returns the element before the one returned last. `None` at the beginning, at the bounds, and
    /// at an unclosed quote.
    pub(super) fn previous(&mut self, bounds: &mut Bounds) -> Option<&'r [u8]> {
        bounds.hops = bounds.hops.checked_sub(1)?;
        let line = match self.line.take() {
            Some(line) => line,
            None => self.previous_line()?,
        };
        let comma = self.last_comma(line, bounds)?;
        let Some(comma) = comma else {
            return Some(line);
        };
        self.line = line.get(..comma);
        line.get(comma + 1..)
    }

    fn previous_line(&mut self) -> Option<&'r [u8]> {
        self.unread = self.unread.checked_sub(1)?;
        // At index 0 the ring is full and continues at its end.
        self.end = self.end.checked_sub(1).unwrap_or(self.lines.len() - 1);
        self.lines.get(self.end).copied()
    }

    /// Returns the index of the last comma between elements of `line`; `Some(None)` if the line is
    /// one element. `None` if the bounds or an unclosed quote are reached first.
    fn last_comma(&self, line: &[u8], bounds: &mut Bounds) -> Option<Option<usize>> {
        let mut quoted = false;
        for (index, &byte) in line.iter().enumerate().rev() {
            bounds.bytes = bounds.bytes.checked_sub(1)?;
            match byte {
                b'"' if self.quoting == Quoting::Quotes => {
                    quoted = !quoted || is_escaped(line, index);
                }
                b',' if !quoted => return Some(Some(index)),
                _ => {}
            }
        }
        if quoted { None } else { Some(None) }
    }
}

/// Returns whether an odd number of backslashes precedes `index`.
fn is_escaped(line: &[u8], index: usize) -> bool {
    let before = line.iter().take(index).rev().take(ClientAddress::MAX_BYTES);
    before.take_while(|&&byte| byte == b'\\').count() % 2 == 1
}
