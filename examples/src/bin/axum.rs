//! An API with axum. Every client has a budget by its address. Searches, which are expensive, also
//! take from a budget by API key.
//!
//! ```sh
//! cargo run -p sluicegate-examples --bin axum -- 127.0.0.1:3000
//! curl -i http://127.0.0.1:3000/search -H 'x-api-key: alice'
//! ```

#![allow(clippy::print_stdout, reason = "it says where it listens")]

use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use sluicegate::{Config, Registry};
use sluicegate_tower::LimitLayer;
use tokio::net::TcpListener;

/// The limits. With `store: "redis://127.0.0.1:6379"` all instances share them.
const LIMITS: &str = r#"
store: "memory:"
limits:
  site:
    policies: ["token_bucket 50/s burst 100"]
  search:
    key: header:x-api-key
    missing_key: refuse
    policies: ["token_bucket 10/min burst 3 as burst", "fixed_window 1000/d as day"]
"#;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let config = Config::parse(LIMITS, "limits.yaml")?;
    // A misspelled name fails here, not at the first request.
    let registry = Registry::open_for(&config, ["site", "search"])?;
    let site =
        LimitLayer::new(registry.gate("site")).skip_if(|request| request.path() == "/health");
    let search = LimitLayer::new(registry.gate("search"));

    let router = Router::new()
        .route("/", get(async || "hello\n"))
        .route("/health", get(async || "fine\n"))
        .route("/search", get(async || "found\n").layer(search))
        .layer(site);

    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    // Without the addresses of their peers, all clients would share one budget.
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    Ok(axum::serve(listener, service).await?)
}
