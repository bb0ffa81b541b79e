//! A view of a response of any library.

use http::{HeaderName, HeaderValue, Response, StatusCode};

use super::charge::Charge;

/// The parts of a response that determine the cost of its request.
///
/// It is implemented for [`http::Response`], which axum, hyper and tonic use. Implement it for the responses of another
/// library.
pub trait ResponseView {
    /// Returns the status.
    fn status(&self) -> StatusCode;

    /// Returns the value of a header field; if it has several lines, the first.
    fn field(&self, name: &HeaderName) -> Option<&[u8]>;

    /// Returns the usage reported by the handler, if it put a [`Charge`] into the response's extensions.
    fn charge(&self) -> Option<Charge>;
}

impl<B> ResponseView for Response<B> {
    fn status(&self) -> StatusCode {
        Response::status(self)
    }

    fn field(&self, name: &HeaderName) -> Option<&[u8]> {
        self.headers().get(name).map(HeaderValue::as_bytes)
    }

    fn charge(&self) -> Option<Charge> {
        self.extensions().get::<Charge>().cloned()
    }
}
