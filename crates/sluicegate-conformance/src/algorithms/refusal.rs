//! Errors of the model.

use std::error::Error;
use std::fmt;

/// Reason why there is no decision. Nothing has changed.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Refusal {
    /// A deficit, debt or count beyond what a state can hold.
    TooLarge,
    /// A reservation on a limit with a policy that can't be reserved ahead.
    NotReservable,
    /// Leases of a limit with a policy that can't be leased.
    NotLeasable,
    /// A hold with the id of another hold.
    IdInUse,
    /// A request with the id of a different earlier request.
    AsksOtherwise,
    /// Permits without a hold.
    NeedsHold,
    /// A request that waits where there is no queue, or more than one.
    NoQueue,
    /// A request that waits but takes nothing that it could wait for.
    NothingToWaitFor,
    /// A waiting request with a request id.
    WaitsUnderAnId,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "the state can't hold so large a number: use a smaller cost",
            Self::NotReservable => {
                "a window or log can't be booked ahead: check instead of reserving"
            }
            Self::NotLeasable => {
                "only plain buckets and fixed windows can be leased: ask without leasing"
            }
            Self::NeedsHold => "requests in flight must be held: request a hold",
            Self::NoQueue => "there is no one queue to wait in: add `queue M` to one policy",
            Self::NothingToWaitFor => "it costs nothing where there is a queue: don't wait",
            Self::WaitsUnderAnId => "a request with an id can't wait: wait without one",
            Self::AsksOtherwise => "the id is that of another request: take a new one",
            Self::IdInUse => "the id is that of another hold: take a new one",
        })
    }
}

impl Error for Refusal {}
