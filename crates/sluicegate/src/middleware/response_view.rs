//! One view on a response, whichever library makes it.

use http::{HeaderName, StatusCode};

/// What of a response tells what its request costs.
pub trait ResponseView {
    /// The status.
    fn status(&self) -> StatusCode;

    /// The value of a header field; of several lines the first.
    fn field(&self, name: &HeaderName) -> Option<&[u8]>;

    /// What the handler says it used, if it put a [`Charge`] into the response's extensions.
    fn charge(&self) -> Option<u64>;
}

/// Units that a handler says its request used: an extension of the response, which
/// [`ResponseView::charge`] shows.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Charge(pub u64);
