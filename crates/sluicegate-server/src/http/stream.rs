//! The stream of the service's activity, for the page and for `sluicegate top`.

mod body;
mod feed;
mod history;
mod limits;
mod now;
mod window;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;

use super::error::ApiError;
use super::guard;
use super::overview::Overview;
use super::query::Query;
use super::recent;
use super::service::Service;
use crate::access::Call;
use crate::serving::Client;
use body::Events;
use feed::Feed;
use window::Window;

const FIELDS: [&str; 16] = [
    "follow", "sort", "search", "show", "count", "offset", "recent", "resume", "limit", "key",
    "prefix", "outcome", "policy", "source", "client", "since",
];

/// `GET /v1/stream`: the activity of the service, as events, once a second until it stops.
pub(super) async fn stream(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let (head, _) = request.into_parts();
    let caller = guard::admit(&service.access, &head, Call::Inspect)?;
    let query = Query::read(&head.uri, &FIELDS, "/v1/stream?sort=denied&count=50")?;
    let window = Window::read(&query)?;
    let has_recent = recent::one_of(&query, "recent", &[("on", true), ("off", false)])?;
    let follows = recent::one_of(&query, "follow", &[("on", true), ("off", false)])?;
    let filter = has_recent.unwrap_or(true).then(|| recent::filter(&query)).transpose()?;
    let last_id = head.headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let resume = query.get("resume").or(last_id).map(str::to_owned);
    let Some(place) = service.overview.place() else {
        return Err(ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too_many_streams",
            format!(
                "{} streams are open, which is the maximum: close one, or try again later",
                Overview::MOST_STREAMS
            ),
        ));
    };
    let client = head.extensions.get::<Client>().cloned();
    let feed = Feed::new(service, head, caller, window, filter, resume.as_deref(), place);
    let feed = if follows == Some(false) { feed.only_first() } else { feed };
    let mut response = Response::new(Body::new(Events::new(feed, client)));
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let buffering = HeaderName::from_static("x-accel-buffering");
    fields.insert(buffering, HeaderValue::from_static("no"));
    Ok(response)
}
