//! The gRPC services of a listener.

use std::fmt;

use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use super::ext_authz::ExtAuthz;
use super::native::NativeLimits;
use super::rate_limits::RateLimits;
use super::rls::Answers;
use crate::protos::DESCRIPTORS;
use crate::protos::envoy::service::auth::v3::authorization_server::AuthorizationServer;
use crate::protos::envoy::service::ratelimit::v3::rate_limit_service_server::RateLimitServiceServer;

/// The name of the rate limit service in health checks, as the incumbent has it.
const HEALTH: &str = "ratelimit";

/// The services of a listener, and the means to change their health.
pub struct Routed {
    /// The services.
    pub routes: Routes,
    /// The health that the services report: they serve at first.
    pub health: Health,
}

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

impl fmt::Debug for Routed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routed").finish_non_exhaustive()
    }
}

/// Returns the services that the incumbent has: the rate limit service, health checks and reflection.
///
/// A call with a `grpc-timeout` waits for the store at most that long.
///
/// # Errors
/// Returns an error if the descriptors for reflection are broken.
pub async fn routes(limits: RateLimits) -> Result<Routed, tonic_reflection::server::Error> {
    completed(Routes::new(RateLimitServiceServer::new(Answers(limits)))).await
}

/// Returns the services for the limits of a registry: the rate limit service, `Check` of external authorization, health
/// checks and reflection.
///
/// A call with a `grpc-timeout` waits for the store at most that long.
///
/// # Errors
/// Returns an error if the descriptors for reflection are broken.
pub async fn native_routes(
    limits: NativeLimits,
) -> Result<Routed, tonic_reflection::server::Error> {
    let authorization = ExtAuthz::new(limits.registry().clone());
    let routes = Routes::new(RateLimitServiceServer::new(Answers(limits)));
    completed(routes.add_service(AuthorizationServer::new(authorization))).await
}

/// Adds health checks and reflection.
async fn completed(routes: Routes) -> Result<Routed, tonic_reflection::server::Error> {
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
    Ok(Routed { routes, health })
}
