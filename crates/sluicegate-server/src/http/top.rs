//! The keys with the highest use of a limit.

use std::sync::Arc;

use axum::RequestExt as _;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;

use super::error::{ApiError, json};
use super::gates;
use super::guard;
use super::query::Query;
use super::service::Service;
use crate::access::Call;

/// The path of the lists.
pub(super) const PATH: &str = "/v1/limits/{limit}/top";

/// Default number of keys in a list.
const COUNT: usize = 50;

/// `GET /v1/limits/LIMIT/top`: 200 with the keys with the highest use of a limit, and those with the most denials.
pub(super) async fn top(
    State(service): State<Arc<Service>>,
    mut request: Request,
) -> Result<Response, ApiError> {
    let limit = request.extract_parts::<Path<String>>().await;
    let (head, _) = request.into_parts();
    let caller = guard::admit(&service.access, &head, Call::Inspect)?;
    let query = Query::read(&head.uri, &["count"], "/v1/limits/demo/top?count=50")?;
    let count = if query.get("count").is_some() { query.page(None)?.count() } else { COUNT };
    let Path(limit) = limit
        .map_err(|_| ApiError::malformed("the limit in the path isn't percent-encoded UTF-8"))?;
    caller.may(Call::Inspect, &limit)?;
    if service.registry.limit_switched(&limit).is_none() {
        return Err(gates::unknown(&limit));
    }
    Ok(json(StatusCode::OK, &service.top_keys.lists(&limit, count)))
}
