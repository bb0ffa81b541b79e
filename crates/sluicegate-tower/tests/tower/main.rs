//! The tower layer in axum, hyper and tonic, on real sockets with real clients.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "the helpers of tests may do what tests may"
)]

#[path = "../web/mod.rs"]
mod web;

mod addresses;
mod charging;
mod charging_by_name;
mod choosing;
mod decisions;
mod failures;
mod fields;
mod grpc;
mod handlers;
mod holding;
mod hyper_server;
mod layers;
mod pauses;
mod readiness;
mod refunds;
mod routes;
mod waiting;

use std::net::SocketAddr;

use axum::Router;
use tokio::net::TcpListener;

use web::Client;

/// Serves a router, with the addresses of its peers, for as long as the test runs.
async fn serve(router: Router) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let site = listener.local_addr().unwrap();
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    Client::of(site)
}
