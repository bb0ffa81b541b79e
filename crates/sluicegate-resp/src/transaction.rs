//! The commands between `MULTI` and `EXEC`.

use crate::arguments::Arguments;
use crate::output::Output;

/// The commands between `MULTI` and `EXEC`, as bytes.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    queued: Output,
    count: usize,
    /// Whether one of the commands was refused.
    is_broken: bool,
}

impl Transaction {
    /// Maximum length of all commands, in bytes.
    pub(crate) const MAX_BYTES: usize = 1_024 * 1_024;

    /// Adds a command. Returns `false` if there are too many; then the transaction is broken.
    pub(crate) fn queue(&mut self, arguments: &Arguments<'_, '_>) -> bool {
        // Each part has its length in front, and two line ends.
        let length: usize = arguments.from(0).map(|part| part.len() + 16).sum();
        if self.is_broken || self.queued.bytes().len() + length > Self::MAX_BYTES {
            self.is_broken = true;
            return false;
        }
        self.queued.array(arguments.len());
        arguments.from(0).for_each(|part| self.queued.bulk(part));
        self.count += 1;
        true
    }

    /// Makes `EXEC` fail, because a command was refused.
    pub(crate) fn break_off(&mut self) {
        *self = Self { is_broken: true, ..Self::default() };
    }

    /// Returns the number of commands, and their bytes; `None` if one of them was refused.
    pub(crate) fn commands(self) -> Option<(usize, Vec<u8>)> {
        (!self.is_broken).then(|| (self.count, self.queued.into_bytes()))
    }
}
