//! Tests streams of quotas whose clients stall.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use axum::http::Uri;
use hyper_util::rt::TokioIo;
use sluicegate_envoy::service::protos::rate_limit_quota_service_client::RateLimitQuotaServiceClient;
use sluicegate_envoy::service::protos::rate_limit_quota_usage_reports::BucketQuotaUsage;
use sluicegate_envoy::service::protos::{BucketId, RateLimitQuotaUsageReports};
use sluicegate_testkit::wait::until;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;
use tower::service_fn;

use crate::support::{File, Service};

/// The flow control of HTTP/2 doesn't hold anything back.
const WINDOW: u32 = 1 << 24;

/// A connection whose client stops reading. Its system acknowledges what fits into a small buffer.
struct Stalling {
    stream: TcpStream,
    is_stalled: Arc<AtomicBool>,
}

impl AsyncRead for Stalling {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_stalled.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stalling {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

fn reports(buckets: usize) -> RateLimitQuotaUsageReports {
    let usage = |number: usize| BucketQuotaUsage {
        bucket_id: Some(BucketId {
            bucket: [("name".to_owned(), format!("{number:0200}"))].into(),
        }),
        num_requests_allowed: 1,
        ..BucketQuotaUsage::default()
    };
    RateLimitQuotaUsageReports {
        domain: "edge".to_owned(),
        bucket_quota_usages: (0..buckets).map(usage).collect(),
    }
}

/// An assignment that arrives late is valid for longer than it is booked. The service ends the stream instead, long before
/// the pings of HTTP/2 would show that the client is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_stalls_loses_its_stream() {
    let file = File::new(
        "limits.yaml",
        "limits: {fleet: {policies: [token_bucket 900/s]}}\n\
         envoy: {domains: {edge: [{match: {name: '*'}, limit: fleet}]}}",
    );
    let service = Service::start(&["--config", file.path(), "--grpc", "127.0.0.1:0"]);
    let (address, is_stalled) = (service.address_of("grpc"), Arc::new(AtomicBool::new(false)));
    let stalled = Arc::clone(&is_stalled);
    let connect = service_fn(move |_: Uri| {
        let is_stalled = Arc::clone(&stalled);
        async move {
            let socket = TcpSocket::new_v4()?;
            socket.set_recv_buffer_size(4_096)?;
            let stream = socket.connect(address).await?;
            Ok::<_, io::Error>(TokioIo::new(Stalling { stream, is_stalled }))
        }
    });
    let endpoint = Endpoint::from_static("http://localhost");
    let endpoint =
        endpoint.initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW);
    let channel = endpoint.connect_with_connector(connect).await.unwrap();
    let (sender, receiver) = mpsc::channel(1);
    sender.send(reports(1)).await.unwrap();
    let mut client = RateLimitQuotaServiceClient::new(channel);
    let answers = client.stream_rate_limit_quotas(ReceiverStream::new(receiver)).await;
    let mut answers = answers.unwrap().into_inner();
    let answer = answers.message().await.unwrap().unwrap();
    assert_eq!(answer.bucket_action.len(), 1, "{answer:?}");
    let streams = || service.metric("sluicegate_quota_streams");
    assert_eq!(streams(), 1);
    is_stalled.store(true, Ordering::Relaxed);
    // The service's flow control admits the whole message, although the client reads no update of its window.
    sender.send(reports(200)).await.unwrap();
    tokio::task::block_in_place(|| {
        until("the stream has ended", || {
            // Each look is a request to the service.
            thread::park_timeout(Duration::from_millis(50));
            match streams() {
                0 => Ok(()),
                open => Err(open),
            }
        });
    });
}
