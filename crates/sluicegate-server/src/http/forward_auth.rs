//! The calls in which a proxy asks about a request that it serves.
//!
//! The limits make their keys from the request of the proxy's client. The answer says by its status whether the proxy
//! serves it, and has the response fields for the client. No body is read.

use std::net::SocketAddr;
use std::sync::{Arc, Once};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, HeaderName, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use sluicegate::error::DeniedReason;
use sluicegate::http::{AuthTerms, AuthTermsError, ForwardedRequest, Peer, RequestView};
use sluicegate::middleware::{Refusal, authorize};

use super::error::ApiError;
use super::given::Wanted;
use super::guard;
use super::service::Service;
use crate::access::Call;
use crate::serving::Client;

/// The path of calls that describe a request in header fields.
pub(super) const BY_FIELDS: &str = "/v1/auth/{limits}";
/// The path of calls whose path and query end with those of a request.
pub(super) const BY_PREFIX: &str = "/v1/authz/{*call}";

/// The field of answers about a key on a block list, whose status other denials may have too.
const OUTCOME: HeaderName = HeaderName::from_static("sluicegate-outcome");

/// `ANY /v1/auth/LIMIT[,LIMIT…]?cost=N&denied=STATUS&failed=STATUS`: 200, 429, 403 or 503.
pub(super) async fn by_fields(State(service): State<Arc<Service>>, request: Request) -> Response {
    Form::Fields.answer(&service, request).await
}

/// `ANY /v1/authz/LIMIT[,LIMIT…][;cost=N][;denied=STATUS][;failed=STATUS]/REST?QUERY`: 200, 429, 403 or 503.
pub(super) async fn by_prefix(State(service): State<Arc<Service>>, request: Request) -> Response {
    Form::Prefix.answer(&service, request).await
}

/// The description of a request in a call.
#[derive(Clone, Copy)]
enum Form {
    /// Header fields.
    Fields,
    /// The path and the query of the call, after a prefix.
    Prefix,
}

impl Form {
    async fn answer(self, service: &Service, request: Request) -> Response {
        let (mut head, _unread) = request.into_parts();
        if let Some(peer) = head.extensions.get().map(Client::peer) {
            head.extensions.insert(Peer(SocketAddr::new(peer, 0)));
        }
        let decided = self.decide(service, &head).await;
        let mut response = decided.unwrap_or_else(ApiError::into_response);
        if response.status() == StatusCode::UNAUTHORIZED {
            // A proxy may pass it on, and its client must not send a token of its own.
            let scheme = HeaderValue::from_static("Sluicegate-Token");
            response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        }
        response
    }

    async fn decide(self, service: &Service, head: &Parts) -> Result<Response, ApiError> {
        let caller = guard::admit_proxy(&service.access, head)?;
        let (terms, path) =
            self.terms(head).map_err(|error| ApiError::malformed(error.to_string()))?;
        let wanted: Vec<_> = terms.limits().map(|name| Wanted { name, given: None }).collect();
        let gate = service.gates.find_all(&caller, Call::Take, &wanted)?;
        warn_of_untrusted(service, head);
        let turn = service.turns.next().await?;
        let asking = authorize(&gate, &self.request(service, head, path)?, terms.cost());
        let verdict = caller.deciding(asking).await;
        drop(turn);
        match verdict {
            Ok(authorized) => {
                let fields = authorized.waited().await;
                let mut response = Response::new(Body::empty());
                response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
                fields.write(response.headers_mut());
                Ok(response)
            }
            Err(refusal) => refused(&terms, &refusal),
        }
    }

    /// Returns the settings of a call, and the path of the request that follows them.
    fn terms(self, head: &Parts) -> Result<(AuthTerms, &str), AuthTermsError> {
        let path = head.uri.path();
        match self {
            Self::Fields => {
                let terms = AuthTerms::of_query(after(path, BY_FIELDS), head.uri.query())?;
                Ok((terms, ""))
            }
            Self::Prefix => AuthTerms::of_prefix(after(path, BY_PREFIX)),
        }
    }

    /// Returns the request that a call is about. `path` follows the settings of the call.
    fn request<'h>(
        self,
        service: &Service,
        head: &'h Parts,
        path: &'h str,
    ) -> Result<ForwardedRequest<'h>, ApiError> {
        let query = head.uri.query();
        if let Self::Prefix = self {
            return Ok(ForwardedRequest::after_prefix(head, path, query));
        }
        let http = service.registry.http();
        let request =
            ForwardedRequest::described(head, http.forwarded_request, &http.client_address);
        if query.is_some_and(|own| !own.is_empty() && request.query() == query) {
            return Err(ApiError::malformed(
                "the call has the query of the forwarded request: make the proxy replace the query. In Caddy, end the \
                 URI with `?`",
            ));
        }
        Ok(request)
    }
}

/// Returns the part of a path that a route leaves open.
fn after<'p>(path: &'p str, route: &str) -> &'p str {
    let fixed = route.find('{').unwrap_or(route.len());
    path.get(fixed..).unwrap_or_default()
}

fn refused(terms: &AuthTerms, refusal: &Refusal) -> Result<Response, ApiError> {
    let denied = refusal.denied();
    if let (DeniedReason::Misconfigured, Some(error)) = (denied.reason(), denied.error()) {
        return Err(error.into());
    }
    let status = refusal.status(terms).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    let mut response = refusal.response_with(status);
    if denied.reason() == DeniedReason::Blocked {
        response.headers_mut().insert(OUTCOME, HeaderValue::from_static("blocked"));
    }
    Ok(response.map(Body::from))
}

/// Warns once of a proxy that isn't trusted, because all of its clients may share a key.
fn warn_of_untrusted(service: &Service, head: &Parts) {
    static WARNED: Once = Once::new();
    if WARNED.is_completed()
        || !head.headers.keys().any(|name| name.as_str().starts_with("x-forwarded-"))
    {
        return;
    }
    let Some(peer) = head.peer() else { return };
    if !service.registry.http().client_address.trusts(peer) {
        WARNED.call_once(|| {
            tracing::warn!(
                "a call of /v1/auth or /v1/authz from {peer} has X-Forwarded-* fields, which are ignored: if it is a \
                 proxy, add its address to `http.trusted_proxies`"
            );
        });
    }
}
