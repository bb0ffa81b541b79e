//! One connection of a client.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::HeaderValue;
use axum::http::header::CONNECTION;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::net::{Shutdown, shutdown};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use super::client::Client;
use super::connections::Seat;
use super::stage::Stages;

/// Time limit of an idle connection, and of a client that sends a request's head.
const HEAD_PATIENCE: Duration = Duration::from_secs(60);

/// Answers the requests of a client until it disconnects, its seat is taken, or the service stops.
pub(crate) async fn serve(stream: TcpStream, seat: Arc<Seat>, router: Router, stages: Stages) {
    // Send short answers immediately: waiting to coalesce them gains nothing.
    let _ = stream.set_nodelay(true);
    let asked = Arc::clone(&seat);
    let router = TowerToHyperService::new(router);
    let stream = Arc::new(stream);
    let client = Client::new(Arc::clone(&stream));
    let stream = UntilEnding {
        stream,
        seat: Arc::clone(&seat),
        ending: Box::pin(stages.clone().ending()),
        has_ended: false,
    };
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        asked.begin();
        let seat = Arc::clone(&asked);
        let mut request = request.map(|body| Body::new(Arriving { body, seat: Arc::clone(&seat) }));
        request.extensions_mut().insert(client.clone());
        let answer = router.call(request);
        let stages = stages.clone();
        async move {
            let mut response = answer.await?;
            if stages.is_draining() {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            seat.answered();
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        // A client may close its sending side and still wait for the response.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        // First, so an answer is written before the seat is given away.
        biased;
        // A client that disconnected isn't an error.
        _ = connection => {}
        () = seat.taken() => {}
    }
}

/// A stream that ends when the service stops, unless there is something to read or a request is in
/// progress. So every request that has arrived is answered.
struct UntilEnding {
    stream: Arc<TcpStream>,
    seat: Arc<Seat>,
    ending: Pin<Box<dyn Future<Output = ()> + Send>>,
    has_ended: bool,
}

impl AsyncRead for UntilEnding {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.stream.poll_read_ready(context)?.is_ready() {
            match this.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read),
            }
        }
        this.has_ended = this.has_ended || this.ending.as_mut().poll(context).is_ready();
        if this.has_ended && !this.seat.has_request() {
            return Poll::Ready(Ok(()));
        }
        Poll::Pending
    }
}

impl UntilEnding {
    /// Reads the received bytes.
    fn read(&self, buffer: &mut ReadBuf<'_>) -> io::Result<()> {
        let room = buffer.remaining();
        let mut count = 0;
        let read = self.stream.try_io(Interest::READABLE, || {
            count = self.stream.try_read_buf(buffer)?;
            // A short read means that nothing is left, so the runtime doesn't need to ask the
            // system again.
            if (1..room).contains(&count) { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        });
        if count > 0 { Ok(()) } else { read }
    }

    /// Writes when the stream is writable.
    fn poll_to_write(
        &self,
        context: &mut Context<'_>,
        mut write: impl FnMut(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.stream.poll_write_ready(context))?;
            match write(&self.stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }
}

impl AsyncWrite for UntilEnding {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_to_write(context, |stream| stream.try_write(bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(shutdown(&self.stream, Shutdown::Write).map_err(Into::into))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_to_write(context, |stream| stream.try_write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

/// The body of a request. While it hasn't arrived, the connection counts as waiting for its client.
struct Arriving {
    body: Incoming,
    seat: Arc<Seat>,
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
            this.seat.works();
        } else {
            this.seat.waits();
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
