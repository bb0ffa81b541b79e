//! Observations about a response that was served.

use http::{HeaderMap, HeaderName, StatusCode};

/// Observations about a request by the end of its response, for [`settle_at_end`](super::Middleware::settle_at_end).
///
/// ```
/// use sluicegate::middleware::{BodyEnd, Middleware, Served};
/// use sluicegate::{Config, Registry};
///
/// let config = "limits: {download: {policies: [concurrency 4 hold 30s as open, token_bucket 10000000/s as bytes]}}";
/// let registry = Registry::open(&Config::parse(config, "limits.yaml")?)?;
/// let middleware = Middleware::new(registry.gate("download"))
///     .cost(|_| [("open", 1), ("bytes", 1_000_000)])
///     .settle_at_end(|served: &Served| match served.end() {
///         BodyEnd::NoResponse => Some([("bytes", 0)]),
///         _ => Some([("bytes", served.bytes())]),
///     });
/// # let _ = middleware;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Served {
    pub(super) status: Option<StatusCode>,
    pub(super) bytes: u64,
    pub(super) trailers: Option<Box<HeaderMap>>,
    pub(super) end: BodyEnd,
}

/// The end of a response's body.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum BodyEnd {
    /// The body was sent completely.
    Complete,
    /// The body failed with an error.
    Failed,
    /// The body was dropped before its end: the client has disconnected.
    Dropped,
    /// There was no body: the handler failed, panicked or was dropped.
    NoResponse,
}

impl Served {
    /// Returns the status of the response; `None` if there was no response.
    #[must_use]
    pub const fn status(&self) -> Option<StatusCode> {
        self.status
    }

    /// Returns the number of bytes of the body that were sent.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the value of a trailer, such as `grpc-status`; if it has several lines, the first.
    #[must_use]
    pub fn trailer(&self, name: &HeaderName) -> Option<&[u8]> {
        Some(self.trailers.as_ref()?.get(name)?.as_bytes())
    }

    /// Returns how the body ended.
    #[must_use]
    pub const fn end(&self) -> BodyEnd {
        self.end
    }
}
