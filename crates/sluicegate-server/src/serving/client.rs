//! The client of a connection while its request is answered.

use std::future::pending;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::peer::Peer;
use super::protocol::Protocol;
use super::socket::Socket;

/// The client of a connection: its address, and whether it still waits.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    socket: Arc<Socket>,
    peer: Peer,
    protocol: Protocol,
    is_encrypted: bool,
}

impl Client {
    pub(super) const fn new(
        socket: Arc<Socket>,
        peer: Peer,
        protocol: Protocol,
        is_encrypted: bool,
    ) -> Self {
        Self { socket, peer, protocol, is_encrypted }
    }

    /// Returns the scheme of the URLs that this connection serves.
    #[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "only spans have it"))]
    pub(crate) const fn scheme(&self) -> &'static str {
        if self.is_encrypted { "https" } else { "http" }
    }

    /// Returns the peer's address. A peer on a Unix socket has the loopback address.
    pub(crate) const fn peer(&self) -> IpAddr {
        self.peer.address()
    }

    /// Makes the system close the connection and drop what is unsent, if the client doesn't confirm it for this long. Does
    /// nothing on a Unix socket, and on systems without such a bound.
    pub(crate) fn bound_unsent(&self, patience: Duration) {
        self.socket.bound_unsent(patience);
    }

    /// Closes the connection, regardless of unsent bytes.
    pub(crate) fn disconnect(&self) {
        self.socket.disconnect();
    }

    /// Waits until the client closes the connection, or its sending side. The service can't
    /// distinguish the two.
    ///
    /// Never completes for HTTP/2, where a request ends when its stream does.
    pub(crate) async fn gone(&self) {
        /// Interval between checks when no event signals a change.
        const PACE: Duration = Duration::from_millis(250);
        if self.protocol == Protocol::Http2 {
            return pending().await;
        }
        // Received bytes belong to the next request, so only peek at them.
        while matches!(self.socket.peek().await, Ok(1..)) {
            match self.socket.readable().await {
                Ok(ready) if !ready.is_read_closed() => tokio::time::sleep(PACE).await,
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream, UnixStream};

    use super::super::socket::Wire;
    use super::*;

    async fn connected() -> [(Box<dyn AsyncWrite + Send + Unpin>, Arc<Socket>); 2] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (theirs, ours) = tokio::join!(TcpStream::connect(address), listener.accept());
        let tcp = (Box::new(theirs.unwrap()) as Box<_>, Arc::new(Socket::Tcp(ours.unwrap().0)));
        let (theirs, ours) = UnixStream::pair().unwrap();
        [tcp, (Box::new(theirs), Arc::new(Socket::Unix(ours)))]
    }

    fn client(socket: &Arc<Socket>) -> Client {
        Client::new(Arc::clone(socket), Peer::Unix, Protocol::Http1, false)
    }

    #[tokio::test]
    async fn a_client_that_hangs_up_is_noticed_and_what_it_sent_is_left() {
        for sends in [&b""[..], b"GET / HTTP/1.1"] {
            for (mut theirs, ours) in connected().await {
                let client = client(&ours);
                theirs.write_all(sends).await.unwrap();
                let gone = tokio::spawn(async move { client.gone().await });
                drop(theirs);
                tokio::time::timeout(Duration::from_secs(60), gone).await.unwrap().unwrap();
                let mut left = Vec::new();
                Wire(ours).read_to_end(&mut left).await.unwrap();
                assert_eq!(left, sends);
            }
        }
    }

    #[tokio::test]
    async fn a_client_that_waits_is_waited_for() {
        for sends in [&b""[..], b"GET / HTTP/1.1"] {
            for (mut theirs, ours) in connected().await {
                theirs.write_all(sends).await.unwrap();
                let client = client(&ours);
                let gone = tokio::time::timeout(Duration::from_millis(20), client.gone()).await;
                assert!(gone.is_err());
                drop(theirs);
            }
        }
    }
}
