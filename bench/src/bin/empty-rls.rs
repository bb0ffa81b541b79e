//! A rate limit service that decides nothing: it reads each request, and answers all with one message.
//!
//! It is the floor of the service. Its arguments are the address and the answer, in hexadecimal. It is a program of its
//! own, because the benchmark's allocator counts.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use prost::Message as _;
use sluicegate_envoy::service::protos::rate_limit_service_server::{
    RateLimitService, RateLimitServiceServer,
};
use sluicegate_envoy::service::protos::{RateLimitRequest, RateLimitResponse};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

struct Empty(RateLimitResponse);

#[tonic::async_trait]
impl RateLimitService for Empty {
    async fn should_rate_limit(
        &self,
        _: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        Ok(Response::new(self.0.clone()))
    }
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let address: SocketAddr = arguments.next().context("an address is missing")?.parse()?;
    let answer = arguments.next().context("an answer is missing")?;
    let answer = RateLimitResponse::decode(&*bytes(&answer)?)?;
    // The runtime of our service.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let incoming = TcpIncoming::bind(address)?.with_nodelay(Some(true));
        let service = RateLimitServiceServer::new(Empty(answer));
        Server::builder().add_service(service).serve_with_incoming(incoming).await?;
        Ok(())
    })
}

/// Reads bytes in hexadecimal.
fn bytes(text: &str) -> Result<Vec<u8>> {
    let byte = |at: usize| {
        let digits = text.get(at..at + 2).context("the answer has an odd number of digits")?;
        u8::from_str_radix(digits, 16).context("the answer isn't hexadecimal")
    };
    (0..text.len()).step_by(2).map(byte).collect()
}
