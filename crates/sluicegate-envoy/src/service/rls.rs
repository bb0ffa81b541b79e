//! The rate limit service.

use tonic::{Request, Response, Status};

use super::call_timeout::within_call;
use super::rights::Rights;
use crate::protos::envoy::service::ratelimit::v3::rate_limit_service_server::RateLimitService;
use crate::protos::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};

/// Limits that answer requests of the protocol.
#[tonic::async_trait]
pub(super) trait Answering: Send + Sync + 'static {
    /// Answers a request of a client with these rights.
    async fn answer(
        &self,
        message: &RateLimitRequest,
        rights: &Rights,
    ) -> Result<RateLimitResponse, Status>;
}

/// The service of some limits.
pub(super) struct Answers<L>(pub(super) L);

#[tonic::async_trait]
impl<L: Answering> RateLimitService for Answers<L> {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let (metadata, extensions, message) = request.into_parts();
        let rights = Rights::of(&extensions);
        let answer = within_call(&metadata, self.0.answer(&message, &rights)).await??;
        Ok(Response::new(answer))
    }
}
