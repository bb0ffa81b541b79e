//! The action of a request.

use super::operation::Operation;
use crate::hold::{HoldId, Used};
use crate::receipt::Receipt;
use crate::time::Span;

/// The action of a request. Exhaustive, because a store must handle each of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action<'a> {
    /// Decide on an operation with costs.
    Decide(Operation),
    /// Undo a reservation, if no request was charged after it. If it
    /// [has a queue position](crate::Request::in_line_as), its turn can go to others instead. The
    /// decision is allowed if either happened, and lists no policies.
    Cancel(&'a Receipt),
    /// Read the slices of a limit that is a ring, without writing. The decision is that of a peek,
    /// and [has the slices](crate::Decision::slices).
    Slices,
    /// Settle the [hold](crate::Request::hold) of an earlier request with the units really used.
    /// The decision is that of a subsequent peek at no cost, and has
    /// [the result](crate::Decision::hold_found). It is allowed unless no hold was found.
    Settle {
        /// The id of the record.
        id: HoldId,
        /// The units that were used.
        used: Used<'a>,
    },
    /// Extend the hold of an earlier request. The decision is like that of [`Action::Settle`].
    Renew {
        /// The id of the record.
        id: HoldId,
        /// New lifetime of the record from now on: 1 ms to a day.
        lasts: Span,
    },
}

impl Action<'_> {
    /// Returns the number of the action in the protocol with scripts in other languages.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Decide(operation) => operation.code(),
            Self::Slices => 8,
            Self::Settle { .. } => 10,
            Self::Renew { .. } => 11,
            Self::Cancel(_) => 12,
        }
    }

    /// Returns the longest wait that the caller of a reservation accepts, in µs.
    #[must_use]
    pub const fn within(self) -> Option<u64> {
        match self {
            Self::Decide(operation) => operation.within(),
            _ => None,
        }
    }

    /// Returns when the units to give back were taken, in µs since the epoch.
    #[must_use]
    pub const fn taken_at(self) -> Option<u64> {
        match self {
            Self::Decide(Operation::GiveBack { taken_at }) => Some(taken_at.as_micros()),
            _ => None,
        }
    }
}
