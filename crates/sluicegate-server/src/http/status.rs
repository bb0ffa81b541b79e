//! The status of the service.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use sluicegate::OnStoreFailure;
use sluicegate::admin::Cursor;
use sluicegate::config::{LimitConfig, Origins, Switch};
use sluicegate::http::OnMissingKey;
use sluicegate::metrics::MetricsFormat;
use sluicegate::policy::Enforcement;
use sluicegate::store::Span;
use sluicegate::{Config, Registry};

use super::error::{ApiError, json};
use super::guard;
use super::query::Query;
use super::readiness::StoreState;
use super::service::Service;
use crate::access::Call;

#[derive(Serialize)]
struct Limits<'a> {
    limits: Vec<LimitEntry<'a>>,
    config: ConfigEntry,
    /// Start of the next page; `null` on the last one.
    next: Option<String>,
}

/// The configuration in force.
#[derive(Serialize)]
struct ConfigEntry {
    /// Increases with every change.
    generation: u64,
    /// Whether the current content of the config file was rejected; the log states the reason.
    stale: bool,
}

#[derive(Serialize)]
struct LimitEntry<'a> {
    name: &'a str,
    /// Whether the limit is in force.
    enabled: bool,
    key: String,
    /// Treatment of requests without the key.
    missing_key: &'static str,
    on_store_failure: &'static str,
    deadline_ms: u64,
    deadline_us: u64,
    policies: Vec<PolicyEntry<'a>>,
    /// `off`, `shadow`, `partly_shadow` or `enforced`.
    rollout: &'static str,
    /// The file that has the limit; `null` if none does.
    file: Option<String>,
    line: Option<u64>,
    column: Option<u64>,
    /// Number of entries of the configuration's lists.
    allow: usize,
    block: usize,
    /// Number of keys and patterns with other numbers in the configuration, as far as they count.
    overrides: usize,
    /// Number of keys with an override at run time.
    run_time_overrides: usize,
    /// Whether an override at run time is of the whole limit.
    is_overridden: bool,
}

#[derive(Serialize)]
struct PolicyEntry<'a> {
    name: &'a str,
    spec: String,
    shadow: bool,
}

#[derive(Serialize)]
struct Status {
    status: &'static str,
}

#[derive(Serialize)]
struct Ready {
    status: &'static str,
    #[serde(flatten)]
    store: StoreState,
}

/// `GET /v1/limits`: a page of the limits that the caller may use, in the order of the configuration. With `limit`, only
/// that one.
///
/// A cursor is the number of limits before it. So a list that spans a change of the configuration
/// may miss some limits; its pages then have different generations.
pub(super) async fn limits(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let (head, _) = request.into_parts();
    let caller = guard::admit(&service.access, &head, Call::ListLimits)?;
    let query = Query::read(&head.uri, &["after", "count", "limit"], "/v1/limits?count=100")?;
    let wanted = query.get("limit");
    let before = query.after()?.as_ref().map_or(Ok(0), place)?;
    let count = query.page(None)?.count();
    let registry = &service.registry;
    let config = ConfigEntry { generation: registry.generation(), stale: service.is_stale() };
    let (configs, origins) = (registry.limits(), registry.origins());
    let all = configs.iter().enumerate().skip(before);
    let mut own = all.filter(|(_, config)| {
        let name = config.limit.name().as_str();
        caller.covers(name) && wanted.is_none_or(|wanted| wanted == name)
    });
    let page = own.by_ref().take(count);
    let limits = page.map(|(_, config)| limit_entry(registry, &origins, config)).collect();
    let next = own.next().map(|(index, _)| index.to_string());
    Ok(json(StatusCode::OK, &Limits { limits, config, next }))
}

/// Returns the number of limits before a page.
fn place(cursor: &Cursor) -> Result<usize, ApiError> {
    let text = cursor.as_str();
    let place = text.parse().ok().filter(|place: &usize| place.to_string() == text);
    place.ok_or_else(|| {
        ApiError::malformed(format!(
            "`after` is `{text}`, which isn't a cursor of this list: send `next` of the previous page, or omit it"
        ))
    })
}

/// `GET /healthz`: 200 if the process is up.
pub(super) async fn healthz() -> Response {
    json(StatusCode::OK, &Status { status: "up" })
}

/// `GET /readyz`: 200 once the store has answered, until the service is about to stop.
///
/// If the store fails later, the body reports it and the status stays 200. Otherwise an
/// orchestrator would remove every instance, although `on_store_failure` still decides.
pub(super) async fn readyz(State(service): State<Arc<Service>>) -> Result<Response, ApiError> {
    if service.stages.is_draining() {
        return Err(ApiError::draining());
    }
    match service.readiness.state() {
        Ok(store) => Ok(json(StatusCode::OK, &Ready { status: "ready", store })),
        Err(message) => {
            Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", message))
        }
    }
}

/// `GET /metrics`, in the format that the client prefers.
pub(super) async fn metrics(State(service): State<Arc<Service>>, headers: HeaderMap) -> Response {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let format = MetricsFormat::preferred(&accepted.collect::<Vec<_>>().join(","));
    match service.metrics.render(format) {
        Ok(text) => {
            let fields = [(CONTENT_TYPE, format.content_type()), (VARY, "Accept")];
            (fields, text).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn limit_entry<'a>(
    registry: &Registry,
    origins: &Origins,
    config: &'a LimitConfig,
) -> LimitEntry<'a> {
    let policies: Vec<PolicyEntry<'_>> = config
        .limit
        .members()
        .iter()
        .map(|member| PolicyEntry {
            name: member.name().as_str(),
            spec: member.policy().to_string(),
            shadow: member.policy().enforcement() == Enforcement::Shadow,
        })
        .collect();
    let name = config.limit.name().as_str();
    let overrides = registry.overrides();
    let enabled = is_on(registry, name);
    let place = origins.limit(name).map(|origins| origins.name());
    let deadline = Span::from(config.deadline.unwrap_or(Config::DEADLINE));
    LimitEntry {
        name,
        enabled,
        key: config.key.to_string(),
        missing_key: match config.missing_key {
            OnMissingKey::Refuse => "refuse",
            OnMissingKey::Skip => "skip",
            _ => "shared",
        },
        on_store_failure: match config.on_store_failure {
            OnStoreFailure::Allow => "allow",
            OnStoreFailure::Deny => "deny",
            OnStoreFailure::Local => "local",
            _ => "error",
        },
        deadline_ms: deadline.as_millis_ceil(),
        deadline_us: deadline.as_micros(),
        rollout: rollout(enabled, &policies),
        policies,
        line: place.as_ref().map(|place| place.line),
        column: place.as_ref().map(|place| place.column),
        file: place.map(|place| place.file.to_string()),
        allow: config.allow.len(),
        block: config.block.len(),
        overrides: config.overrides.len(),
        run_time_overrides: overrides.count(name),
        is_overridden: overrides.is_of_whole(name),
    }
}

/// Returns `true` if a limit is in force.
pub(super) fn is_on(registry: &Registry, limit: &str) -> bool {
    registry.switched() == Switch::On && registry.limit_switched(limit) == Some(Switch::On)
}

/// Returns how far a limit is rolled out.
fn rollout(enabled: bool, policies: &[PolicyEntry<'_>]) -> &'static str {
    let shadows = policies.iter().filter(|policy| policy.shadow).count();
    match shadows {
        _ if !enabled => "off",
        0 => "enforced",
        shadows if shadows == policies.len() => "shadow",
        _ => "partly_shadow",
    }
}
