//! The gRPC services of a listener.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;

use axum::extract::Request as Call;
use http::Response;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use super::ext_authz::ExtAuthz;
use super::guard::{Guard, Guarded};
use super::native::NativeLimits;
use super::rate_limits::RateLimits;
use super::rlqs::QuotaService;
use super::rls::{self, Answers};
use crate::protos::DESCRIPTORS;
use crate::protos::envoy::service::auth::v3::authorization_server::AuthorizationServer;
use crate::protos::envoy::service::rate_limit_quota::v3::rate_limit_quota_service_server::RateLimitQuotaServiceServer;
use crate::protos::envoy::service::ratelimit::v3::rate_limit_service_server::RateLimitServiceServer;

/// The name of the rate limit service in health checks, as the incumbent has it.
const HEALTH: &str = "ratelimit";

/// The services of a listener, and the means to change their health.
pub struct Routed {
    /// The services.
    pub routes: Routes,
    /// The method that most calls are for. The services have it too.
    pub frequent: Frequent,
    /// The health that the services report: they serve at first.
    pub health: Health,
}

/// A method as a function, for a server that finds it faster than the routes do.
pub struct Frequent {
    /// Path of the method. Its calls are sent by `POST`.
    pub path: String,
    /// Answers a call of the method.
    pub answer: Box<dyn Fn(Call) -> Answering + Send + Sync>,
}

/// The future of an answer.
pub type Answering = Pin<Box<dyn Future<Output = Response<axum::body::Body>> + Send>>;

/// The health that a server reports under `ratelimit`, and under the empty name for the whole server.
#[derive(Clone, Debug)]
pub struct Health(HealthReporter);

impl Health {
    /// Reports that the server serves.
    pub async fn serve(&self) {
        self.set(ServingStatus::Serving).await;
    }

    /// Reports that the server doesn't serve.
    pub async fn refuse(&self) {
        self.set(ServingStatus::NotServing).await;
    }

    async fn set(&self, status: ServingStatus) {
        for name in [HEALTH, ""] {
            self.0.set_service_status(name, status).await;
        }
    }
}

impl fmt::Debug for Frequent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frequent").field("path", &self.path).finish_non_exhaustive()
    }
}

impl fmt::Debug for Routed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routed").finish_non_exhaustive()
    }
}

/// Returns the services that the incumbent has: the rate limit service, health checks and reflection. `guard` admits the
/// calls of the first.
///
/// A call with a `grpc-timeout` waits for the store at most that long.
///
/// # Errors
/// Returns an error if the descriptors for reflection are broken.
pub async fn routes(
    limits: RateLimits,
    guard: impl Guard,
) -> Result<Routed, tonic_reflection::server::Error> {
    completed(Routes::default(), limits, guard).await
}

/// Returns the services for the limits of a registry.
///
/// They are the rate limit service, the rate limit quota service, `Check` of external authorization, health checks and
/// reflection. `guard` admits the calls of the first three.
///
/// A call with a `grpc-timeout` waits for the store at most that long.
///
/// # Errors
/// Returns an error if the descriptors for reflection are broken.
pub async fn native_routes(
    limits: NativeLimits,
    guard: impl Guard,
) -> Result<Routed, tonic_reflection::server::Error> {
    let service = AuthorizationServer::new(ExtAuthz::new(limits.registry().clone()));
    let service = Guarded { service, guard: guard.clone() };
    let routes = with_method(Routes::default(), "Check", &service);
    let service = RateLimitQuotaServiceServer::new(QuotaService(limits.quotas().clone()));
    let service = Guarded { service, guard: guard.clone() };
    let routes = with_method(routes, "StreamRateLimitQuotas", &service);
    completed(routes, limits, guard).await
}

/// Adds a method of a service.
///
/// Its path is a whole route. [`Routes::add_service`] would copy the method's name for each call.
fn with_method<S>(mut routes: Routes, method: &str, service: &Guarded<S, impl Guard>) -> Routes
where
    S: Service<Call, Response = Response<Body>, Error = Infallible>,
    S: NamedService + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
{
    let router = std::mem::take(routes.axum_router_mut());
    *routes.axum_router_mut() = router.route_service(&path::<S>(method), service.clone());
    routes
}

fn path<S: NamedService>(method: &str) -> String {
    format!("/{}/{method}", S::NAME)
}

/// Returns a method of a service as a function.
fn frequent<S>(method: &str, service: Guarded<S, impl Guard>) -> Frequent
where
    S: Service<Call, Response = Response<Body>, Error = Infallible>,
    S: NamedService + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
{
    let answer = move |call| {
        let answer = service.answer(call);
        let answer: Answering = Box::pin(async {
            let Ok(answer) = answer.await;
            answer.map(axum::body::Body::new)
        });
        answer
    };
    Frequent { path: path::<S>(method), answer: Box::new(answer) }
}

/// Adds the rate limit service, health checks and reflection.
async fn completed(
    routes: Routes,
    limits: impl rls::Answering,
    guard: impl Guard,
) -> Result<Routed, tonic_reflection::server::Error> {
    const METHOD: &str = "ShouldRateLimit";
    let service = Guarded { service: RateLimitServiceServer::new(Answers(limits)), guard };
    let routes = with_method(routes, METHOD, &service);
    let frequent = frequent(METHOD, service);
    let (health, health_service) = tonic_health::server::health_reporter();
    let health = Health(health);
    health.serve().await;
    let described = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let routes = routes
        .add_service(health_service)
        .add_service(described().build_v1()?)
        .add_service(described().build_v1alpha()?);
    Ok(Routed { routes, frequent, health })
}
