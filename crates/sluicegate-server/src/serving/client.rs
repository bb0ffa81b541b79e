//! The client of a connection while its request is answered.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::TcpStream;

/// The client of a connection: its address, and whether it still waits.
#[derive(Clone, Debug)]
pub(crate) struct Client(Arc<TcpStream>);

impl Client {
    pub(crate) const fn new(stream: Arc<TcpStream>) -> Self {
        Self(stream)
    }

    /// Returns the peer's address, or `None` if the connection is gone.
    pub(crate) fn peer(&self) -> Option<IpAddr> {
        Some(self.0.peer_addr().ok()?.ip())
    }

    /// Waits until the client closes the connection, or its sending side. The service can't
    /// distinguish the two.
    pub(crate) async fn gone(&self) {
        /// Interval between checks when no event signals a change.
        const PACE: Duration = Duration::from_millis(250);
        let mut next = [0];
        // Received bytes belong to the next request, so only peek at them.
        while matches!(self.0.peek(&mut next).await, Ok(1..)) {
            match self.0.ready(Interest::READABLE).await {
                Ok(ready) if !ready.is_read_closed() => tokio::time::sleep(PACE).await,
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    async fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (theirs, ours) = tokio::join!(TcpStream::connect(address), listener.accept());
        (theirs.unwrap(), ours.unwrap().0)
    }

    #[tokio::test]
    async fn a_client_that_hangs_up_is_noticed_and_what_it_sent_is_left() {
        for sends in [&b""[..], b"GET / HTTP/1.1"] {
            let (mut theirs, ours) = connected().await;
            let ours = Arc::new(ours);
            let client = Client::new(Arc::clone(&ours));
            theirs.write_all(sends).await.unwrap();
            let gone = tokio::spawn(async move { client.gone().await });
            drop(theirs);
            tokio::time::timeout(Duration::from_secs(60), gone).await.unwrap().unwrap();
            let mut left = Vec::new();
            Arc::into_inner(ours).unwrap().read_to_end(&mut left).await.unwrap();
            assert_eq!(left, sends);
        }
    }

    #[tokio::test]
    async fn a_client_that_waits_is_waited_for() {
        for sends in [&b""[..], b"GET / HTTP/1.1"] {
            let (mut theirs, ours) = connected().await;
            let client = Client::new(Arc::new(ours));
            theirs.write_all(sends).await.unwrap();
            let gone = tokio::time::timeout(Duration::from_millis(20), client.gone()).await;
            assert!(gone.is_err());
            drop(theirs);
        }
    }
}
