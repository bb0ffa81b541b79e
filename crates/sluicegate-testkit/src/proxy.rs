//! A proxy in front of any server that disturbs its connections as networks do.
//!
//! It forwards bytes, so it also works for TLS. Faults can be switched while connections are open.
//! Faults of whole replies parse the Redis protocol, version 2 or 3, and have no effect on other
//! protocols.
//!
//! A test never needs to sleep: the proxy counts how far bytes have come.

mod relay;
mod replies;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::servers::free_port;
use relay::relay;

/// The direction of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From clients to the server.
    Requests,
    /// From the server to clients.
    Replies,
}

/// The treatment of bytes in one direction, until it is changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Forwards the bytes immediately.
    #[default]
    None,
    /// Accepts and keeps the bytes: the peer seems to be alive, but silent. When the fault changes,
    /// they are forwarded late.
    Hold,
    /// Forwards all bytes this much later.
    Delay(Duration),
    /// Forwards the bytes one by one, each after this delay.
    Dribble(Duration),
    /// Forwards this many more bytes, then cuts the first connection that reaches the count and
    /// ends the fault. With 0, the connection is cut before its first byte.
    CutAfter(u64, Cut),
}

/// The kind of a connection's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// An orderly end: both peers read to the end (FIN).
    Finish,
    /// A broken connection: both peers get an error (RST).
    Reset,
}

/// A single fault of the server's next whole reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyFault {
    /// The reply arrives after the following one.
    Swap,
    /// The reply arrives twice.
    Duplicate,
    /// The reply doesn't arrive.
    Drop,
    /// Half of the reply arrives, directly followed by the next bytes.
    Truncate,
}

/// A proxy on a free loopback port in front of a server. Dropping it ends the proxy and all its
/// connections.
///
/// ```
/// use std::time::Duration;
/// use sluicegate_testkit::proxy::{Direction, Fault, Proxy};
/// use sluicegate_testkit::servers::{Connection, Server};
/// use sluicegate_testkit::wait::until;
///
/// let server = Server::start()?;
/// let proxy = Proxy::start(server.port())?;
/// let mut connection = Connection::open(proxy.port(), Duration::from_secs(5))?;
/// proxy.set(Direction::Replies, Fault::Hold);
/// connection.send(&[b"INCR", b"visits"])?;
/// // The server has charged and answered, and the client hears nothing.
/// until("an answer", || if proxy.received(Direction::Replies) > 0 { Ok(()) } else { Err(()) });
/// assert_eq!(server.cli(&["GET", "visits"])?, "1");
/// proxy.set(Direction::Replies, Fault::None);
/// assert_eq!(connection.receive()?.to_string(), "1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    acceptor: Mutex<Option<JoinHandle<()>>>,
    /// `None` only while dropping. The runtime is the proxy's own, so it doesn't use a test's
    /// clock.
    runtime: Option<Runtime>,
}

/// The settings and counters of the connections.
#[derive(Debug)]
struct Shared {
    target: Mutex<SocketAddr>,
    faults: watch::Sender<Faults>,
    reply_fault: Mutex<Option<ReplyFault>>,
    accepted: AtomicU64,
    open: AtomicU64,
    received: [AtomicU64; 2],
    passed: [AtomicU64; 2],
}

/// The current faults. Each connection reads them whenever they change.
#[derive(Debug, Clone, Copy, Default)]
struct Faults {
    each: [Fault; 2],
    /// The number of times that all connections were cut, and the kind of the last cut.
    cuts: u64,
    cut: Option<Cut>,
}

impl Proxy {
    /// Starts a proxy in front of the server on this port of 127.0.0.1.
    ///
    /// # Errors
    /// Returns an error if the system gives no port or thread.
    pub fn start(port: u16) -> io::Result<Self> {
        Self::start_before(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }

    /// Starts a proxy in front of the server at this address.
    ///
    /// # Errors
    /// Returns an error if the system gives no port or thread.
    pub fn start_before(target: SocketAddr) -> io::Result<Self> {
        // A port of the kit's range, so that no other process gets it by chance while the proxy
        // refuses.
        let listener = loop {
            match TcpListener::bind((Ipv4Addr::LOCALHOST, free_port(Ipv4Addr::LOCALHOST.into())?)) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                outcome => break outcome?,
            }
        };
        let port = listener.local_addr()?.port();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let shared = Arc::new(Shared {
            target: Mutex::new(target),
            faults: watch::Sender::new(Faults::default()),
            reply_fault: Mutex::new(None),
            accepted: AtomicU64::new(0),
            open: AtomicU64::new(0),
            received: Default::default(),
            passed: Default::default(),
        });
        let proxy = Self { port, shared, acceptor: Mutex::new(None), runtime: Some(runtime) };
        proxy.accept_with(listener)?;
        Ok(proxy)
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

    /// Sets the fault for a direction from now on, in open and new connections.
    pub fn set(&self, direction: Direction, fault: Fault) {
        self.shared.faults.send_modify(|faults| faults.each[direction as usize] = fault);
    }

    /// Ends all faults. A reply fault that hasn't happened yet is removed.
    pub fn heal(&self) {
        *lock(&self.shared.reply_fault) = None;
        self.shared.faults.send_modify(|faults| faults.each = [Fault::None; 2]);
    }

    /// Sets the fault of the next whole reply, in any connection. Pushes of protocol version 3
    /// don't count as replies.
    pub fn set_next_reply(&self, fault: ReplyFault) {
        *lock(&self.shared.reply_fault) = Some(fault);
    }

    /// Returns `true` if the last reply fault has begun, or if none was set.
    #[must_use]
    pub fn has_met_a_reply(&self) -> bool {
        lock(&self.shared.reply_fault).is_none()
    }

    /// Cuts all open connections.
    pub fn cut(&self, cut: Cut) {
        self.shared.faults.send_modify(|faults| {
            faults.cuts += 1;
            faults.cut = Some(cut);
        });
    }

    /// Refuses new connections until [`accept`](Self::accept), like a server that is down. Open
    /// connections stay open. Returns once it refuses.
    pub fn refuse(&self) {
        let Some(acceptor) = lock(&self.acceptor).take() else { return };
        acceptor.abort();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        crate::wait::until("the proxy refuses connections", || {
            match TcpStream::connect_timeout(&address, Duration::from_secs(1)) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
                outcome => Err(outcome),
            }
        });
    }

    /// Accepts new connections again.
    ///
    /// # Errors
    /// Returns an error if another process has taken the port.
    pub fn accept(&self) -> io::Result<()> {
        if lock(&self.acceptor).is_some() {
            return Ok(());
        }
        self.accept_with(TcpListener::bind((Ipv4Addr::LOCALHOST, self.port))?)
    }

    /// Sends new connections to another address from now on.
    pub fn set_target(&self, target: SocketAddr) {
        *lock(&self.shared.target) = target;
    }

    /// Returns the number of connections accepted so far.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// Returns the number of bytes that have reached the proxy in a direction.
    #[must_use]
    pub fn received(&self, direction: Direction) -> u64 {
        self.shared.received[direction as usize].load(Ordering::SeqCst)
    }

    /// Returns the number of bytes that the proxy has forwarded in a direction.
    #[must_use]
    pub fn passed(&self, direction: Direction) -> u64 {
        self.shared.passed[direction as usize].load(Ordering::SeqCst)
    }

    fn accept_with(&self, listener: TcpListener) -> io::Result<()> {
        let Some(runtime) = &self.runtime else { return Ok(()) };
        listener.set_nonblocking(true)?;
        let _context = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let shared = Arc::clone(&self.shared);
        let acceptor = runtime.spawn(async move {
            loop {
                let Ok((client, _)) = listener.accept().await else { continue };
                shared.accepted.fetch_add(1, Ordering::SeqCst);
                shared.open.fetch_add(1, Ordering::SeqCst);
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    relay(&shared, client).await;
                    shared.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        *lock(&self.acceptor) = Some(acceptor);
        Ok(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Don't block: the test's runtime must not wait for this one.
            runtime.shutdown_background();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
