//! The elements of a chain, from the last one on.

use http::HeaderName;
use smallvec::SmallVec;

use super::ClientAddress;
use crate::request::RequestView;

/// Whether commas between double quotes are no commas.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Quoting {
    None,
    Quotes,
}

/// What is left to be looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) hops: usize,
    pub(super) bytes: usize,
}

/// The lines of a field as one list of elements, read from its end.
///
/// From the end, because that is where the trusted proxies wrote: what stands there can't be
/// spoilt by an open quote that a client has sent before it.
#[derive(Debug)]
pub(super) struct Chain<'r> {
    /// The last lines, in a ring: as many as there can be hops.
    lines: SmallVec<[&'r [u8]; 2]>,
    /// The place after the last line in the ring.
    end: usize,
    /// What is left of the line that is being read.
    line: Option<&'r [u8]>,
    /// The lines of the ring that are still to be read.
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

    /// The element before the one that was shown last. `None` at the beginning, at the bounds,
    /// and at a quote that is open.
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
        // While the ring isn't full, `end` is its length.
        self.end = self.end.checked_sub(1).unwrap_or(self.lines.len() - 1);
        self.lines.get(self.end).copied()
    }

    /// Where the last element of `line` begins: after this comma, or at the beginning of the
    /// line. `None` when that can't be told within the bounds.
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

/// Whether an odd number of backslashes stands before `index`.
fn is_escaped(line: &[u8], index: usize) -> bool {
    let before = line.iter().take(index).rev().take(ClientAddress::MAX_BYTES);
    before.take_while(|&&byte| byte == b'\\').count() % 2 == 1
}
