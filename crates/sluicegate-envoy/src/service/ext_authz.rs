//! Envoy's external authorization (`Check`), decided by the limits that a route names.
//!
//! Each limit makes its key from the attributes of the request, as middleware makes it from an HTTP request.

mod attributes;

use http::{HeaderMap, StatusCode};
use sluicegate::error::DeniedReason;
use sluicegate::http::AuthTerms;
use sluicegate::middleware::{Refusal, authorize};
use sluicegate::{Gate, Registry};
use sluicegate_core::printable;
use tonic::{Code, Request, Response, Status};

use super::call_timeout::within_call;
use super::rights::Rights;
use crate::protos::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use crate::protos::envoy::config::core::v3::{HeaderValue, HeaderValueOption};
use crate::protos::envoy::service::auth::v3::authorization_server::Authorization;
use crate::protos::envoy::service::auth::v3::check_response::HttpResponse;
use crate::protos::envoy::service::auth::v3::{
    CheckRequest, CheckResponse, DeniedHttpResponse, OkHttpResponse,
};
use crate::protos::envoy::r#type::v3::HttpStatus;
use crate::protos::google::rpc;

use attributes::Attributes;

/// Answers `Check` by the limits of a registry.
pub(super) struct ExtAuthz {
    registry: Registry,
}

impl ExtAuthz {
    pub(super) const fn new(registry: Registry) -> Self {
        Self { registry }
    }

    /// Returns the gate of a route's limits.
    fn gate(&self, terms: &AuthTerms) -> Result<Gate, Status> {
        for name in terms.limits() {
            let limit = self.registry.limit(name).ok_or_else(|| {
                let shown = printable(name);
                Status::not_found(format!(
                    "there is no limit called `{shown}`, which `limits` in the context_extensions names"
                ))
            })?;
            if limit.limit.has_permits() {
                return Err(Status::failed_precondition(format!(
                    "limit `{name}` counts requests in flight, and a check has no end: name another limit"
                )));
            }
        }
        let joined = self.registry.together(terms.limits());
        joined.map_err(|error| Status::invalid_argument(error.to_string()))
    }
}

#[tonic::async_trait]
impl Authorization for ExtAuthz {
    async fn check(
        &self,
        request: Request<CheckRequest>,
    ) -> Result<Response<CheckResponse>, Status> {
        let (metadata, extensions, message) = request.into_parts();
        let attributes = message.attributes.unwrap_or_default();
        let settings = attributes.context_extensions.iter();
        let terms = AuthTerms::of_settings(settings.map(|(name, value)| (&**name, &**value)));
        let terms = terms.map_err(|error| {
            Status::invalid_argument(format!("{error} in the context_extensions of the route"))
        })?;
        let rights = Rights::of(&extensions);
        terms.limits().try_for_each(|limit| rights.ask(limit))?;
        let gate = self.gate(&terms)?;
        let attributes = Attributes::new(&attributes);
        let deciding = authorize(&gate, &attributes, terms.cost());
        let verdict = within_call(&metadata, async move {
            let authorized = deciding.await?;
            Ok::<_, Refusal>(authorized.waited().await)
        });
        match verdict.await? {
            Ok(fields) => {
                let mut headers = HeaderMap::new();
                fields.write(&mut headers);
                Ok(Response::new(allowed(&headers)))
            }
            Err(refusal) => match refusal.status(&terms) {
                Some(status) => Ok(Response::new(refused(&refusal, status, &attributes))),
                // Envoy's `failure_mode_allow` decides.
                None => Err(Status::unavailable(refusal.denied().to_string())),
            },
        }
    }
}

/// Returns the answer for a request that passes.
fn allowed(fields: &HeaderMap) -> CheckResponse {
    let ok = OkHttpResponse { response_headers_to_add: written(fields) };
    answer(Code::Ok, "", HttpResponse::OkResponse(ok))
}

/// Returns the answer for a refused request. A status of 2xx lets it pass.
fn refused(refusal: &Refusal, status: StatusCode, attributes: &Attributes<'_>) -> CheckResponse {
    let denied = refusal.denied();
    let (parts, body) = refusal.response(attributes).into_parts();
    if status.is_success() {
        return allowed(&parts.headers);
    }
    let code = match denied.reason() {
        DeniedReason::StoreFailed => Code::Unavailable,
        DeniedReason::Blocked | DeniedReason::NoKey => Code::PermissionDenied,
        _ => Code::ResourceExhausted,
    };
    let http = DeniedHttpResponse {
        status: Some(HttpStatus { code: status.as_u16().into() }),
        headers: written(&parts.headers),
        body,
    };
    answer(code, &denied.to_string(), HttpResponse::DeniedResponse(http))
}

fn answer(code: Code, message: &str, http: HttpResponse) -> CheckResponse {
    let status = rpc::Status { code: code.into(), message: message.to_owned() };
    CheckResponse { status: Some(status), http_response: Some(http) }
}

/// Returns the fields as Envoy writes them to a response, replacing those of the upstream. Envoy ignores `raw_value` here,
/// and would write empty fields.
fn written(fields: &HeaderMap) -> Vec<HeaderValueOption> {
    let field = |(name, value): (&http::HeaderName, &http::HeaderValue)| HeaderValueOption {
        header: Some(HeaderValue {
            key: name.as_str().to_owned(),
            value: String::from_utf8_lossy(value.as_bytes()).into_owned(),
            raw_value: Vec::new(),
        }),
        append_action: HeaderAppendAction::OverwriteIfExistsOrAdd.into(),
    };
    fields.iter().map(field).collect()
}
