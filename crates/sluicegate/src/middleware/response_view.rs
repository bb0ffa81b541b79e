//! A view of a response of any library.

use std::time::Duration;

use http::header::RETRY_AFTER;
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

    /// Returns the `Retry-After` of a response with status 429 or 503, for
    /// [`pause_on`](super::Middleware::pause_on).
    ///
    /// It is at most a day, because an upstream that is wrong must not pause a key for years. `None` for other statuses,
    /// and without a number of seconds in that field; a date doesn't count.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sluicegate::middleware::ResponseView;
    ///
    /// let response = |status| {
    ///     http::Response::builder().status(status).header("retry-after", "30").body(()).unwrap()
    /// };
    /// assert_eq!(response(429).retry_after(), Some(Duration::from_secs(30)));
    /// assert_eq!(response(200).retry_after(), None);
    /// ```
    fn retry_after(&self) -> Option<Duration> {
        let is_asked = matches!(
            self.status(),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
        );
        let field = self.field(&RETRY_AFTER).filter(|_| is_asked)?;
        let seconds: u64 = std::str::from_utf8(field).ok()?.trim().parse().ok()?;
        Some(Duration::from_secs(seconds.min(24 * 60 * 60)))
    }
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
