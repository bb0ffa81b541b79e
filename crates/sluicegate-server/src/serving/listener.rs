//! Accepts connections.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};

use super::connection;
use super::connections::Connections;
use super::stage::Stages;

/// A listener, and the state that its connections share.
pub(crate) struct Listener {
    pub(crate) socket: TcpListener,
    pub(crate) connections: Arc<Connections>,
    pub(crate) router: Router,
    pub(crate) stages: Stages,
}

impl Listener {
    /// Accepts connections and serves them, until `until` completes.
    pub(crate) async fn accept<T>(&self, until: impl Future<Output = T>) -> T {
        /// Pause after the system has run out of files or memory for connections.
        const PAUSE: Duration = Duration::from_millis(100);
        let mut until = pin!(until);
        loop {
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                happened = &mut until => return happened,
            };
            // Outside the `select!`, so every accepted connection is served.
            match accepted {
                Ok((stream, peer)) => self.serve(stream, peer).await,
                Err(error) if is_of_one_client(&error) => {}
                Err(error) => {
                    tracing::error!("can't accept a connection: {error}");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Serves the clients that have already connected, closes the socket, and returns the
    /// connections.
    ///
    /// Closing a socket resets connections that are established but not accepted yet. So new
    /// clients are ignored first: a client sees a lost packet, and retries at the next instance or
    /// in vain. Handshakes in progress get at most `patience` to complete.
    pub(crate) async fn close(self, patience: Duration) -> Arc<Connections> {
        /// Time for the rest of a handshake over a long distance.
        const HANDSHAKE: Duration = Duration::from_millis(250);
        if turn_away(&self.socket) {
            self.accept(tokio::time::sleep(HANDSHAKE.min(patience))).await;
        }
        let Self { socket, connections, router, stages } = self;
        // Ask the system directly: it sees new connections before the runtime does.
        let Ok(socket) = socket.into_std() else { return connections };
        while let Ok((stream, peer)) = socket.accept() {
            let stream = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
            if let Ok(stream) = stream {
                serve(stream, peer, &connections, &router, &stages).await;
            }
        }
        connections
    }

    async fn serve(&self, stream: TcpStream, peer: SocketAddr) {
        serve(stream, peer, &self.connections, &self.router, &self.stages).await;
    }
}

async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    connections: &Arc<Connections>,
    router: &Router,
    stages: &Stages,
) {
    if let Some(seat) = connections.seat(peer.ip()).await {
        tokio::spawn(connection::serve(stream, seat, router.clone(), stages.clone()));
    }
}

/// Makes the system ignore new connection attempts, while handshakes in progress complete. Returns
/// whether it does.
#[cfg(target_os = "linux")]
fn turn_away(socket: &TcpListener) -> bool {
    use socket2::{SockFilter, SockRef};
    // A program for the system's packet filter. It sees each packet for the socket from the TCP
    // header on, and drops packets with SYN and without ACK.
    const LOAD_BYTE: u16 = 0x30;
    const AND: u16 = 0x54;
    const JUMP_UNLESS_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const FLAGS_AT: u32 = 13;
    const SYN: u32 = 0x02;
    const ACK: u32 = 0x10;
    let program = [
        SockFilter::new(LOAD_BYTE, 0, 0, FLAGS_AT),
        SockFilter::new(AND, 0, 0, SYN | ACK),
        SockFilter::new(JUMP_UNLESS_EQUAL, 0, 1, SYN),
        SockFilter::new(RETURN, 0, 0, 0),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
    ];
    SockRef::from(socket).attach_filter(&program).is_ok()
}

/// Does nothing: other systems have no such filter. Clients that connect in the last microseconds
/// are reset.
#[cfg(not(target_os = "linux"))]
fn turn_away(_: &TcpListener) -> bool {
    false
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
