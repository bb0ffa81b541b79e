//! A proxy that stands before any server and does to its connections what networks do.
//!
//! It passes bytes on, so TLS goes through it as anything else does. Faults are switched while
//! connections are open. What acts on whole replies reads the Redis protocol, version 2 or 3, and
//! does nothing where the server speaks another.
//!
//! Nothing here has to be waited for by sleeping: how far bytes have come is counted.

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

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From clients to the server.
    Requests,
    /// From the server to clients.
    Replies,
}

/// What happens to the bytes that go one way, until something else is said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing: they are passed on at once.
    #[default]
    None,
    /// They are taken and kept: the peer seems to be there and says nothing. With another fault
    /// they go on, late.
    Hold,
    /// They arrive this much later, however many there are.
    Delay(Duration),
    /// They arrive one by one, with this much time before each.
    Dribble(Duration),
    /// So many more bytes are passed on, in whichever connection has as many first; then that
    /// connection is cut, and this fault is over. With 0 it is cut in the place of the first byte.
    CutAfter(u64, Cut),
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// In order: both peers read to the end (FIN).
    Finish,
    /// Broken: both peers get an error (RST).
    Reset,
}

/// What happens once, to the next whole reply of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyFault {
    /// It comes after the reply that follows it.
    Swap,
    /// It comes twice.
    Duplicate,
    /// It does not come.
    Drop,
    /// Half of it comes, and what follows it comes at once.
    Truncate,
}

/// A proxy on a free loopback port, before a server. It ends with this value, and with it all of
/// its connections.
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
    /// `None` only while dropping. Its own, so that no test's clock is its clock.
    runtime: Option<Runtime>,
}

/// What the connections are told, and what they count.
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

/// The faults in force; each connection looks at them whenever they change.
#[derive(Debug, Clone, Copy, Default)]
struct Faults {
    each: [Fault; 2],
    /// How often all connections were cut, and how the last time.
    cuts: u64,
    cut: Option<Cut>,
}

impl Proxy {
    /// Starts it before the server on this port of 127.0.0.1.
    ///
    /// # Errors
    /// When the system gives no port or thread.
    pub fn start(port: u16) -> io::Result<Self> {
        Self::start_before(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }

    /// Starts it before the server at this address.
    ///
    /// # Errors
    /// When the system gives no port or thread.
    pub fn start_before(target: SocketAddr) -> io::Result<Self> {
        // A port of the kit's range, which nobody gets by chance while the proxy refuses.
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

    /// The port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where clients connect to: `redis://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// What happens to the bytes that go this way from now on, in open and in new connections.
    pub fn set(&self, direction: Direction, fault: Fault) {
        self.shared.faults.send_modify(|faults| faults.each[direction as usize] = fault);
    }

    /// No more faults; those of replies that have not happened will not.
    pub fn heal(&self) {
        *lock(&self.shared.reply_fault) = None;
        self.shared.faults.send_modify(|faults| faults.each = [Fault::None; 2]);
    }

    /// What is to happen to the next whole reply, in whichever connection there is one. Pushes of
    /// the third protocol are no replies.
    pub fn set_next_reply(&self, fault: ReplyFault) {
        *lock(&self.shared.reply_fault) = Some(fault);
    }

    /// Whether the reply fault that was set has begun, or none was.
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

    /// Refuses new connections until [`accept`](Self::accept), as a server does that is not there;
    /// open ones stay. Returns once it refuses.
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

    /// Takes new connections again.
    ///
    /// # Errors
    /// When another process has taken the port.
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

    /// How many connections it has accepted so far.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// How many connections are open.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// How many bytes have come to the proxy on their way.
    #[must_use]
    pub fn received(&self, direction: Direction) -> u64 {
        self.shared.received[direction as usize].load(Ordering::SeqCst)
    }

    /// How many bytes the proxy has passed on.
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
            // A test of its own runtime may not wait for another one.
            runtime.shutdown_background();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
