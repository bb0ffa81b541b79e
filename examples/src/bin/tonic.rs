//! A gRPC server with tonic. Each tenant has a limit for each method. Calls above it get
//! `RESOURCE_EXHAUSTED`, with a `RetryInfo` that its client library understands.
//!
//! ```sh
//! cargo run -p sluicegate-examples --bin tonic -- 127.0.0.1:3000
//! ```

#![allow(clippy::print_stdout, reason = "it says where it listens")]

use std::error::Error;

use sluicegate::{Config, Registry};
use sluicegate_tower::LimitLayer;
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic_health::ServingStatus;

/// The limits. In gRPC, metadata are header fields, and the path is the method.
const LIMITS: &str = r#"
limits:
  calls:
    key: header:x-tenant + path
    missing_key: refuse
    policies: ["token_bucket 2/min burst 2 as calls"]
"#;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let registry = Registry::open(&Config::parse(LIMITS, "limits.yaml")?)?;
    // The status of a denied call is in its trailers, so no body is made.
    let limit = LimitLayer::new(registry.gate("calls")).without_bodies();

    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_service_status("shop", ServingStatus::Serving).await;

    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let server = Server::builder().layer(limit).add_service(health);
    Ok(server.serve_with_incoming(TcpIncoming::from(listener)).await?)
}
