//! A client with many calls in flight. It does less than a client of gRPC, so that it keeps any service busy.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use h2::client::{SendRequest, handshake};
use http::{Request, StatusCode, Uri, Version};
use prost::Message as _;
use sluicegate_envoy::service::protos::RateLimitResponse;
use sluicegate_envoy::service::protos::rate_limit_response::Code;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// The number of bytes before a message.
const PREFIX: usize = 5;

/// The way of a client to send calls.
#[derive(Clone, Copy)]
pub struct Depth {
    pub connections: usize,
    pub calls_on_each: usize,
    /// Whether the client's thread never sleeps. Otherwise a service that is slower than its client also pays for waking
    /// it, which a client on another machine doesn't cost.
    pub is_awake: bool,
}

/// A client of one service.
pub struct Client {
    runtime: Runtime,
    connections: Vec<SendRequest<Bytes>>,
    uri: Uri,
    depth: Depth,
}

impl Client {
    /// Connects to a service.
    pub fn connect(address: SocketAddr, depth: Depth) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("can't start a runtime")?;
        let connections = runtime.block_on(async {
            let mut connections = Vec::new();
            for _ in 0..depth.connections {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                let (sender, connection) = handshake(stream).await?;
                tokio::spawn(connection);
                connections.push(sender);
            }
            anyhow::Ok(connections)
        })?;
        let path = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
        let uri = format!("http://{address}/{path}").parse()?;
        Ok(Self { runtime, connections, uri, depth })
    }

    /// Sends one call, and returns its answer.
    pub fn ask(&self, message: &Bytes) -> Result<RateLimitResponse> {
        let sender = self.connections[0].clone();
        let answer = self.runtime.block_on(call(sender, &self.uri, message.clone()))?.1;
        let message = answer.get(PREFIX..).context("the answer has no message")?;
        Ok(RateLimitResponse::decode(message)?)
    }

    /// Sends calls, with a bounded number in flight. Each must pass.
    pub fn run(&self, messages: &Arc<[Bytes]>, calls: usize) -> Result<()> {
        self.runtime.block_on(async {
            let next = Arc::new(AtomicUsize::new(0));
            let mut awake = JoinSet::new();
            if self.depth.is_awake {
                awake.spawn(async {
                    loop {
                        tokio::task::yield_now().await;
                    }
                });
            }
            let mut running = JoinSet::new();
            for connection in &self.connections {
                for _ in 0..self.depth.calls_on_each {
                    let (mut sender, uri) = (connection.clone(), self.uri.clone());
                    let (messages, next) = (Arc::clone(messages), Arc::clone(&next));
                    running.spawn(async move {
                        loop {
                            let number = next.fetch_add(1, Ordering::Relaxed);
                            if number >= calls {
                                return anyhow::Ok(());
                            }
                            let message = messages[number % messages.len()].clone();
                            let (returned, answer) = call(sender, &uri, message).await?;
                            ensure!(passes(&answer), "a call was denied: {answer:?}");
                            sender = returned;
                        }
                    });
                }
            }
            while let Some(ended) = running.join_next().await {
                ended??;
            }
            Ok(())
        })
    }
}

/// Returns whether an answer begins with the code of a request that passes.
fn passes(answer: &[u8]) -> bool {
    const FIRST_FIELD: u8 = 1 << 3;
    answer.get(PREFIX..PREFIX + 2) == Some(&[FIRST_FIELD, Code::Ok as u8])
}

/// Sends a call with the fields that Envoy sends, and returns the body of its answer.
async fn call(
    sender: SendRequest<Bytes>,
    uri: &Uri,
    message: Bytes,
) -> Result<(SendRequest<Bytes>, Bytes)> {
    let mut sender = sender.ready().await?;
    let request = Request::post(uri.clone())
        .version(Version::HTTP_2)
        .header("te", "trailers")
        .header("grpc-timeout", "1000m")
        .header("content-type", "application/grpc")
        .body(())?;
    let (answer, mut body) = sender.send_request(request, false)?;
    body.send_data(message, true)?;
    let (head, mut body) = answer.await?.into_parts();
    ensure!(head.status == StatusCode::OK, "the service answers {}", head.status);
    let mut answer = Bytes::new();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        if answer.is_empty() {
            answer = data;
        } else {
            answer = [answer, data].concat().into();
        }
    }
    let fields = body.trailers().await?.unwrap_or(head.headers);
    let field =
        |name: &str| fields.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
    match field("grpc-status").as_deref() {
        Some("0") => Ok((sender, answer)),
        status => bail!("the service answers with status {status:?}: {:?}", field("grpc-message")),
    }
}
