//! Accepts connections.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::bound::{Bound, TurnedAway};
use super::connection::{self, Served};
use super::connections::Connections;
use super::peer::Peer;
use super::socket::Socket;

/// A listener, and the state that its connections share.
pub(crate) struct Listener {
    pub(crate) bound: Bound,
    pub(crate) connections: Arc<Connections>,
    pub(crate) served: Served,
}

impl Listener {
    /// Accepts connections and serves them, until `until` completes.
    pub(crate) async fn accept<T>(&self, until: impl Future<Output = T>) -> T {
        /// Pause after the system has run out of files or memory for connections.
        const PAUSE: Duration = Duration::from_millis(100);
        let mut until = pin!(until);
        loop {
            let accepted = tokio::select! {
                accepted = self.bound.accept() => accepted,
                happened = &mut until => return happened,
            };
            // Outside the `select!`, so every accepted connection is served.
            match accepted {
                Ok((socket, peer)) => {
                    serve(socket, peer, &self.connections, &self.served).await;
                }
                Err(error) if is_of_one_client(&error) => {}
                Err(error) => {
                    tracing::error!("can't accept a connection: {error}");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Serves the clients that have already connected, and closes the socket.
    ///
    /// Closing a TCP socket resets connections that are established but not accepted yet. So new
    /// clients are ignored first: a client sees a lost packet, and retries at the next instance or
    /// in vain. Handshakes in progress get at most `patience` to complete. The next process accepts
    /// the clients of a socket that systemd keeps.
    pub(crate) async fn close(self, patience: Duration) {
        /// Time for the rest of a handshake over a long distance.
        const HANDSHAKE: Duration = Duration::from_millis(250);
        match self.bound.turn_away() {
            TurnedAway::NextProcess => return,
            TurnedAway::Soon => self.accept(tokio::time::sleep(HANDSHAKE.min(patience))).await,
            TurnedAway::Now => {}
        }
        let Self { bound, connections, served } = self;
        for (socket, peer) in bound.close() {
            serve(socket, peer, &connections, &served).await;
        }
    }
}

async fn serve(socket: Socket, peer: Peer, connections: &Arc<Connections>, served: &Served) {
    if let Some(seat) = connections.seat(peer).await {
        tokio::spawn(connection::serve(socket, peer, seat, served.clone()));
    }
}

/// Returns `true` if a client gave up before it was accepted.
fn is_of_one_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
    )
}
