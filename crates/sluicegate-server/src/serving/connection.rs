//! One connection of a client.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Request, Response, Version};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use super::client::Client;
use super::client_certificate::ClientCertificate;
use super::connection_age::ConnectionAge;
use super::connections::{Seat, Work};
use super::conversation::{Connected, Conversation};
use super::peer::Peer;
use super::protocol::Protocol;
use super::routes::Routes;
use super::socket::{Socket, Wire};
use super::stage::Stages;
use super::stream::{Stream, UntilEnding};
use super::tls::Tls;

/// Time limit of an idle connection, and of a client that sends a request's head. For HTTP/2, the
/// time after which the service checks that an idle client still exists.
const HEAD_PATIENCE: Duration = Duration::from_secs(60);

/// The answers to the clients of a listener.
#[derive(Clone)]
pub(crate) enum Answering {
    /// Routes over HTTP/1.1 and HTTP/2.
    Http(Routes),
    /// Another protocol.
    #[cfg_attr(not(feature = "resp"), expect(dead_code, reason = "no other protocol is built in"))]
    Other(Arc<dyn Conversation>),
}

/// The protocol that the connections of a listener speak, and the way of serving it.
#[derive(Clone)]
pub(crate) struct Served {
    pub(crate) answering: Answering,
    pub(crate) stages: Stages,
    /// Encryption; `None` for plain connections.
    pub(crate) tls: Option<Arc<Tls>>,
    /// The maximum age of connections over HTTP/2.
    pub(crate) age: ConnectionAge,
}

/// Answers the requests of a client until it disconnects, its seat is taken, or the service stops.
pub(super) async fn serve(socket: Socket, peer: Peer, seat: Arc<Seat>, served: Served) {
    let of_connection = Arc::clone(&seat);
    tokio::select! {
        // First, so an answer is written before the seat is given away.
        biased;
        () = converse(socket, peer, of_connection, served) => {}
        () = seat.taken() => {}
    }
}

async fn converse(socket: Socket, peer: Peer, seat: Arc<Seat>, served: Served) {
    let Served { answering, stages, tls, age } = served;
    socket.set_nodelay();
    let socket = Arc::new(socket);
    let wire = Wire(Arc::clone(&socket));
    let is_encrypted = tls.is_some();
    let (stream, agreed, certificate) = match tls {
        None => (Stream::Plain(wire), None, None),
        Some(tls) => {
            let accepted = tokio::select! {
                accepted = tls.accept(wire) => accepted,
                () = stages.clone().ending() => None,
            };
            let Some(accepted) = accepted else { return };
            (Stream::Tls(accepted.stream), accepted.protocol, accepted.certificate)
        }
    };
    let mut stream = UntilEnding::new(stream, Arc::clone(&seat), stages.clone());
    let routes = match answering {
        Answering::Http(routes) => routes,
        Answering::Other(protocol) => {
            let client = Client::new(socket, peer, Protocol::Other, is_encrypted);
            let connected = Connected { stream, client, certificate, seat };
            return protocol.converse(connected).await;
        }
    };
    let protocol = match agreed {
        Some(protocol) => protocol,
        None => match tokio::time::timeout(HEAD_PATIENCE, Protocol::of(&mut stream)).await {
            Ok(Ok((protocol, first))) => {
                stream.read_again(first);
                protocol
            }
            _ => return,
        },
    };
    let client = Client::new(socket, peer, protocol, is_encrypted);
    let answers = answers(routes, Arc::clone(&seat), client, certificate, stages.clone());
    match protocol {
        Protocol::Http2 => http2(stream, answers, &seat, stages, age).await,
        _ => http1(stream, answers).await,
    }
}

async fn http1(stream: UntilEnding, answers: impl Answers) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        // A client may close its sending side and still wait for the response.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), answers);
    // A client that disconnected isn't an error.
    let _ = connection.await;
}

/// Serves requests in streams, which share the connection.
///
/// The client is told to use another connection (GOAWAY) when the service drains, and when the connection has its maximum
/// age. After a drain, a client that has just connected may send one request first. Streams in progress are answered;
/// those of an old connection within its grace.
async fn http2(
    mut stream: UntilEnding,
    answers: impl Answers,
    seat: &Seat,
    stages: Stages,
    age: ConnectionAge,
) {
    stream.outlast();
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(HEAD_PATIENCE)
        .max_concurrent_streams(MOST_STREAMS)
        .max_pending_accept_reset_streams(MOST_STREAMS as usize)
        .max_local_error_reset_streams(MOST_STREAMS as usize)
        .max_header_list_size(MOST_HEADER_BYTES)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(STREAM_WINDOW as usize)
        .serve_connection(TokioIo::new(stream), answers);
    let mut connection = pin!(connection);
    let is_old = tokio::select! {
        biased;
        _ = &mut connection => return,
        () = until_no_more(seat, &stages) => false,
        () = age.reached() => true,
    };
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        biased;
        _ = connection => {}
        () = until_silent(seat, stages) => {}
        () = age.grace_ended(), if is_old => {}
    }
}

/// Maximum number of streams of one connection that are in progress. As many may be reset before they
/// are served; a client that resets more is disconnected.
const MOST_STREAMS: u32 = 100;
/// Maximum size of a request's fields, in bytes.
const MOST_HEADER_BYTES: u32 = 16 * 1024;
/// Maximum number of bytes that a stream's client may send ahead of the service: as many as a body has.
const STREAM_WINDOW: u32 = 64 * 1024;
/// Maximum number of bytes that a connection's client may send ahead of the service.
const CONNECTION_WINDOW: u32 = 256 * 1024;

/// Waits until the client should send further requests to another instance.
async fn until_no_more(seat: &Seat, stages: &Stages) {
    stages.clone().draining().await;
    tokio::select! {
        () = seat.begun() => {}
        () = stages.clone().ending() => {}
    }
}

/// Waits until the service stops and no request has been in progress for a moment. The client has
/// to acknowledge the end of a connection, but may be gone.
async fn until_silent(seat: &Seat, stages: Stages) {
    const MOMENT: Duration = Duration::from_millis(250);
    stages.ending().await;
    let mut was_silent = false;
    loop {
        let is_silent = !seat.has_request();
        if is_silent && was_silent {
            return;
        }
        was_silent = is_silent;
        tokio::time::sleep(MOMENT).await;
    }
}

/// A service that answers a client's requests.
trait Answers:
    Service<
        Request<Incoming>,
        Response = Response<Body>,
        Error = Infallible,
        Future: Future<Output = Result<Response<Body>, Infallible>> + Send + 'static,
    >
{
}

impl<S> Answers for S where
    S: Service<
            Request<Incoming>,
            Response = Response<Body>,
            Error = Infallible,
            Future: Future<Output = Result<Response<Body>, Infallible>> + Send + 'static,
        >
{
}

/// Returns the service that answers a client's requests.
fn answers(
    routes: Routes,
    seat: Arc<Seat>,
    client: Client,
    certificate: Option<ClientCertificate>,
    stages: Stages,
) -> impl Answers {
    service_fn(move |request: Request<Incoming>| {
        let work = seat.begin();
        let arriving = Arc::clone(&work);
        let mut request = request.map(|body| Body::new(Arriving { body, work: arriving }));
        request.extensions_mut().insert(client.clone());
        if let Some(certificate) = &certificate {
            request.extensions_mut().insert(certificate.clone());
        }
        let is_http1 = request.version() < Version::HTTP_2;
        let answer = routes.answer(request);
        let stages = stages.clone();
        async move {
            let mut response = answer.await;
            if is_http1 && stages.is_draining() {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            work.end();
            Ok(response)
        }
    })
}

/// The body of a request. While it hasn't arrived, the request waits for its client.
struct Arriving {
    body: Incoming,
    work: Arc<Work>,
}

impl HttpBody for Arriving {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.body).poll_frame(context);
        if frame.is_ready() {
            this.work.goes_on();
        } else {
            this.work.waits();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
