//! What a request asks for.

use super::operation::Operation;
use crate::hold::{HoldId, Used};
use crate::receipt::Receipt;
use crate::time::Span;

/// What a request asks for. Exhaustive, because a store has to answer all of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action<'a> {
    /// Decide on an operation with costs.
    Decide(Operation),
    /// Undo a reservation, if no request was charged after it, or leave its turn to others if it
    /// [has a place in line](crate::Request::in_line_as). The decision is allowed if it did either, and lists no
    /// policies.
    Cancel(&'a Receipt),
    /// Read the slices of a limit that is a ring, writing nothing. The decision is that of a peek,
    /// and [has the slices](crate::Decision::slices).
    Slices,
    /// Settle what an earlier request [holds](crate::Request::hold) for what was really used. The decision is
    /// that of a peek afterwards at no cost, and [says what was found](crate::Decision::hold_found); it
    /// is allowed unless nothing was.
    Settle {
        /// What the record is called.
        id: HoldId,
        /// How much was used.
        used: Used<'a>,
    },
    /// Let the record of what an earlier request holds live on. The decision is like that of
    /// [`Action::Settle`].
    Renew {
        /// What the record is called.
        id: HoldId,
        /// How long it lives from now on: 1 ms to a day.
        lasts: Span,
    },
}

impl Action<'_> {
    /// The number of the action in the protocol with scripts in other languages.
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

    /// The longest wait that the caller of a reservation accepts, in µs.
    #[must_use]
    pub const fn within(self) -> Option<u64> {
        match self {
            Self::Decide(operation) => operation.within(),
            _ => None,
        }
    }

    /// When the units were taken that are given back, in µs since the epoch.
    #[must_use]
    pub const fn taken_at(self) -> Option<u64> {
        match self {
            Self::Decide(Operation::GiveBack { taken_at }) => Some(taken_at.as_micros()),
            _ => None,
        }
    }
}
