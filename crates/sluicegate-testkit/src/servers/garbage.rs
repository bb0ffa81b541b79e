//! A server that misbehaves.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// The misbehavior of a [`GarbageServer`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Misbehaviour {
    /// Answers every piece it reads with these bytes.
    Answer(Vec<u8>),
    /// Reads everything and never answers.
    Silence,
    /// Closes each connection as soon as it is accepted.
    Close,
}

/// A TCP server on a free loopback port that never behaves like Redis, for tests of failures. A
/// store must return from it within its deadline, with a typed error. Dropping it ends the server.
///
/// ```
/// use std::time::Duration;
/// use sluicegate_testkit::servers::{Connection, GarbageServer, Misbehaviour};
///
/// let server = GarbageServer::start(Misbehaviour::Answer(b"HTTP/1.1 400\r\n".to_vec()))?;
/// let mut connection = Connection::open(server.port(), Duration::from_secs(5))?;
/// assert!(connection.command(&[b"PING"]).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct GarbageServer {
    port: u16,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    misbehaviour: Misbehaviour,
    stopping: AtomicBool,
    accepted: AtomicUsize,
    /// Second handles of the connections, to close them at the end.
    open: Mutex<Vec<TcpStream>>,
}

impl GarbageServer {
    /// Starts the server. It accepts connections as soon as this returns.
    ///
    /// # Errors
    /// Returns an error if the system gives no port.
    pub fn start(misbehaviour: Misbehaviour) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            misbehaviour,
            stopping: AtomicBool::new(false),
            accepted: AtomicUsize::new(0),
            open: Mutex::new(Vec::new()),
        });
        let acceptor = thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.accept_all(&listener)
        });
        Ok(Self { port, shared, acceptor: Some(acceptor) })
    }

    /// Returns the port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the URL for clients: `redis://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Returns the number of connections accepted so far.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for GarbageServer {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the acceptor. If the connection is refused, it has ended already.
        drop(TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))));
        if let Some(acceptor) = self.acceptor.take() {
            drop(acceptor.join());
        }
        let open = self.shared.open.lock().unwrap_or_else(PoisonError::into_inner);
        for stream in open.iter() {
            drop(stream.shutdown(Shutdown::Both));
        }
    }
}

impl Shared {
    fn accept_all(self: &Arc<Self>, listener: &TcpListener) {
        for stream in listener.incoming() {
            if self.stopping.load(Ordering::SeqCst) {
                return;
            }
            let Ok(stream) = stream else { continue };
            self.accepted.fetch_add(1, Ordering::SeqCst);
            if self.misbehaviour == Misbehaviour::Close {
                continue;
            }
            if let Ok(handle) = stream.try_clone() {
                self.open.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
                let shared = Arc::clone(self);
                thread::spawn(move || shared.serve(stream));
            }
        }
    }

    fn serve(&self, mut stream: TcpStream) {
        let mut piece = [0; 4096];
        while let Ok(1..) = stream.read(&mut piece) {
            if let Misbehaviour::Answer(bytes) = &self.misbehaviour
                && stream.write_all(bytes).is_err()
            {
                break;
            }
        }
        // The second handle would keep the connection half open.
        drop(stream.shutdown(Shutdown::Both));
    }
}
