//! The gRPC services: Envoy's rate limit service, health checks and reflection.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use sluicegate_envoy::service::{Health, NativeLimits, Rights, Routed, native_routes};
use tonic::Status;
use tonic::service::Routes;

use crate::access::{Call, Refusal, RefusalKind};
use crate::http::Service;
use crate::http::guard::presented;

/// Returns the routes of the gRPC listener.
///
/// # Errors
/// Returns a message if the descriptors for reflection are broken.
pub(crate) async fn router(service: Arc<Service>) -> Result<Router, String> {
    let limits = NativeLimits::new(service.registry.clone());
    let Routed { routes, health } =
        native_routes(limits).await.map_err(|error| error.to_string())?;
    health.refuse().await;
    tokio::spawn(report(health, Arc::clone(&service)));
    let router = in_turns(routes, Arc::clone(&service));
    Ok(router.layer(from_fn_with_state(service, with_rights)))
}

/// Puts the rights of its caller into a request, or refuses it. Health checks and reflection are open to all.
async fn with_rights(
    State(service): State<Arc<Service>>,
    request: Request,
    next: Next,
) -> Response {
    if is_open(&request) {
        return next.run(request).await;
    }
    let (mut head, body) = request.into_parts();
    let found = presented(&head, |presented| {
        let caller = service.access.admit(presented, Call::Take)?;
        let may_refund = service.access.may_administer(&caller, presented);
        Ok((caller, may_refund))
    });
    match found {
        Ok((caller, may_refund)) => {
            let asker = caller.clone();
            let may_ask =
                move |limit: &str| asker.may(Call::Take, limit).map_err(|refusal| refusal.message);
            head.extensions.insert(Rights::new(may_refund, may_ask));
            caller.deciding(next.run(Request::from_parts(head, body))).await
        }
        Err(refusal) => status(refusal).into_http(),
    }
}

fn status(Refusal { kind, message }: Refusal) -> Status {
    match kind {
        RefusalKind::Missing => {
            let what = "send the metadata `authorization: Bearer TOKEN`";
            Status::unauthenticated(format!("{message}: {what}"))
        }
        RefusalKind::Wrong => Status::unauthenticated(message),
        RefusalKind::Forbidden => Status::permission_denied(message),
    }
}

/// Returns whether a request is a health check or reflection.
fn is_open(request: &Request) -> bool {
    request.uri().path().starts_with("/grpc.")
}

/// Returns the routes, with a bound on the requests that are decided at the same time.
pub(crate) fn in_turns(routes: Routes, service: Arc<Service>) -> Router {
    routes.into_axum_router().layer(from_fn_with_state(service, in_turn))
}

/// Reports the health of the service: it serves from its readiness on, until it drains.
pub(crate) async fn report(health: Health, service: Arc<Service>) {
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
    if is_open(&request) {
        return next.run(request).await;
    }
    match service.turns.next().await {
        Ok(_turn) => next.run(request).await,
        Err(error) => Status::unavailable(error.message()).into_http(),
    }
}
