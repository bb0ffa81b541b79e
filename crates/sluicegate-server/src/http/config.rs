//! The configuration in force, and its latest reloads.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use sluicegate::Config;
use sluicegate::config::Reload;

use super::error::{ApiError, json};
use super::guard;
use super::observing::millis;
use super::service::Service;
use crate::access::Call;
use crate::fleet::config_digest;

#[derive(Serialize)]
struct ConfigStatus {
    file: Option<String>,
    /// The content of the file that is in force, without passwords.
    text: Option<String>,
    generation: u64,
    digest: Option<String>,
    stale: bool,
    age_ms: u64,
    /// The newest one first; the last one is the start, unless there were too many.
    reloads: Vec<ReloadEntry>,
}

#[derive(Serialize)]
struct ReloadEntry {
    age_ms: u64,
    outcome: &'static str,
    /// Why the content was refused.
    message: Option<String>,
    changes: Vec<String>,
}

/// `GET /v1/config`: the config file in force, and the latest reloads. Only for callers that see all limits.
pub(super) async fn config(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let (head, _) = request.into_parts();
    let caller = guard::admit(&service.access, &head, Call::Inspect)?;
    if !caller.covers_all() {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "forbidden",
            "the file names limits that this client isn't permitted to use: ask as a client without `limits`",
        ));
    }
    let watch = service.watch.as_ref();
    let reloads = watch.map(|watch| watch.reloads()).unwrap_or_default();
    let uptime = millis(service.overview.started.elapsed());
    let applied = reloads.iter().find(|reload| reload.outcome.is_ok());
    let age_ms = applied.map_or(uptime, |reload| millis(reload.age()));
    let text = watch.and_then(|watch| watch.text());
    let mut entries: Vec<ReloadEntry> = reloads.iter().map(entry).collect();
    if entries.len() < Reload::MOST_KEPT {
        entries.push(ReloadEntry {
            age_ms: uptime,
            outcome: "applied",
            message: None,
            changes: vec!["The service started.".to_owned()],
        });
    }
    let status = ConfigStatus {
        file: watch.map(|watch| watch.path().display().to_string()),
        text: text.map(|text| Config::without_passwords(&String::from_utf8_lossy(&text))),
        generation: service.registry.generation(),
        digest: config_digest(&service.registry),
        stale: service.is_stale(),
        age_ms,
        reloads: entries,
    };
    Ok(json(StatusCode::OK, &status))
}

fn entry(reload: &Reload) -> ReloadEntry {
    let (outcome, message, changes) = match &reload.outcome {
        Ok(changes) => ("applied", None, changes.details.clone()),
        Err(error) => ("refused", Some(Config::without_passwords(&error.to_string())), Vec::new()),
    };
    ReloadEntry { age_ms: millis(reload.age()), outcome, message, changes }
}
