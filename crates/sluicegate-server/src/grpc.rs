//! The gRPC services: Envoy's rate limit service, health checks and reflection.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, Request};
use sluicegate_envoy::service::{
    Answer, Frequent, Guard, Health, NativeLimits, Rights, Routed, native_routes,
};
use tonic::Status;

use crate::access::{Call, Caller, Refusal, RefusalKind};
use crate::http::Service;
use crate::http::guard::presented;
use crate::serving::{Client, Routes};

/// The path of streams with assignments, which must not arrive late.
const QUOTAS: &str =
    "/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas";
/// The longest time for which bytes to a client with assignments stay unconfirmed.
///
/// Then the system closes the connection and drops them. An assignment is written within 0.4 s, so it never arrives more
/// than a second after the store has booked it.
const UNSENT: Duration = Duration::from_millis(500);

/// Returns the routes of the gRPC listener.
///
/// # Errors
/// Returns a message if the descriptors for reflection are broken.
pub(crate) async fn routes(service: Arc<Service>) -> Result<Routes, String> {
    let limits = NativeLimits::with_quotas(service.quotas.clone());
    tokio::spawn(close_quotas(Arc::clone(&service)));
    let guard = ByRights(InTurns(Arc::clone(&service)));
    let routed = native_routes(limits, guard).await.map_err(|error| error.to_string())?;
    routed.health.refuse().await;
    Ok(served(routed, service))
}

/// Returns the routes of services whose health follows that of the service.
pub(crate) fn served(routed: Routed, service: Arc<Service>) -> Routes {
    let Routed { routes, frequent: Frequent { path, answer }, health } = routed;
    tokio::spawn(report(health, service));
    Routes::with_frequent(routes.into_axum_router(), Method::POST, path, answer)
}

/// Bounds the calls that are decided at the same time.
#[derive(Clone)]
pub(crate) struct InTurns(pub(crate) Arc<Service>);

impl Guard for InTurns {
    async fn admit<B, D, F>(self, call: Request<B>, decide: D) -> Answer
    where
        B: Send + 'static,
        D: FnOnce(Request<B>) -> F + Send + 'static,
        F: Future<Output = Answer> + Send + 'static,
    {
        match self.0.turns.next().await {
            Ok(_turn) => decide(call).await,
            Err(error) => Ok(Status::unavailable(error.message()).into_http()),
        }
    }
}

/// Puts the rights of its caller into a call, or refuses it.
#[derive(Clone)]
struct ByRights(InTurns);

impl Guard for ByRights {
    fn admit<B, D, F>(
        self,
        call: Request<B>,
        decide: D,
    ) -> impl Future<Output = Answer> + Send + 'static
    where
        B: Send + 'static,
        D: FnOnce(Request<B>) -> F + Send + 'static,
        F: Future<Output = Answer> + Send + 'static,
    {
        let Self(turns) = self;
        // Made before the future: it would have another place for the call in each of its states.
        let deciding = turns
            .with_rights(call)
            .map(|(caller, call)| caller.deciding(turns.admit(call, decide)));
        async {
            match deciding {
                Ok(deciding) => deciding.await,
                Err(refusal) => Ok(status(refusal).into_http()),
            }
        }
    }
}

impl InTurns {
    /// Returns the caller of a call, and the call with the caller's rights.
    fn with_rights<B>(&self, call: Request<B>) -> Result<(Caller, Request<B>), Refusal> {
        let access = &self.0.access;
        let (mut head, body) = call.into_parts();
        let (caller, may_refund) = presented(&head, |presented| {
            let caller = access.admit(presented, Call::Take)?;
            let may_refund = access.may_administer(&caller, presented);
            Ok((caller, may_refund))
        })?;
        if head.uri.path() == QUOTAS
            && let Some(client) = head.extensions.get::<Client>()
        {
            client.bound_unsent(UNSENT);
        }
        let asker = caller.clone();
        let may_ask =
            move |limit: &str| asker.may(Call::Take, limit).map_err(|refusal| refusal.message);
        head.extensions.insert(Rights::new(may_refund, may_ask));
        Ok((caller, Request::from_parts(head, body)))
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

/// Ends the streams of Envoys when the service drains, so that they connect to another replica.
async fn close_quotas(service: Arc<Service>) {
    service.stages.clone().draining().await;
    service.quotas.close();
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
