//! Envoy's external authorization (`Check`), decided by the limits that a route names.
//!
//! Each limit makes its key from the attributes of the request, as middleware makes it from an HTTP request.

mod attributes;
mod route;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use http::{HeaderMap, StatusCode};
use sluicegate::Registry;
use sluicegate::error::DeniedReason;
use sluicegate::middleware::{Middleware, Refusal};
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
use route::Route;

/// Answers `Check` by the limits of a registry.
pub(super) struct ExtAuthz {
    registry: Registry,
    /// Middleware by the settings of a route that need one of their own.
    of_route: Mutex<HashMap<Route, Middleware>>,
}

impl ExtAuthz {
    /// Maximum number of kept middleware. Beyond it, all are made again.
    const MOST: usize = 256;

    pub(super) fn new(registry: Registry) -> Self {
        Self { registry, of_route: Mutex::default() }
    }

    /// Returns the middleware that asks the limits of a route.
    fn middleware(&self, route: &Route) -> Result<Middleware, Status> {
        let mut of_route = self.of_route.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = of_route.get(route) {
            return Ok(made.clone());
        }
        let made = route.middleware(&self.registry)?;
        if of_route.len() >= Self::MOST {
            of_route.clear();
        }
        of_route.insert(route.clone(), made.clone());
        Ok(made)
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
        let (route, statuses) = Route::read(&attributes.context_extensions)?;
        let rights = Rights::of(&extensions);
        route.limits().try_for_each(|limit| rights.ask(limit))?;
        let middleware = self.middleware(&route)?;
        let attributes = Attributes::new(&attributes);
        let verdict = middleware.decide(&attributes);
        let admission = within_call(&metadata, verdict.admission(&attributes)).await?;
        match admission {
            Ok(admission) => {
                let mut response = http::Response::new(());
                let fields = admission.settle(&response).await;
                fields.write(response.headers_mut());
                Ok(Response::new(allowed(response.headers())))
            }
            Err(refusal) => {
                let is_failure = refusal.denied().reason() == DeniedReason::StoreFailed;
                let told = if is_failure { statuses.failed } else { statuses.denied };
                if is_failure && told.is_none() {
                    // Envoy's `failure_mode_allow` decides.
                    return Err(Status::unavailable(refusal.denied().to_string()));
                }
                Ok(Response::new(refused(&refusal, told, &attributes)))
            }
        }
    }
}

/// Returns the answer for a request that passes.
fn allowed(fields: &HeaderMap) -> CheckResponse {
    let ok = OkHttpResponse { response_headers_to_add: written(fields) };
    answer(Code::Ok, "", HttpResponse::OkResponse(ok))
}

/// Returns the answer for a refused request. A status of 2xx that the route tells lets it pass.
fn refused(
    refusal: &Refusal,
    told: Option<StatusCode>,
    attributes: &Attributes<'_>,
) -> CheckResponse {
    let denied = refusal.denied();
    let (parts, body) = refusal.response(attributes).into_parts();
    let status = told.unwrap_or_else(|| match denied.reason() {
        DeniedReason::NoKey => StatusCode::FORBIDDEN,
        _ => denied.problem().status(),
    });
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
