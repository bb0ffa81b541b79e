//! A stream of bytes to a server, over any transport.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::endpoint::Endpoint;
use super::problem::Problem;
#[cfg(feature = "tls")]
use super::tls::{self, Encrypted};
use crate::redis_url::Place;

/// A stream of bytes to a server. Written bytes must be flushed.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    #[cfg(feature = "tls")]
    Tls(Box<Encrypted>),
}

impl Stream {
    /// Connects, and encrypts if configured. A name is resolved each time, because it may refer to another
    /// server by now.
    pub(super) async fn connect(endpoint: &Endpoint) -> Result<Self, Problem> {
        let stream = Self::bare(&endpoint.place).await.map_err(Problem::unreachable)?;
        match (stream, &endpoint.tls) {
            #[cfg(feature = "tls")]
            (Self::Tcp(stream), Some(options)) => {
                let encrypted = tls::encrypt(stream, options, endpoint).await?;
                Ok(Self::Tls(Box::new(encrypted)))
            }
            (stream, _) => Ok(stream),
        }
    }

    /// Connects without encryption.
    pub(super) async fn bare(place: &Place) -> io::Result<Self> {
        match place {
            Place::Tcp(host) => {
                let stream = TcpStream::connect((host.name.as_str(), host.port)).await?;
                // Each call is written as a whole and awaits its answer, so don't delay small packets.
                stream.set_nodelay(true)?;
                Ok(Self::Tcp(stream))
            }
            Place::Unix(path) => UnixStream::connect(path).await.map(Self::Unix),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
            #[cfg(feature = "tls")]
            Self::Tls(encrypted) => Pin::new(&mut encrypted.stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
            #[cfg(feature = "tls")]
            Self::Tls(encrypted) => Pin::new(&mut encrypted.stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Self::Unix(stream) => Pin::new(stream).poll_flush(context),
            #[cfg(feature = "tls")]
            Self::Tls(encrypted) => Pin::new(&mut encrypted.stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            #[cfg(feature = "tls")]
            Self::Tls(encrypted) => Pin::new(&mut encrypted.stream).poll_shutdown(context),
        }
    }
}
