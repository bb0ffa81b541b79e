//! The stream of bytes of a connection.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use super::connections::Seat;
use super::socket::Wire;
use super::stage::Stages;

/// The stream of a connection: plain or encrypted.
#[derive(Debug)]
pub(super) enum Stream {
    Plain(Wire),
    Tls(Box<TlsStream<Wire>>),
}

/// A stream that ends when the service stops, unless there is something to read or a request is in
/// progress. So every request that has arrived is answered.
pub(crate) struct UntilEnding {
    stream: Stream,
    /// Bytes that were read before, and are read again.
    first: Bytes,
    seat: Arc<Seat>,
    ending: Pin<Box<dyn Future<Output = ()> + Send>>,
    has_ended: bool,
}

impl UntilEnding {
    pub(super) fn new(stream: Stream, seat: Arc<Seat>, stages: Stages) -> Self {
        let ending = Box::pin(stages.ending());
        Self { stream, first: Bytes::new(), seat, ending, has_ended: false }
    }

    /// Returns the bytes that were read first to the stream.
    pub(super) fn read_again(&mut self, first: Vec<u8>) {
        self.first = first.into();
    }

    /// Keeps the stream open when the service stops: its protocol ends it.
    pub(super) fn outlast(&mut self) {
        self.ending = Box::pin(std::future::pending());
    }
}

impl AsyncRead for UntilEnding {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.first.is_empty() {
            let count = buffer.remaining().min(this.first.len());
            buffer.put_slice(&this.first.split_to(count));
            return Poll::Ready(Ok(()));
        }
        if let read @ Poll::Ready(_) = Pin::new(&mut this.stream).poll_read(context, buffer) {
            return read;
        }
        this.has_ended = this.has_ended || this.ending.as_mut().poll(context).is_ready();
        if this.has_ended && !this.seat.has_request() {
            return Poll::Ready(Ok(()));
        }
        Poll::Pending
    }
}

impl AsyncWrite for UntilEnding {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// Calls a method of the stream, which both kinds have.
macro_rules! on {
    ($stream:expr, $each:ident => $call:expr) => {
        match $stream {
            Stream::Plain($each) => $call,
            Stream::Tls($each) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        on!(self.get_mut(), stream => Pin::new(stream).poll_read(context, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        on!(self.get_mut(), stream => Pin::new(stream).poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        on!(self.get_mut(), stream => Pin::new(stream).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        on!(self.get_mut(), stream => Pin::new(stream).poll_shutdown(context))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on!(self.get_mut(), stream => Pin::new(stream).poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        on!(self, stream => stream.is_write_vectored())
    }
}
