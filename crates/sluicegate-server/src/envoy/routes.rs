//! The routes of all listeners but gRPC.

use std::sync::Arc;

use axum::Router;
use axum::body::{Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use sluicegate_envoy::service::RateLimits;

use super::counters::Counters;
use super::loads::Loads;
use crate::http::Service;

/// The state that the routes share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) limits: RateLimits,
    pub(super) loads: Arc<Loads>,
    pub(super) service: Arc<Service>,
    /// The counters to add to the metrics.
    pub(super) counters: Option<Arc<Counters>>,
    /// Whether the service is unhealthy without rules.
    pub(super) needs_rules: bool,
    /// Whether requests are refused before the first rules.
    pub(super) waits_for_rules: bool,
}

impl Shared {
    /// Returns whether health checks succeed.
    pub(super) fn is_healthy(&self) -> bool {
        !self.service.stages.is_draining() && (self.has_rules() || !self.needs_rules)
    }

    fn has_rules(&self) -> bool {
        self.loads.counts().0 > 0
    }
}

/// Returns the routes for health checks and requests in JSON.
pub(super) fn http(shared: Shared) -> Router {
    Router::new()
        .route("/healthcheck", get(healthcheck))
        .route("/json", any(json))
        .with_state(shared)
}

/// Returns the routes that show the rules.
pub(super) fn debug(shared: Shared) -> Router {
    Router::new()
        .route("/rlconfig", get(rlconfig))
        .route("/stats", get(stats))
        .fallback(known)
        .with_state(shared)
}

/// Returns the routes with the metrics.
pub(super) fn metrics(shared: Shared) -> Router {
    let metrics = crate::http::router::metrics(Arc::clone(&shared.service));
    match &shared.counters {
        Some(_) => metrics.layer(axum::middleware::from_fn_with_state(shared, with_counters)),
        None => metrics,
    }
}

async fn healthcheck(State(shared): State<Shared>) -> (StatusCode, &'static str) {
    if shared.is_healthy() {
        (StatusCode::OK, "OK")
    } else {
        (StatusCode::INTERNAL_SERVER_ERROR, "")
    }
}

async fn json(State(shared): State<Shared>, body: Bytes) -> Response {
    if shared.waits_for_rules && !shared.has_rules() {
        let why = "the control plane has sent no rules that can be used yet";
        return (StatusCode::SERVICE_UNAVAILABLE, why).into_response();
    }
    let _turn = match shared.service.turns.next().await {
        Ok(turn) => turn,
        Err(error) => return error.into_response(),
    };
    let answer = shared.limits.answer_json(&body).await;
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let kind = if answer.status == 400 { "text/plain" } else { "application/json" };
    (status, [(CONTENT_TYPE, kind)], answer.body).into_response()
}

async fn rlconfig(State(shared): State<Shared>) -> String {
    shared.limits.lines().iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

async fn stats(State(shared): State<Shared>) -> String {
    let counters = shared.counters.clone().unwrap_or_default();
    counters.page(shared.loads.counts())
}

async fn known() -> (StatusCode, &'static str) {
    (StatusCode::NOT_FOUND, "/rlconfig: the rules in force\n/stats: the counters\n")
}

/// Adds the incumbent's counters to a page of metrics.
async fn with_counters(
    State(shared): State<Shared>,
    request: Request,
    next: axum::middleware::Next,
) -> Response {
    /// The last line of a page in the format OpenMetrics.
    const END: &str = "# EOF\n";
    let response = next.run(request).await;
    let Some(counters) = shared.counters.filter(|_| response.status() == StatusCode::OK) else {
        return response;
    };
    let (mut parts, body) = response.into_parts();
    let Ok(page) = to_bytes(body, usize::MAX).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let page = String::from_utf8_lossy(&page);
    let added = counters.page(shared.loads.counts());
    let page = match page.strip_suffix(END) {
        Some(page) => format!("{page}{added}{END}"),
        None => format!("{page}{added}"),
    };
    parts.headers.remove(axum::http::header::CONTENT_LENGTH);
    Response::from_parts(parts, page.into())
}
