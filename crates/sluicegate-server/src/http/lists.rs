//! Lists holders and banned keys, and ends holds manually; all for administrators.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use serde::Deserialize;
use sluicegate::Gate;
use sluicegate::decision::{HoldFound, HoldId};

use super::admin::Admin;
use super::body;
use super::error::{ApiError, json};
use super::gates::unknown;
use super::query::Query;
use super::service::Service;
use sluicegate_client::json::Answer;
use sluicegate_client::json::{BanList, HolderList};

/// `GET /v1/holders`: 200 with a page of a key's holders.
pub(super) async fn holders(
    _: Admin,
    State(service): State<Arc<Service>>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let example = "/v1/holders?limit=jobs&key=acme";
    let query = Query::read(&uri, &["limit", "key", "after", "count"], example)?;
    let (limit, key, after) = (query.need("limit")?, query.need("key")?, query.after()?);
    let page = query.page(after.as_ref())?;
    let gate = find(&service, limit)?;
    let _turn = service.turns.next().await?;
    let holders = gate.holders(key, page).await?;
    Ok(json(StatusCode::OK, &HolderList::new(limit, key, &holders)))
}

/// `GET /v1/bans`: 200 with a page of the keys that a limit bans.
pub(super) async fn bans(
    _: Admin,
    State(service): State<Arc<Service>>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let query = Query::read(&uri, &["limit", "after", "count"], "/v1/bans?limit=login")?;
    let (limit, after) = (query.need("limit")?, query.after()?);
    let page = query.page(after.as_ref())?;
    let gate = find(&service, limit)?;
    let _turn = service.turns.next().await?;
    let banned = gate.bans(page).await?;
    Ok(json(StatusCode::OK, &BanList::new(limit, &banned)))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RevokeFields {
    limit: String,
    key: String,
    hold: String,
}

/// `POST /v1/revoke`: 200 with a decision; 404 if there is no hold with this id.
pub(super) async fn revoke(
    _: Admin,
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let example = r#"{"limit":"jobs","key":"acme","hold":"00112233445566778899aabbccddeeff"}"#;
    let RevokeFields { limit, key, hold } = body::read(request.into_body(), example).await?;
    let hold: HoldId =
        hold.parse().map_err(|error| ApiError::malformed(format!("`hold`: {error}")))?;
    let gate = find(&service, &limit)?;
    let _turn = service.turns.next().await?;
    let decision = gate.revoke(&key, hold).await?;
    if decision.hold_found() == Some(HoldFound::Unknown) {
        let message =
            "the key has no hold with this id: it expired, was released, or the key was reset";
        return Err(ApiError::new(StatusCode::NOT_FOUND, "hold_expired", message));
    }
    Ok(json(StatusCode::OK, &Answer::new(&limit, &decision)))
}

fn find(service: &Service, limit: &str) -> Result<Gate, ApiError> {
    service.registry.find(limit).ok_or_else(|| unknown(limit))
}
