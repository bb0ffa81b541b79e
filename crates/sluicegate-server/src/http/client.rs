//! The client of a connection, while its request is being answered.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::TcpStream;

/// The client at the other end of a connection: its address, and whether it still waits.
#[derive(Clone, Debug)]
pub(super) struct Client(Arc<TcpStream>);

impl Client {
    pub(super) const fn new(stream: Arc<TcpStream>) -> Self {
        Self(stream)
    }

    /// Returns the address at the other end of the connection; `None` if that is gone.
    pub(super) fn peer(&self) -> Option<IpAddr> {
        Some(self.0.peer_addr().ok()?.ip())
    }

    /// Waits until the client has closed the connection, or its sending side. From here both look
    /// the same.
    pub(super) async fn gone(&self) {
        /// The time between two looks, where nothing tells of a change.
        const PACE: Duration = Duration::from_millis(250);
        let mut next = [0];
        // What has arrived belongs to the next request: it is left for whoever reads that.
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
