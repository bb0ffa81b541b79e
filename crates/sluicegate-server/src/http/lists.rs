//! Lists holders, banned keys and keys, and ends holds manually.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use sluicegate::decision::{HoldFound, HoldId};

use super::body::{self, some};
use super::error::{ApiError, json};
use super::given::{Given, Wanted};
use super::guard;
use super::query::Query;
use super::service::Service;
use crate::access::Call;
use sluicegate_client::json::Answer;
use sluicegate_client::json::{BanList, HolderList, KeyList};

/// `GET /v1/holders`: 200 with a page of a key's holders. Ids are only for administrators, because an
/// id is as good as a token.
pub(super) async fn holders(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let (head, _) = request.into_parts();
    let caller = guard::admit(&service.access, &head, Call::Inspect)?;
    let shows_ids = caller.can(Call::Administer);
    let example = "/v1/holders?limit=jobs&key=acme";
    let query = Query::read(&head.uri, &["limit", "policies", "key", "after", "count"], example)?;
    let (limit, key, after) = (query.need("limit")?, query.need("key")?, query.after()?);
    let after = match after {
        Some(hidden) if !shows_ids => {
            let foreign = || {
                ApiError::malformed(
                    "`after` isn't a cursor of this list: send `next` of the last page",
                )
            };
            Some(service.seal.reveal(&hidden).ok_or_else(foreign)?)
        }
        after => after,
    };
    let page = query.page(after.as_ref())?;
    let given = query.get("policies").map(Given::of_list);
    let wanted = Wanted { name: limit, given: given.as_ref() };
    let gate = service.gates.find_all(&caller, Call::Inspect, &[wanted])?;
    let _turn = service.turns.next().await?;
    let holders = gate.holders(key, page).await?;
    let mut list = HolderList::new(limit, key, &holders);
    if !shows_ids {
        list.holders.iter_mut().for_each(|holder| holder.hold = None);
        // A cursor has the id of the last holder.
        list.next = holders.next().and_then(|next| Some(service.seal.hide(next)?.into()));
    }
    Ok(json(StatusCode::OK, &list))
}

/// `GET /v1/bans`: 200 with a page of the keys that a limit bans.
pub(super) async fn bans(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let (head, _) = request.into_parts();
    let caller = guard::admit(&service.access, &head, Call::Inspect)?;
    let query = Query::read(&head.uri, &["limit", "after", "count"], "/v1/bans?limit=login")?;
    let (limit, after) = (query.need("limit")?, query.after()?);
    let page = query.page(after.as_ref())?;
    let wanted = Wanted { name: limit, given: None };
    let gate = service.gates.find_all(&caller, Call::Inspect, &[wanted])?;
    let _turn = service.turns.next().await?;
    let banned = gate.bans(page).await?;
    Ok(json(StatusCode::OK, &BanList::new(limit, &banned)))
}

/// `GET /v1/keys`: 200 with a page of the keys that have a stored state under a limit.
pub(super) async fn keys(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let (head, _) = request.into_parts();
    let caller = guard::admit(&service.access, &head, Call::Inspect)?;
    let example = "/v1/keys?limit=login&prefix=tenant:7:";
    let query = Query::read(&head.uri, &["limit", "prefix", "after", "count"], example)?;
    let (limit, after) = (query.need("limit")?, query.after()?);
    let prefix = query.get("prefix").unwrap_or_default();
    let page = query.page(after.as_ref())?;
    let wanted = Wanted { name: limit, given: None };
    let gate = service.gates.find_all(&caller, Call::Inspect, &[wanted])?;
    let _turn = service.turns.next().await?;
    let keys = gate.stored_keys(prefix, page).await?;
    Ok(json(StatusCode::OK, &KeyList::new(limit, &keys)))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RevokeFields {
    limit: String,
    #[serde(default, deserialize_with = "some")]
    policies: Option<Given>,
    key: String,
    hold: String,
}

/// `POST /v1/revoke`: 200 with a decision; 404 if there is no hold with this id. For administrators.
pub(super) async fn revoke(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let example = r#"{"limit":"jobs","key":"acme","hold":"00112233445566778899aabbccddeeff"}"#;
    let (head, body) = request.into_parts();
    let caller = guard::admit(&service.access, &head, Call::Administer)?;
    let RevokeFields { limit, policies, key, hold } = body::read(body, example).await?;
    let hold: HoldId =
        hold.parse().map_err(|error| ApiError::malformed(format!("`hold`: {error}")))?;
    let wanted = Wanted { name: &limit, given: policies.as_ref() };
    let gate = service.gates.find_all(&caller, Call::Administer, &[wanted])?;
    let _turn = service.turns.next().await?;
    let revoking = gate.revoke(&key, hold);
    let decision = caller.deciding(revoking).await?;
    if decision.hold_found() == Some(HoldFound::Unknown) {
        let message =
            "the key has no hold with this id: it expired, was released, or the key was reset";
        return Err(ApiError::new(StatusCode::NOT_FOUND, "hold_expired", message));
    }
    Ok(json(StatusCode::OK, &Answer::new(&limit, &decision)))
}
