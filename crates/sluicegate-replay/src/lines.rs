//! Splits an input of any content into lines, in bounded memory.

use std::io::{self, Read};
use std::ops::Range;

use memchr::{memchr, memrchr};

/// The lines of an input. Each line is cut after [`MAX_LINE`] bytes.
pub(crate) struct Lines<R> {
    input: R,
    buffer: Box<[u8]>,
    /// Bytes of the buffer that were read but not returned yet.
    unread: Range<usize>,
    is_at_start: bool,
    is_at_end: bool,
}

/// A line without its line break, cut after [`MAX_LINE`] bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'l> {
    pub(crate) bytes: &'l [u8],
    /// Whether the line was longer.
    pub(crate) is_cut: bool,
}

impl<'l> Line<'l> {
    /// Returns the line for the bytes before a `\n`.
    fn new(line: &'l [u8]) -> Self {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let bytes = &line[..line.len().min(MAX_LINE)];
        Self { bytes, is_cut: bytes.len() < line.len() }
    }

    /// Returns the lines that [`Lines::append_to`] appended.
    pub(crate) fn all(text: &'l [u8]) -> impl Iterator<Item = Self> {
        let mut rest = text;
        std::iter::from_fn(move || {
            let end = memchr(b'\n', rest).unwrap_or(rest.len());
            let line = (!rest.is_empty()).then(|| Self::new(&rest[..end]));
            rest = rest.get(end + 1..).unwrap_or_default();
            line
        })
    }

    pub(crate) fn is_blank(self) -> bool {
        self.bytes.iter().all(u8::is_ascii_whitespace)
    }
}

/// Maximum length of a line in bytes. Web servers refuse requests far shorter than this.
pub(crate) const MAX_LINE: usize = 64 * 1024;

const BUFFER: usize = 4 * MAX_LINE;

/// Byte order mark that some editors write before UTF-8 text. It isn't part of a line.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Maximum bytes kept of a line until its end is found. One byte more than a line may have detects
/// a longer line.
const KEPT: usize = MAX_LINE + BYTE_ORDER_MARK.len() + b"\r".len() + 1;

impl<R: Read> Lines<R> {
    pub(crate) fn new(input: R) -> Self {
        let buffer = vec![0; BUFFER].into_boxed_slice();
        Self { input, buffer, unread: 0..0, is_at_start: true, is_at_end: false }
    }

    /// Returns the next line without its line break (`\n` or `\r\n`), or `None` at the end. A break
    /// at the end of the input starts no further line.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        let Some(place) = self.find()? else {
            return Ok(None);
        };
        let mut line = &self.buffer[place];
        if std::mem::take(&mut self.is_at_start) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        Ok(Some(Line::new(line)))
    }

    /// Appends the buffered lines unchanged: at least one, unless the input ends. Call
    /// [`Lines::next`] first, because only that removes a byte order mark.
    pub(crate) fn append_to(&mut self, text: &mut Vec<u8>) -> io::Result<()> {
        let Some(Range { start, .. }) = self.find()? else {
            return Ok(());
        };
        let buffered = &self.buffer[self.unread.clone()];
        self.unread.start += memrchr(b'\n', buffered).map_or(0, |line_break| line_break + 1);
        text.extend_from_slice(&self.buffer[start..self.unread.start]);
        Ok(())
    }

    /// Returns the range of the next line in the buffer.
    fn find(&mut self) -> io::Result<Option<Range<usize>>> {
        let mut searched = self.unread.start;
        loop {
            let start = self.unread.start;
            if let Some(offset) = memchr(b'\n', &self.buffer[searched..self.unread.end]) {
                let line_break = searched + offset;
                self.unread.start = line_break + 1;
                return Ok(Some(start..line_break));
            }
            if self.is_at_end {
                let rest = self.unread.clone();
                self.unread.start = rest.end;
                return Ok((!rest.is_empty()).then_some(rest));
            }
            // For a line that is too long to keep, drop the bytes after its beginning to search for
            // its end. Enough bytes remain to detect that it was cut.
            self.unread.end = self.unread.end.min(start + KEPT);
            self.buffer.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
            searched = self.unread.end;
            self.fill()?;
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        loop {
            match self.input.read(&mut self.buffer[self.unread.end..]) {
                Ok(0) => self.is_at_end = true,
                Ok(count) => self.unread.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A reader that returns up to a given number of bytes per read.
    struct Trickle<'a>(&'a [u8], usize);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let most = self.1.min(buffer.len());
            (&mut self.0).take(most as u64).read(buffer)
        }
    }

    fn all(input: impl Read) -> Vec<Vec<u8>> {
        let mut lines = Lines::new(input);
        let mut all = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            all.push(line.bytes.to_vec());
        }
        all
    }

    /// Returns the lines after the first one.
    fn rest(lines: &mut Lines<impl Read>) -> Vec<(Vec<u8>, bool)> {
        let mut all = Vec::new();
        loop {
            let mut text = Vec::new();
            lines.append_to(&mut text).unwrap();
            if text.is_empty() {
                return all;
            }
            all.extend(Line::all(&text).map(|line| (line.bytes.to_vec(), line.is_cut)));
        }
    }

    #[test]
    fn a_break_at_the_end_begins_no_line_and_a_missing_one_loses_none() {
        assert_eq!(all(&b"a\n\nb\r\nc"[..]), [b"a".as_slice(), b"", b"b", b"c"]);
        assert_eq!(all(&b"a\n"[..]), [b"a"]);
        assert!(all(&b""[..]).is_empty());
    }

    #[test]
    fn a_line_longer_than_memory_should_hold_keeps_its_beginning_alone() {
        let mut text = vec![b'x'; 10 * BUFFER];
        text[0] = b'a';
        text.extend_from_slice(b"\nb\n");
        let lines = all(text.as_slice());
        assert_eq!(lines.len(), 2);
        assert_eq!((lines[0].len(), lines[0][0], lines[0][1]), (MAX_LINE, b'a', b'x'));
        assert_eq!(lines[1], b"b");
    }

    #[test]
    fn a_line_is_cut_if_it_has_more_bytes_than_are_kept() {
        for (line_break, before) in
            [("\n", &b""[..]), ("\r\n", b""), ("", b""), ("\r\n", BYTE_ORDER_MARK)]
        {
            for (length, is_cut) in
                [(MAX_LINE, false), (MAX_LINE + 1, true), (MAX_LINE + 2, true), (BUFFER, true)]
            {
                // A carriage return inside a line isn't a break.
                let line =
                    [b"x".repeat(MAX_LINE - 1), b"\r".repeat(length - MAX_LINE), b"x".to_vec()];
                let text = [before, &line.concat(), line_break.as_bytes()].concat();
                for step in [4 * BUFFER, MAX_LINE + 1, 4_093] {
                    let mut lines = Lines::new(Trickle(&text, step));
                    let line = lines.next().unwrap().unwrap();
                    assert_eq!((line.bytes.len(), line.is_cut), (MAX_LINE, is_cut), "{length}");
                    assert!(lines.next().unwrap().is_none());
                    if before.is_empty() {
                        let text = [b"first\n", &text[..], b"last"].concat();
                        let mut lines = Lines::new(Trickle(&text, step));
                        lines.next().unwrap().unwrap();
                        let rest = rest(&mut lines);
                        let rest: Vec<_> =
                            rest.iter().map(|(line, cut)| (line.len(), *cut)).collect();
                        let last = (if line_break.is_empty() { "" } else { "last" }).len();
                        assert_eq!(rest[0], (MAX_LINE, is_cut || last == 0), "{length}");
                        assert_eq!(rest.get(1), (last > 0).then_some(&(last, false)));
                    }
                }
            }
        }
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_line() {
        assert_eq!(all(&b"\xef\xbb\xbfa\n\xef\xbb\xbfb"[..]), [&b"a"[..], b"\xef\xbb\xbfb"]);
        assert_eq!(all(&b"\xef\xbb"[..]), [b"\xef\xbb"]);
    }

    proptest! {
        #[test]
        fn lines_are_those_between_the_breaks(
            lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..20),
            step in 1_usize..50,
        ) {
            let text = lines.join(&b'\n');
            let mut expected: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
            if expected.last().is_some_and(|last| last.is_empty()) {
                expected.pop();
            }
            let expected: Vec<&[u8]> =
                expected.into_iter().map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect();
            prop_assert_eq!(all(Trickle(&text, step)), &expected[..]);
            let mut lines = Lines::new(Trickle(&text, step));
            if lines.next().unwrap().is_some() {
                let rest: Vec<_> = rest(&mut lines).into_iter().map(|(line, _)| line).collect();
                prop_assert_eq!(rest, &expected[1..]);
            }
        }
    }
}
