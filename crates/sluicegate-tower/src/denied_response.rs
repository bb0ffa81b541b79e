//! The response to refused requests.

use http::Response;
use sluicegate::Denied;

/// A function that makes the response to a refused request.
///
/// Functions of the denial and the standard response implement it
/// ([`LimitLayer::denied_response`](crate::LimitLayer::denied_response)).
pub trait DeniedResponse<R> {
    /// Makes the response. `standard` is the default one: status, fields and body.
    fn response(&self, denied: &Denied, standard: Response<String>) -> Response<R>;
}

/// The standard response: a problem body (RFC 9457), or a status for a gRPC call.
///
/// Works with every body that can be made from text, such as axum's and `Full<Bytes>`.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct ProblemBody;

/// The standard response without a body, for bodies that can't be made from text, such as tonic's.
/// A gRPC status needs none.
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
