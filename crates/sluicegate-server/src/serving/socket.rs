//! The socket of a connection.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::{RecvFlags, Shutdown, recv, shutdown};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::{TcpStream, UnixStream};

/// The socket of a connection.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Calls a method that streams of both kinds have.
macro_rules! on {
    ($socket:expr, $stream:ident => $call:expr) => {
        match $socket {
            Socket::Tcp($stream) => $call,
            Socket::Unix($stream) => $call,
        }
    };
}

impl Socket {
    /// Makes the system send short answers immediately: waiting to coalesce them gains nothing.
    pub(super) fn set_nodelay(&self) {
        if let Self::Tcp(stream) = self {
            let _ = stream.set_nodelay(true);
        }
    }

    /// Bounds the time for which written bytes may stay unconfirmed.
    pub(super) fn bound_unsent(&self, patience: Duration) {
        #[cfg(target_os = "linux")]
        if let Self::Tcp(stream) = self {
            let millis = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
            let _ = rustix::net::sockopt::set_tcp_user_timeout(stream, millis);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = patience;
    }

    /// Closes both sides. A socket that is closed already stays so.
    pub(super) fn disconnect(&self) {
        let _ = shutdown(self, Shutdown::Both);
    }

    /// Waits until the socket is readable, or closed by the peer.
    pub(super) async fn readable(&self) -> io::Result<Ready> {
        on!(self, stream => stream.ready(Interest::READABLE).await)
    }

    /// Waits for bytes, and leaves them there. Returns 0 if the peer has closed its sending side.
    pub(super) async fn peek(&self) -> io::Result<usize> {
        loop {
            self.readable().await?;
            let peeked = self.try_to_read(|| {
                let (_, count) = recv(self, &mut [0_u8; 1][..], RecvFlags::PEEK)?;
                Ok(count)
            });
            match peeked {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                peeked => return peeked,
            }
        }
    }

    fn try_to_read<T>(&self, read: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        on!(self, stream => stream.try_io(Interest::READABLE, read))
    }

    /// Reads the received bytes.
    fn read(&self, buffer: &mut ReadBuf<'_>) -> io::Result<()> {
        let room = buffer.remaining();
        let mut count = 0;
        let read = self.try_to_read(|| {
            count = on!(self, stream => stream.try_read_buf(buffer))?;
            // A short read means that nothing is left, so the runtime doesn't need to ask the
            // system again.
            if (1..room).contains(&count) { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        });
        if count > 0 { Ok(()) } else { read }
    }

    /// Writes when the socket is writable.
    fn poll_to_write(
        &self,
        context: &mut Context<'_>,
        mut write: impl FnMut() -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(on!(self, stream => stream.poll_write_ready(context)))?;
            match write() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        on!(self, stream => stream.as_fd())
    }
}

/// A socket as a stream of bytes.
#[derive(Debug)]
pub(super) struct Wire(pub(super) Arc<Socket>);

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let socket = &*self.0;
        loop {
            ready!(on!(socket, stream => stream.poll_read_ready(context)))?;
            match socket.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read),
            }
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let socket = &*self.0;
        socket.poll_to_write(context, || on!(socket, stream => stream.try_write(bytes)))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(shutdown(&self.0, Shutdown::Write).map_err(Into::into))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let socket = &*self.0;
        socket.poll_to_write(context, || on!(socket, stream => stream.try_write_vectored(slices)))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn the_system_gets_the_bound_of_unconfirmed_bytes() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let socket = Socket::Tcp(stream);
        socket.bound_unsent(Duration::from_secs(30));
        assert_eq!(rustix::net::sockopt::tcp_user_timeout(&socket).unwrap(), 30_000);
    }
}
