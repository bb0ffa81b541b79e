//! Overrides of limits at run time, and their audit.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use serde::Deserialize;
use serde_json::value::RawValue;
use sluicegate::admin::{Cursor, NewOverride, OverrideTo, Overrides, OverridesError};
use sluicegate::error::RequestErrorKind;
use sluicegate::policy::LimitName;
use sluicegate_client::json::AuditList;

use super::asked::shown;
use super::body::{self, some};
use super::error::{ApiError, json};
use super::given::Given;
use super::guard;
use super::override_json::{audit_entry, entry, page_of};
use super::percent::bytes_of;
use super::query::Query;
use super::service::Service;
use crate::access::{Call, Caller};

/// The subject of a call: a limit, and one of its keys unless it is about the whole limit.
struct Subject {
    limit: String,
    key: Option<Vec<u8>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    #[serde(default, deserialize_with = "some")]
    policies: Option<Given>,
    #[serde(default, deserialize_with = "some")]
    times: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "some")]
    allow: Option<bool>,
    #[serde(default, deserialize_with = "some")]
    block: Option<bool>,
    #[serde(rename = "for", default, deserialize_with = "some")]
    lasts: Option<String>,
    #[serde(default, deserialize_with = "some")]
    note: Option<String>,
}

const EXAMPLE: &str = r#"{"times":10,"for":"2h","note":"launch day"}"#;

/// `PUT /v1/limits/{limit}/overrides/{key}` and `…/override`: 200 with the override that is in force.
pub(super) async fn put(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let (head, body) = request.into_parts();
    let (caller, subject) = admit(&service, &head, Call::Administer)?;
    let new = read(body, &caller).await?;
    let _turn = service.turns.next().await?;
    let overrides = service.registry.overrides();
    let set = overrides.set(&subject.limit, subject.key.as_deref(), &new).await;
    let set = set.map_err(|error| match error {
        // The message names limits of others.
        OverridesError::Invalid(error)
            if error.kind() == RequestErrorKind::UnknownLimit && !caller.covers_all() =>
        {
            unknown(&subject.limit)
        }
        error => error.into(),
    })?;
    Ok(json(StatusCode::OK, &entry(&subject.limit, &set, is_durable(&overrides))))
}

/// `GET` on the same paths: 200 with the override; 404 if there is none.
pub(super) async fn get(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let (head, _) = request.into_parts();
    let (_, subject) = admit(&service, &head, Call::Inspect)?;
    let overrides = service.registry.overrides();
    let found = overrides.get(&subject.limit, subject.key.as_deref()).await?;
    let found = found.ok_or_else(|| none(&service, &subject))?;
    Ok(json(StatusCode::OK, &entry(&subject.limit, &found, is_durable(&overrides))))
}

/// `DELETE` on the same paths: 204; 404 if there is none.
pub(super) async fn delete(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<StatusCode, ApiError> {
    let (head, _) = request.into_parts();
    let (caller, subject) = admit(&service, &head, Call::Administer)?;
    let _turn = service.turns.next().await?;
    let (overrides, by) = (service.registry.overrides(), caller.name());
    let cleared = overrides.clear(&subject.limit, subject.key.as_deref(), by.as_deref());
    if cleared.await? { Ok(StatusCode::NO_CONTENT) } else { Err(none(&service, &subject)) }
}

/// `GET /v1/limits/{limit}/overrides`: 200 with a page of the overrides of keys.
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let (head, _) = request.into_parts();
    let (_, Subject { limit, .. }) = admit(&service, &head, Call::Inspect)?;
    let query = Query::read(&head.uri, &["after", "count"], "/v1/limits/api/overrides?count=100")?;
    let after = query.get("after").map(decoded).transpose()?;
    let count = query.page(None)?.count();
    let overrides = service.registry.overrides();
    let mut found = overrides.list(&limit, after.as_deref(), count + 1).await?;
    if found.is_empty() && service.registry.limit(&limit).is_none() {
        return Err(unknown(&limit));
    }
    let whole = overrides.known_of(&limit, None);
    let page = page_of(&limit, whole.as_ref(), &mut found, count, is_durable(&overrides));
    Ok(json(StatusCode::OK, &page))
}

/// `GET /v1/audit`: 200 with a page of the changes of overrides, the newest first. A client gets those of limits that it
/// may use.
pub(super) async fn audit(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let (head, _) = request.into_parts();
    let caller = guard::admit(&service.access, &head, Call::Inspect)?;
    let query = Query::read(&head.uri, &["after", "count"], "/v1/audit?count=100")?;
    let count = query.page(None)?.count();
    let after = query.after()?;
    let changes =
        service.registry.overrides().audit(after.as_ref().map(Cursor::as_str), count).await?;
    let next =
        changes.last().filter(|_| changes.len() == count).map(|last| last.place.as_str().into());
    let shown = changes.iter().filter(|change| caller.covers(change.limit.as_str()));
    Ok(json(StatusCode::OK, &AuditList { audit: shown.map(audit_entry).collect(), next }))
}

/// Returns the caller, and what the path is about.
fn admit(service: &Service, head: &Parts, call: Call) -> Result<(Caller, Subject), ApiError> {
    let caller = guard::admit(&service.access, head, call)?;
    let subject = Subject::of(&head.uri)?;
    caller.may(call, &subject.limit)?;
    Ok((caller, subject))
}

impl Subject {
    /// Reads the path: `/v1/limits/LIMIT/…`, with a key after `overrides/`.
    fn of(uri: &Uri) -> Result<Self, ApiError> {
        let mut segments = uri.path().splitn(6, '/').skip(3);
        let limit = decoded(segments.next().unwrap_or_default())?;
        let limit = String::from_utf8(limit);
        let limit = limit.map_err(|_| ApiError::malformed("the name of the limit isn't UTF-8"))?;
        // The rights of a client are those for a name, so nothing else may be read out of it.
        let limit: LimitName = limit.parse().map_err(|_| unknown(&limit))?;
        let limit = limit.as_str().to_owned();
        let key = segments.nth(1).map(decoded).transpose()?;
        Ok(Self { limit, key })
    }
}

async fn read(body: Body, caller: &Caller) -> Result<NewOverride, ApiError> {
    let Fields { policies, times, allow, block, lasts, note } = body::read(body, EXAMPLE).await?;
    let to = match (policies, times, allow, block) {
        (Some(policies), None, None, None) => OverrideTo::Policies(policies.policies()?),
        (None, Some(times), None, None) => {
            let times = times.get().parse();
            OverrideTo::Times(
                times.map_err(|error| ApiError::malformed(format!("`times`: {error}")))?,
            )
        }
        (None, None, Some(true), None) => OverrideTo::Allow,
        (None, None, None, Some(true)) => OverrideTo::Block,
        _ => {
            return Err(ApiError::malformed(format!(
                "an override has exactly one of `policies`, `times`, `\"allow\":true` and `\"block\":true`: send {EXAMPLE}"
            )));
        }
    };
    let mut new = NewOverride::new(to);
    if let Some(lasts) = lasts {
        new = new.lasts(body::span_of("for", &lasts)?.into());
    }
    if let Some(note) = note {
        new = new.note(note);
    }
    Ok(match caller.name() {
        Some(name) => new.by(&*name),
        None => new,
    })
}

fn decoded(encoded: &str) -> Result<Vec<u8>, ApiError> {
    bytes_of(encoded).map_err(|why| ApiError::malformed(format!("the URL: {why}")))
}

fn is_durable(overrides: &Overrides) -> bool {
    overrides.outlast_the_process() == Some(true)
}

fn none(service: &Service, subject: &Subject) -> ApiError {
    if service.registry.limit(&subject.limit).is_none() {
        return unknown(&subject.limit);
    }
    let of = if subject.key.is_some() { "the key" } else { "the limit" };
    let message = format!("{of} has no override: it ended, was cleared, or was never set");
    ApiError::new(StatusCode::NOT_FOUND, "no_override", message)
}

fn unknown(limit: &str) -> ApiError {
    let message = format!("there is no limit called `{}`: GET /v1/limits lists them", shown(limit));
    ApiError::new(StatusCode::NOT_FOUND, ApiError::UNKNOWN_LIMIT, message)
}

impl From<OverridesError> for ApiError {
    fn from(error: OverridesError) -> Self {
        match error {
            OverridesError::Invalid(error) => Self::from(sluicegate::Error::from(error)),
            OverridesError::Store(error) => Self::from(sluicegate::Error::from(error)),
            error => Self::malformed(error.to_string()),
        }
    }
}
