//! The middleware of actix-web: real servers, and real clients.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "the helpers of tests may do what tests may"
)]

#[path = "../../../sluicegate-tower/tests/web/mod.rs"]
mod web;

mod answers;
mod applications;
mod charging;
mod choosing;
mod handlers;
mod holding;
mod refunds;

use actix_web::web::ServiceConfig;
use actix_web::{App, HttpServer};
use sluicegate_actix::LimitMiddleware;

use web::Client;

/// Serves an application whose every request the limit is asked about, for as long as the test
/// runs.
fn serve(
    limit: LimitMiddleware,
    configure: impl Fn(&mut ServiceConfig) + Clone + Send + 'static,
) -> Client {
    let application = move || App::new().wrap(limit.clone()).configure(configure.clone());
    let server = HttpServer::new(application).workers(1).disable_signals();
    let server = server.bind(("127.0.0.1", 0)).unwrap();
    let site = server.addrs()[0];
    tokio::spawn(server.run());
    Client::of(site)
}
