//! What a client is sent that is turned away.

use http::Response;
use sluicegate::Denied;

/// Makes the response to a request that is turned away.
///
/// A function from the denial and the standard response is one
/// ([`LimitLayer::denied_response`](crate::LimitLayer::denied_response)).
pub trait DeniedResponse<R> {
    /// The response. `standard` is what would be sent otherwise: status, fields and body.
    fn response(&self, denied: &Denied, standard: Response<String>) -> Response<R>;
}

/// The standard response: a problem body (RFC 9457), or for calls of gRPC a status.
///
/// It fits every body that can be made from text: that of axum, `Full<Bytes>` and others.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct ProblemBody;

/// The standard response without its body, for bodies that can't be made from text, such as that
/// of tonic. A status of gRPC is complete without one.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct WithoutBody;

impl<R: From<String>> DeniedResponse<R> for ProblemBody {
    fn response(&self, _: &Denied, standard: Response<String>) -> Response<R> {
        standard.map(R::from)
    }
}

impl<R: Default> DeniedResponse<R> for WithoutBody {
    fn response(&self, _: &Denied, mut standard: Response<String>) -> Response<R> {
        if !standard.body().is_empty() {
            standard.headers_mut().remove(http::header::CONTENT_TYPE);
        }
        standard.map(|_| R::default())
    }
}

impl<R, F> DeniedResponse<R> for F
where
    F: Fn(&Denied, Response<String>) -> Response<R>,
{
    fn response(&self, denied: &Denied, standard: Response<String>) -> Response<R> {
        self(denied, standard)
    }
}
