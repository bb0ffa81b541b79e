//! A client that speaks HTTP/2, stream by stream.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Request, Response};
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// Long enough for a busy machine; only a service that hangs reaches it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection with streams.
pub(crate) struct Streams {
    requests: SendRequest<Bytes>,
    connection: JoinHandle<Result<(), h2::Error>>,
}

/// An answer on a stream.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) head: Response<()>,
    pub(crate) body: String,
}

impl Streams {
    /// Connects to a service that speaks HTTP/2 without having agreed on it before.
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::try_to_connect(address).await.unwrap()
    }

    pub(crate) async fn try_to_connect(address: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let handshake = h2::client::handshake(stream).await;
        let (requests, connection) = handshake.map_err(std::io::Error::other)?;
        Ok(Self { requests, connection: tokio::spawn(connection) })
    }

    pub(crate) async fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let (requests, connection) = h2::client::handshake(stream).await.unwrap();
        Self { requests, connection: tokio::spawn(connection) }
    }

    /// Begins a request, whose body is still to be sent unless it `is_whole`.
    pub(crate) async fn begin(
        &self,
        method: &str,
        path: &str,
        is_whole: bool,
    ) -> Result<(ResponseFuture, SendStream<Bytes>), h2::Error> {
        let request = Request::builder().method(method).uri(format!("http://localhost{path}"));
        let mut requests = self.requests.clone().ready().await?;
        requests.send_request(request.body(()).unwrap(), is_whole)
    }

    /// Sends a request without a body.
    pub(crate) async fn ask(&self, request: Request<()>) -> Result<Answered, h2::Error> {
        let mut requests = self.requests.clone().ready().await?;
        let (response, _) = requests.send_request(request, true)?;
        read(response).await
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Answered, h2::Error> {
        let (response, _) = self.begin("GET", path, true).await?;
        read(response).await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Result<Answered, h2::Error> {
        let (response, mut sending) = self.begin("POST", path, false).await?;
        sending.send_data(Bytes::copy_from_slice(body.as_bytes()), true)?;
        read(response).await
    }

    /// Waits until the service has closed the connection.
    pub(crate) async fn closed(self) -> Result<(), h2::Error> {
        drop(self.requests);
        within(self.connection).await.unwrap()
    }

    /// Returns whether the connection has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.connection.is_finished()
    }
}

/// Reads an answer to its end.
pub(crate) async fn read(response: ResponseFuture) -> Result<Answered, h2::Error> {
    let (head, mut body) = within(response).await?.into_parts();
    let body = within(whole(&mut body)).await?;
    let head = Response::from_parts(head, ());
    Ok(Answered { status: head.status().as_u16(), head, body })
}

async fn whole(body: &mut RecvStream) -> Result<String, h2::Error> {
    let mut bytes = Vec::new();
    while let Some(part) = body.data().await {
        let part = part?;
        body.flow_control().release_capacity(part.len())?;
        bytes.extend_from_slice(&part);
    }
    Ok(String::from_utf8(bytes).unwrap())
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap()
}
