//! One view on a response, whichever library makes it.

use http::{HeaderName, HeaderValue, Response, StatusCode};

/// What of a response tells what its request costs.
///
/// Implemented for [`http::Response`], the type of axum, hyper and tonic. Other libraries need a few
/// lines to implement it.
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

impl<B> ResponseView for Response<B> {
    fn status(&self) -> StatusCode {
        Response::status(self)
    }

    fn field(&self, name: &HeaderName) -> Option<&[u8]> {
        self.headers().get(name).map(HeaderValue::as_bytes)
    }

    fn charge(&self) -> Option<u64> {
        self.extensions().get::<Charge>().map(|charge| charge.0)
    }
}
