//! The gRPC services: Envoy's rate limit service, health checks and reflection.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use sluicegate::Config;
use sluicegate_envoy::incumbent::Settings;
use sluicegate_envoy::service::{Health, RateLimits, Routed, routes};
use tonic::Status;

use crate::http::Service;

/// Returns the routes of the gRPC listener.
///
/// # Errors
/// Returns a message if the descriptors for reflection are broken.
pub(crate) async fn router(service: Arc<Service>) -> Result<Router, String> {
    // Without rules, no request has a limit.
    let mut base = Config::default();
    base.limits.clear();
    let limits = RateLimits::new(service.registry.clone(), base, Settings::default());
    let Routed { routes, health } = routes(limits).await.map_err(|error| error.to_string())?;
    health.refuse().await;
    tokio::spawn(report(health, Arc::clone(&service)));
    Ok(routes.into_axum_router().layer(from_fn_with_state(service, in_turn)))
}

/// Reports the health of the service: it serves from its readiness on, until it drains.
async fn report(health: Health, service: Arc<Service>) {
    let drains = service.stages.clone().draining();
    tokio::select! {
        () = service.readiness.ready() => health.serve().await,
        () = service.stages.clone().draining() => return,
    }
    drains.await;
    health.refuse().await;
}

/// Answers a request when it is its turn. Health checks and reflection call no store, and don't wait.
async fn in_turn(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    if request.uri().path().starts_with("/grpc.") {
        return next.run(request).await;
    }
    match service.turns.next().await {
        Ok(_turn) => next.run(request).await,
        Err(error) => Status::unavailable(error.message()).into_http(),
    }
}
