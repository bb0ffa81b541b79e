//! A pool of connections to a service.

use std::error::Error;
use std::fmt::Display;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use sluicegate_core::for_stores::Driver;
use sluicegate_core::{Span, StoreError, StoreErrorKind};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use crate::answer::Reply;
use crate::url::ServiceUrl;

/// A pool of connections to one service. The number of idle connections is bounded; that of open
/// ones is not.
pub(crate) struct Connections {
    url: ServiceUrl,
    idle: Mutex<Vec<Sender>>,
}

type Sender = SendRequest<Full<Bytes>>;

/// The deadlines of a call: one for the answer, one for the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    answer: Instant,
    connect: Instant,
    /// Minimum time for the answer once the connection is open.
    left: Duration,
}

impl Deadline {
    /// Maximum time to connect, for a caller that has more time than the deadline.
    const CONNECT: Duration = Duration::from_secs(1);

    /// Returns a deadline this long from now, connecting included.
    pub(crate) fn after(deadline: impl Into<Duration>) -> Self {
        let answer = Instant::now() + deadline.into();
        Self { answer, connect: answer, left: Duration::ZERO }
    }

    /// Returns a deadline for a caller that can spend up to `time` on connecting, capped at 1 s.
    pub(crate) fn connecting_within(deadline: Span, time: Span) -> Self {
        let plain = Self::after(deadline);
        if time.is_zero() {
            return plain;
        }
        let connect = plain.answer + Self::CONNECT.min(time.into());
        Self { connect, left: deadline.into(), ..plain }
    }

    /// Returns a deadline for a call that may wait up to `within` at the service.
    pub(crate) fn waiting(deadline: Span, within: Span) -> Self {
        let Self { answer, connect, .. } = Self::connecting_within(deadline, within);
        Self { answer: answer + within.into(), connect, left: Duration::ZERO }
    }
}

impl Connections {
    /// Maximum number of idle connections.
    const MOST_IDLE: usize = 64;
    /// Size limit of an answer: larger than a list of 1,000 holders with the maximum number of
    /// policies.
    const MOST_BYTES: usize = 4 * 1024 * 1024;

    pub(crate) const fn new(url: ServiceUrl) -> Self {
        Self { url, idle: Mutex::new(Vec::new()) }
    }

    pub(crate) const fn url(&self) -> &ServiceUrl {
        &self.url
    }

    /// Sends a request, and returns the answer.
    pub(crate) async fn exchange(
        self: &Arc<Self>,
        (method, path): (Method, &str),
        token: Option<&HeaderValue>,
        body: Option<Vec<u8>>,
        deadline: Deadline,
    ) -> Result<Reply, StoreError> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url.path()))
            .header(HOST, self.url.authority())
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/json");
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, token);
        }
        let request = request.body(Full::from(body.unwrap_or_default())).map_err(|error| {
            self.failed(
                StoreErrorKind::Unexpected,
                format_args!("can't be asked ({error}); nothing was charged"),
            )
        })?;
        self.send(request, deadline).await
    }

    /// Sends a request once. Replaces a pooled connection that the service closed before the
    /// request was written.
    async fn send(
        self: &Arc<Self>,
        mut request: Request<Full<Bytes>>,
        deadline: Deadline,
    ) -> Result<Reply, StoreError> {
        let mut end = deadline.answer;
        loop {
            let (mut sender, is_new) = match self.take_idle() {
                Some(sender) => (sender, false),
                None => {
                    let sender = self.connect_by(deadline.connect).await?;
                    end = end.max(Instant::now() + deadline.left);
                    (sender, true)
                }
            };
            let answered = async {
                if let Err(error) = sender.ready().await {
                    return Err((Some(request), cause(&error)));
                }
                let response = match sender.try_send_request(request).await {
                    Ok(response) => response,
                    Err(mut error) => {
                        let why = cause(error.error());
                        return Err(match error.take_message() {
                            Some(unsent) => (Some(unsent), why),
                            None => (None, format!("gave no answer ({why}), and may have charged")),
                        });
                    }
                };
                let status = response.status();
                let body = Limited::new(response.into_body(), Self::MOST_BYTES).collect().await;
                body.map(|body| Reply { status, body: body.to_bytes() }).map_err(|error| {
                    let what =
                        format!("answered {}, and not to the end ({error})", status.as_u16());
                    (None, format!("{what}; it may have charged"))
                })
            };
            match timeout_at(end, answered).await {
                Ok(Ok(reply)) => {
                    self.keep(sender);
                    return Ok(reply);
                }
                Ok(Err((Some(unsent), _))) if !is_new => request = unsent,
                Ok(Err((Some(_), why))) => {
                    return Err(self.failed(
                        StoreErrorKind::Unavailable,
                        format_args!("takes no requests ({why}); nothing was charged"),
                    ));
                }
                Ok(Err((None, what))) => {
                    return Err(self.failed(StoreErrorKind::Disconnected, format_args!("{what}")));
                }
                Err(_) => {
                    return Err(self.failed(
                        StoreErrorKind::Timeout,
                        format_args!("did not answer within the deadline, and may have charged"),
                    ));
                }
            }
        }
    }

    /// Connects in a runtime that serves the connection even if this caller's thread is blocked later.
    async fn connect_by(self: &Arc<Self>, end: Instant) -> Result<Sender, StoreError> {
        let connections = Arc::clone(self);
        let connecting = async move { timeout_at(end, connections.connect()).await };
        match Driver::home()?.spawn(connecting).await {
            Ok(Ok(connected)) => connected,
            Ok(Err(_)) => Err(self.unreachable("no connection within the deadline")),
            Err(_) => Err(self.unreachable("the runtime ended")),
        }
    }

    async fn connect(&self) -> Result<Sender, StoreError> {
        let connected = TcpStream::connect((self.url.host(), self.url.port())).await;
        let stream = connected.map_err(|error| self.unreachable(error))?;
        // Send small requests immediately: waiting to coalesce them gains nothing.
        let _ = stream.set_nodelay(true);
        if !self.url.is_encrypted() {
            return self.speak(stream).await;
        }
        #[cfg(feature = "tls")]
        let encrypted = crate::tls::encrypt(stream, self.url.host()).await;
        #[cfg(not(feature = "tls"))]
        let encrypted = Err::<TcpStream, _>(io::Error::new(
            io::ErrorKind::InvalidData,
            "https needs the feature `tls` of sluicegate-client",
        ));
        let stream = encrypted.map_err(|error| {
            let kind = match error.kind() {
                io::ErrorKind::InvalidData => StoreErrorKind::Unexpected,
                _ => StoreErrorKind::Unavailable,
            };
            self.failed(
                kind,
                format_args!("can't be asked over TLS ({error}); nothing was charged"),
            )
        })?;
        self.speak(stream).await
    }

    async fn speak(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> Result<Sender, StoreError> {
        let made = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = made.map_err(|error| self.unreachable(cause(&error)))?;
        // The task ends when the sender is dropped.
        tokio::spawn(connection);
        Ok(sender)
    }

    /// Returns the most recently used connection that is still open.
    fn take_idle(&self) -> Option<Sender> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(sender) = idle.pop() {
            if !sender.is_closed() {
                return Some(sender);
            }
        }
        None
    }

    fn keep(&self, sender: Sender) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < Self::MOST_IDLE && !sender.is_closed() {
            idle.push(sender);
        }
    }

    #[cold]
    fn unreachable(&self, why: impl Display) -> StoreError {
        self.failed(
            StoreErrorKind::Unavailable,
            format_args!(
                "can't be reached ({why}): look whether it runs, and whether this is where it listens; nothing \
                 was charged"
            ),
        )
    }

    #[cold]
    fn failed(&self, kind: StoreErrorKind, what: std::fmt::Arguments<'_>) -> StoreError {
        StoreError::new(kind, format!("the service at {} {what}", self.url))
    }
}

/// The name of the store in errors.
pub(crate) const NAME: &str = "a service";

/// Returns the I/O error behind a hyper error, whose own message omits it; otherwise hyper's
/// message.
fn cause(error: &hyper::Error) -> String {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return error.to_string();
        }
        source = error.source();
    }
    error.to_string()
}
