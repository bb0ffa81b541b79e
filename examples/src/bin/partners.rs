//! An API for partners with axum. Each partner has a rate. Faster requests wait in a queue for their
//! turn, for two seconds at most. An order counts in the partner's quota by its number of items, but
//! only once. A partner that got no answer sends it again with its `Idempotency-Key`.
//!
//! ```sh
//! cargo run -p sluicegate-examples --bin partners -- 127.0.0.1:3000
//! order() { curl -i http://127.0.0.1:3000/orders -H 'x-api-key: k1' -H "idempotency-key: $1" -d "$2"; }
//! order 4711 3; order 4711 3; order 4711 4; order '' 3
//! for i in $(seq 20); do order "n$i" 1 2> /dev/null | head -1 & done; wait
//! ```
//!
//! The first order is taken. The second is the same order, and is charged nothing. The third is 409,
//! because the key belongs to another order. Without a key it is 400. Ten or eleven of twenty
//! concurrent orders are admitted within two seconds. The others get a 429 immediately, because their
//! turn would come later. With `STORE=redis://127.0.0.1:6379` instances share queue, quota and keys.

#![allow(clippy::print_stdout, reason = "it says where it listens")]

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, http::HeaderValue};
use sluicegate::http::User;
use sluicegate::store::RequestId;
use sluicegate::{Ask, Config, Gate, Registry};
use sluicegate_tower::{Denied, LimitLayer};
use tokio::net::TcpListener;

pub(crate) const LIMITS: &str = include_str!("../../limits/partners.yaml");

/// API keys, and the partners that they belong to.
const PARTNERS: [(&str, &str); 2] = [("k1", "initech"), ("k2", "globex")];

pub(crate) fn app(registry: &Registry) -> Result<Router, Box<dyn Error>> {
    let line = LimitLayer::new(registry.gate("line")).wait_up_to(Duration::from_secs(2));
    Ok(Router::new()
        .route("/orders", post(order))
        .with_state(registry.gate("orders"))
        .layer(line)
        .layer(from_fn(authenticate)))
}

async fn order(
    State(orders): State<Gate>,
    Extension(partner): Extension<User>,
    headers: HeaderMap,
    items: String,
) -> Result<Response, Denied> {
    let id = headers.get("idempotency-key").map_or(&b""[..], HeaderValue::as_bytes);
    if RequestId::of(id).is_err() {
        let text = "an order needs an Idempotency-Key of 1 to 255 bytes\n";
        return Ok((StatusCode::BAD_REQUEST, text).into_response());
    }
    let Some(items) = items.trim().parse().ok().filter(|items| (1..=100).contains(items)) else {
        return Ok((StatusCode::BAD_REQUEST, "an order has 1 to 100 items\n").into_response());
    };
    let ask = Ask::new(partner.as_bytes())
        .cost(items)
        .request_id(id)
        .known_for(Duration::from_secs(24 * 60 * 60));
    let charged = orders.enforce(ask).await?;
    // Look the order up by the id here, or store it with the id: a charge doesn't prove that the order
    // was carried out.
    let taken = if charged.is_repeat() { "taken before" } else { "taken" };
    Ok(format!("{taken}: {items} items\n").into_response())
}

async fn authenticate(mut request: Request, next: Next) -> Response {
    let key = request.headers().get("x-api-key");
    let Some((_, partner)) = PARTNERS.iter().find(|(known, _)| key.is_some_and(|key| key == known))
    else {
        return StatusCode::UNAUTHORIZED.into_response();
    };
    request.extensions_mut().insert(User::new(partner));
    next.run(request).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut config = Config::parse(LIMITS, "partners.yaml")?;
    if let Ok(url) = std::env::var("STORE") {
        config.store = url.parse()?;
    }
    let router = app(&Registry::open_for(&config, ["line", "orders"])?)?;

    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, router).await?)
}
