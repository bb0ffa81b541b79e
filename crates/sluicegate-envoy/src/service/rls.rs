//! The gRPC services.

use std::fmt;

use tonic::service::Routes;
use tonic::{Request, Response, Status};
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use super::call_timeout::call_timeout;
use super::messages;
use super::rate_limits::RateLimits;
use crate::protos::DESCRIPTORS;
use crate::protos::envoy::service::ratelimit::v3::rate_limit_service_server::{
    RateLimitService, RateLimitServiceServer,
};
use crate::protos::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};

/// The name of the service in health checks, as the incumbent has it.
const HEALTH: &str = "ratelimit";

/// The services of a listener, and the means to change their health.
pub struct Routed {
    /// The rate limit service, health checks and reflection.
    pub routes: Routes,
    /// The health that the service reports: it serves at first.
    pub health: Health,
}

/// The health that a service reports under `ratelimit`, and under the empty name for the whole server.
#[derive(Clone, Debug)]
pub struct Health(HealthReporter);

impl Health {
    /// Reports that the service serves.
    pub async fn serve(&self) {
        self.set(ServingStatus::Serving).await;
    }

    /// Reports that the service doesn't serve.
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

/// Returns the gRPC services that decide by these limits.
///
/// A call with a `grpc-timeout` waits for the store at most that long.
///
/// # Errors
/// Returns an error if the descriptors for reflection are broken.
pub async fn routes(limits: RateLimits) -> Result<Routed, tonic_reflection::server::Error> {
    let (health, health_service) = tonic_health::server::health_reporter();
    let health = Health(health);
    health.serve().await;
    let described = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let routes = Routes::new(RateLimitServiceServer::new(Answers(limits)))
        .add_service(health_service)
        .add_service(described().build_v1()?)
        .add_service(described().build_v1alpha()?);
    Ok(Routed { routes, health })
}

struct Answers(RateLimits);

#[tonic::async_trait]
impl RateLimitService for Answers {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let within = call_timeout(request.metadata());
        let message = request.into_inner();
        let request = messages::request(&message)?;
        let deciding = self.0.decide(&request);
        let decided = match within {
            Some(within) => tokio::time::timeout(within, deciding).await.map_err(|_| {
                Status::deadline_exceeded("the store didn't answer within the call's timeout")
            })?,
            None => deciding.await,
        };
        match decided {
            Ok(decided) => Ok(Response::new(messages::response(decided.verdict.answer))),
            Err(error) => Err(Status::unavailable(error.to_string())),
        }
    }
}
