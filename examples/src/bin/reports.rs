//! Reports with axum, for a database that can make two at a time. Others wait in a queue: interactive
//! reports before those of a batch, each for ten seconds at most. A report runs until its last row is
//! sent, or its reader has disconnected.
//!
//! ```sh
//! cargo run -p sluicegate-examples --bin reports -- 127.0.0.1:3000
//! curl -s http://127.0.0.1:3000/reports/9000000 --limit-rate 1M > /dev/null &   # twice
//! curl -s http://127.0.0.1:3000/batch/reports/3 &
//! curl -s http://127.0.0.1:3000/reports/3 &
//! kill %1
//! ```
//!
//! When a slow report is killed, the last request is served immediately. The batch's report, which
//! was requested earlier, follows. A request that has waited for ten seconds gets a 429, and so does
//! one that arrives while four wait. With `STORE=redis://127.0.0.1:6379` all instances have two
//! reports at a time together, and one queue.

#![allow(clippy::print_stdout, reason = "it says where it listens")]

use std::convert::Infallible;
use std::error::Error;
use std::fmt::Write as _;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::routing::get;
use futures_util::stream;
use sluicegate::{Config, Registry};
use sluicegate_tower::LimitLayer;
use tokio::net::TcpListener;

pub(crate) const LIMITS: &str = include_str!("../../limits/reports.yaml");

const INTERACTIVE: u8 = 0;
const BATCH: u8 = 1;

pub(crate) fn app(registry: &Registry, patience: Duration) -> Router {
    let limit =
        LimitLayer::new(registry.gate("reports")).wait_up_to(patience).priority(|request| {
            if request.path().starts_with("/batch/") { BATCH } else { INTERACTIVE }
        });
    Router::new()
        .route("/reports/{rows}", get(report))
        .route("/batch/reports/{rows}", get(report))
        .layer(limit)
}

/// Streams a thousand rows at a time, as fast as they are read.
async fn report(Path(rows): Path<u64>) -> Body {
    let pages = (0..rows).step_by(1_000).map(move |first| {
        let mut page = String::new();
        for row in first..rows.min(first + 1_000) {
            let _ = writeln!(page, "{row}");
        }
        Ok::<_, Infallible>(page)
    });
    Body::from_stream(stream::iter(pages))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut config = Config::parse(LIMITS, "reports.yaml")?;
    if let Ok(url) = std::env::var("STORE") {
        config.store = url.parse()?;
    }
    let registry = Registry::open_for(&config, ["reports"])?;
    let router = app(&registry, Duration::from_secs(10));

    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, router).await?)
}
