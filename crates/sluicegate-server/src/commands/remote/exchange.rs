//! One request and its answer.

use std::io;

use axum::body::Bytes;
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use axum::http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::tls;
use super::url::ServiceUrl;

/// The largest answer that is read: more than a list of a thousand who hold as many policies as can be.
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// What a service answered.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Problem {
    /// What was given can't be used.
    Usage(String),
    /// There is no connection, and nothing was charged: what follows its name.
    Unreachable(String),
    /// The service failed: what follows its name.
    Service(String),
}

/// Sends a body, or asks what is at a path, and reads the answer.
pub(super) async fn send(
    service: &ServiceUrl,
    path: &str,
    token: Option<&str>,
    body: Option<Vec<u8>>,
) -> Result<Reply, Problem> {
    let request = request(service, path, token, body)?;
    let connected = TcpStream::connect((&*service.host, service.port)).await;
    let stream = connected.map_err(|error| {
        Problem::Unreachable(format!(
            "can't be reached ({error}): look whether it runs, and whether this is where it \
             listens; nothing was charged"
        ))
    })?;
    // A small request and its answer: nothing is gained by waiting for more to send.
    let _ = stream.set_nodelay(true);
    if service.is_encrypted {
        let stream = tls::encrypt(stream, &service.host).await.map_err(Problem::Service)?;
        exchange(stream, request).await
    } else {
        exchange(stream, request).await
    }
}

fn request(
    service: &ServiceUrl,
    path: &str,
    token: Option<&str>,
    body: Option<Vec<u8>>,
) -> Result<Request<Full<Bytes>>, Problem> {
    let method = if body.is_some() { Method::POST } else { Method::GET };
    let mut request = Request::builder()
        .method(method)
        .uri(format!("{}{path}", service.path))
        .header(HOST, &service.authority)
        .header(ACCEPT, "application/json")
        .header(CONTENT_TYPE, "application/json");
    if let Some(token) = token {
        let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| {
            Problem::Usage(
                "--admin-token (or SLUICEGATE_ADMIN_TOKEN) holds characters that can't be sent"
                    .to_owned(),
            )
        })?;
        value.set_sensitive(true);
        request = request.header(AUTHORIZATION, value);
    }
    request
        .body(Full::from(body.unwrap_or_default()))
        .map_err(|error| Problem::Usage(format!("--server: {error}")))
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Reply, Problem> {
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
    // It ends with the sender, or with the command.
    tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(|error| broken(&error))?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MOST_BYTES).collect().await;
    let body = body.map_err(|error| {
        Problem::Service(format!("answered {}, and not to the end: {error}", status.as_u16()))
    })?;
    Ok(Reply { status, body: body.to_bytes() })
}

fn broken(error: &hyper::Error) -> Problem {
    let mut cause = std::error::Error::source(error);
    let mut why = error.to_string();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            why = error.to_string();
        }
        cause = error.source();
    }
    Problem::Service(format!("gave no answer ({why}), and may have charged"))
}
