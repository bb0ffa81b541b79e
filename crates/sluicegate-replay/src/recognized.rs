//! Reads the lines of a log whose format is recognized.

use crate::format::Parser;
use crate::format::wrapper::Wrapper;
use crate::key::KeyExpression;
use crate::lines::Line;
use crate::malformed::Malformed;
use crate::record::{Record, Stated};

/// A format with a wrapper, and the key of its requests.
#[derive(Clone, Debug)]
pub(crate) struct Recognized {
    pub(crate) parser: Parser,
    wrapper: Wrapper,
    key: KeyExpression,
    joined: Vec<u8>,
    unwrapped: Vec<u8>,
}

impl Recognized {
    pub(crate) const fn new(parser: Parser, wrapper: Wrapper, key: KeyExpression) -> Self {
        Self { parser, wrapper, key, joined: Vec::new(), unwrapped: Vec::new() }
    }

    /// Reads a line: the key of its request, and the data about it. Returns `None` for a header.
    pub(crate) fn read<'l>(
        &'l mut self,
        line: Line<'l>,
    ) -> Result<Option<(&'l [u8], Stated)>, Malformed> {
        if line.is_blank() {
            return Err(Malformed::Blank);
        }
        if line.is_cut && !self.parser.reads_beginnings() {
            return Err(Malformed::TooLong);
        }
        // A line that its collector didn't wrap, such as a later part of a long one, is read
        // unchanged.
        let text = match self.wrapper {
            Wrapper::None => line.bytes,
            wrapper => wrapper.inside(line.bytes, &mut self.unwrapped).unwrap_or(line.bytes),
        };
        let mut record = Record::default();
        let Some(moment) = self.parser.read(text, &mut record)? else { return Ok(None) };
        Ok(Some((self.key.key(&record, &mut self.joined), record.stated(moment))))
    }
}
