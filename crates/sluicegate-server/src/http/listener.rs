//! Accepting connections.

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

/// A listener, and what becomes of its connections.
pub(super) struct Listener {
    pub(super) socket: TcpListener,
    pub(super) connections: Arc<Connections>,
    pub(super) router: Router,
    pub(super) stages: Stages,
}

impl Listener {
    /// Accepts connections and serves them, until something else happens.
    pub(super) async fn accept<T>(&self, until: impl Future<Output = T>) -> T {
        /// How long to wait when the system has no more files or memory for connections.
        const PAUSE: Duration = Duration::from_millis(100);
        let mut until = pin!(until);
        loop {
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                happened = &mut until => return happened,
            };
            // Whatever happens: who has been accepted is served.
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

    /// Serves those who have connected already and closes the socket; returns the connections.
    ///
    /// Closing a socket resets whoever has connected and isn't accepted yet. So nobody may begin to
    /// connect any more, which a client takes for a lost packet and tries again, at the next instance
    /// or in vain; and who has begun gets a moment, at most `patience`, to come through.
    pub(super) async fn close(self, patience: Duration) -> Arc<Connections> {
        /// What the rest of a handshake takes over a long way.
        const HANDSHAKE: Duration = Duration::from_millis(250);
        if turn_away(&self.socket) {
            self.accept(tokio::time::sleep(HANDSHAKE.min(patience))).await;
        }
        let Self { socket, connections, router, stages } = self;
        // Asks the system, which knows earlier than the runtime who has come.
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

/// Makes the system ignore who begins to connect, and let those go on who have begun. Says whether it
/// does.
#[cfg(target_os = "linux")]
fn turn_away(socket: &TcpListener) -> bool {
    use socket2::{SockFilter, SockRef};
    // A program for the system's packet filter: of what arrives for the socket, beginning with the
    // header of TCP, it drops what has the flag SYN and not ACK.
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

/// Other systems have no such filter: the few who connect in the last microseconds are reset.
#[cfg(not(target_os = "linux"))]
fn turn_away(_: &TcpListener) -> bool {
    false
}

/// Whether a client gave up before it was accepted.
fn is_of_one_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
    )
}
