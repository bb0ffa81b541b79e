//! The newest decisions, as a list.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE, VARY};
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use sluicegate::decision::Source;

use super::asked::shown;
use super::error::ApiError;
use super::guard;
use super::query::Query;
use super::service::Service;
use crate::access::Call;
use crate::decisions::{Filter, Outcome};

const FIELDS: [&str; 10] =
    ["limit", "key", "prefix", "outcome", "policy", "source", "client", "since", "count", "format"];

/// The type of JSON lines.
const LINES: &str = "application/x-ndjson";

/// `GET /v1/recent`: the newest decisions, with their keys. A client gets those whose limits it may all use.
pub(super) async fn recent(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let (head, _) = request.into_parts();
    let caller = guard::admit(&service.access, &head, Call::Inspect)?;
    let query = Query::read(&head.uri, &FIELDS, "/v1/recent?outcome=denied&count=100")?;
    let filter = filter(&query)?;
    let are_lines = match one_of(&query, "format", &[("json", false), ("jsonl", true)])? {
        Some(are_lines) => are_lines,
        None => prefers_lines(&head),
    };
    let count = query.page(None)?.count();
    let page = service.recent.page(&filter, count, |limit| caller.covers(limit));
    let (content, body) =
        if are_lines { (LINES, page.lines()) } else { ("application/json", page.json()) };
    Ok(([(CONTENT_TYPE, content), (VARY, "Accept")], body).into_response())
}

/// Reads the filters of a query.
pub(super) fn filter(query: &Query) -> Result<Filter, ApiError> {
    let text = |name| query.get(name).map(str::to_owned);
    Ok(Filter {
        limit: text("limit"),
        key: text("key"),
        prefix: text("prefix"),
        outcome: one_of(query, "outcome", &Outcome::ALL)?,
        policy: text("policy"),
        source: one_of(query, "source", &SOURCES)?,
        client: text("client"),
        since: query.number("since")?,
    })
}

/// The sources with their names.
const SOURCES: [(&str, Source); 5] = [
    (Source::Store.as_str(), Source::Store),
    (Source::Fallback.as_str(), Source::Fallback),
    (Source::Lease.as_str(), Source::Lease),
    (Source::DenyCache.as_str(), Source::DenyCache),
    (Source::Bypass.as_str(), Source::Bypass),
];

/// Returns the value of a field that has few.
pub(super) fn one_of<T: Copy>(
    query: &Query,
    field: &str,
    values: &[(&str, T)],
) -> Result<Option<T>, ApiError> {
    let Some(given) = query.get(field) else { return Ok(None) };
    let found = values.iter().find(|(name, _)| *name == given).map(|(_, value)| *value);
    found.map(Some).ok_or_else(|| {
        let names: Vec<_> = values.iter().map(|(name, _)| *name).collect();
        let given = shown(given);
        ApiError::malformed(format!(
            "`{field}` is `{given}`, but must be one of {}",
            names.join(", ")
        ))
    })
}

/// Returns `true` if a client asks for JSON lines in `Accept`.
fn prefers_lines(head: &Parts) -> bool {
    let accepted = head.headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types = accepted.flat_map(|value| value.split(','));
    types.any(|accepted| accepted.split(';').next().is_some_and(|name| name.trim() == LINES))
}
