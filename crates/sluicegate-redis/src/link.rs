//! One multiplexed connection, which reconnects by itself and never makes a caller wait beyond its
//! deadline.

mod contact;
mod endpoint;
mod problem;

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, PushInfo, PushKind, RedisError, ServerErrorKind, Value,
};
use sluicegate_core::{StoreError, StoreErrorKind};
use tokio::sync::watch;
use tokio::time::Instant;

pub(crate) use endpoint::Endpoint;
pub use endpoint::UrlError;
use problem::Problem;

/// How long one attempt to connect may take. It continues in the background after its callers have
/// given up, so that a slow handshake still succeeds.
const CONNECT: Duration = Duration::from_secs(1);

/// How long a connection may leave calls unanswered, or stay with a server that can't write, before
/// the next call reconnects: the address may resolve to another server by now.
const SILENCE: Duration = Duration::from_secs(1);

/// How many requests may queue for the socket before callers have to wait.
const QUEUE: usize = 4_096;

/// The connection to one server.
#[derive(Clone)]
pub(crate) struct Link {
    shared: Arc<Shared>,
}

struct Shared {
    endpoint: Endpoint,
    connection: ArcSwapOption<Connected>,
    /// The latest attempt to connect, which tells of its end.
    attempt: watch::Sender<Attempt>,
}

/// A connection and its health.
struct Connected {
    connection: MultiplexedConnection,
    since: Instant,
    /// Since when calls have been unanswered, in ms after `since`, plus one; 0 if the last call was
    /// answered.
    silent_from: AtomicU64,
}

/// The deadline of a call to the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    at: Instant,
    patience: Duration,
}

impl Deadline {
    /// A deadline this long from now.
    pub(crate) fn after(patience: Duration) -> Self {
        Self { at: Instant::now() + patience, patience }
    }
}

#[derive(Clone)]
enum Attempt {
    Connecting,
    Failed(StoreError),
    Idle,
}

impl Link {
    /// A link that connects at the first use.
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        let shared = Shared {
            endpoint,
            connection: ArcSwapOption::empty(),
            attempt: watch::Sender::new(Attempt::Idle),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Where it leads.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.shared.endpoint
    }

    /// Sends a command and awaits its reply, at most until the deadline.
    pub(crate) async fn send(&self, command: &Cmd, deadline: Deadline) -> Result<Value, Failure> {
        let within = deadline.patience.as_millis();
        let connected = match self.shared.connection.load_full() {
            Some(connected) => connected,
            None => match tokio::time::timeout_at(deadline.at, self.connect()).await {
                Ok(connected) => connected?,
                Err(_) => {
                    return Err(self
                        .error(Problem::unavailable(format!(
                            "has not answered the connection within {within} ms; nothing was charged"
                        )))
                        .into());
                }
            },
        };
        let mut connection = connected.connection.clone();
        let answer =
            tokio::time::timeout_at(deadline.at, connection.send_packed_command(command)).await;
        let Ok(answer) = answer else {
            if connected.stays_silent(deadline.patience) {
                self.disconnected(&connected);
            }
            let text = format!("did not answer within {within} ms; whether it charged is unknown");
            return Err(self.error(Problem::new(StoreErrorKind::Timeout, text)).into());
        };
        connected.answered();
        answer.and_then(Value::extract_error).map_err(|error| {
            let is_elsewhere = is_of_a_replica(&error) && connected.since.elapsed() >= SILENCE;
            if error.is_unrecoverable_error() || is_elsewhere {
                self.disconnected(&connected);
            }
            if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) {
                return Failure::NoScript;
            }
            self.error(Problem::of_command(&error, self.endpoint())).into()
        })
    }

    /// Waits for a connection. The first caller starts the attempt, which outlives its callers.
    async fn connect(&self) -> Result<Arc<Connected>, Failure> {
        loop {
            let mut attempt = self.shared.attempt.subscribe();
            let starts = self.shared.attempt.send_if_modified(|attempt| {
                let idle = !matches!(attempt, Attempt::Connecting);
                if idle {
                    *attempt = Attempt::Connecting;
                }
                idle
            });
            if starts {
                attempt.mark_unchanged();
                tokio::spawn(Underway::new(self).run());
            }
            if let Some(connection) = self.shared.connection.load_full() {
                return Ok(connection);
            }
            // The sender lives as long as this link.
            let _ = attempt.changed().await;
            if let Some(connection) = self.shared.connection.load_full() {
                return Ok(connection);
            }
            let end = attempt.borrow().clone();
            if let Attempt::Failed(error) = end {
                return Err(error.into());
            }
        }
    }

    async fn attempt(&self) -> Attempt {
        let watched = Arc::downgrade(&self.shared);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT))
            // Every request has its own deadline.
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE)
            .set_push_sender(move |push: PushInfo| {
                if push.kind == PushKind::Disconnection
                    && let Some(shared) = watched.upgrade()
                {
                    shared.connection.store(None);
                }
                Ok::<(), redis::aio::SendError>(())
            });
        let connecting = contact::connect(self.endpoint(), &config);
        match tokio::time::timeout(CONNECT, connecting).await {
            Ok(Ok(connection)) => {
                self.shared.connection.store(Some(Arc::new(Connected {
                    connection,
                    since: Instant::now(),
                    silent_from: AtomicU64::new(0),
                })));
                Attempt::Idle
            }
            Ok(Err(problem)) => Attempt::Failed(self.error(problem)),
            Err(_) => Attempt::Failed(self.error(Problem::unavailable(format!(
                "did not accept a connection within {} ms; nothing was charged",
                CONNECT.as_millis()
            )))),
        }
    }

    fn disconnected(&self, broken: &Arc<Connected>) {
        let current = self.shared.connection.load();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, broken)) {
            self.shared.connection.compare_and_swap(&current, None);
        }
    }

    #[cold]
    fn error(&self, problem: Problem) -> StoreError {
        let Problem { kind, text, cause } = problem;
        let error =
            StoreError::new(kind, format!("the store at {} {text}", self.endpoint().address));
        match cause {
            Some(cause) => error.with_source(cause),
            None => error,
        }
    }
}

impl Connected {
    fn answered(&self) {
        // Write only on a change, because all callers share it.
        if self.silent_from.load(Ordering::Relaxed) != 0 {
            self.silent_from.store(0, Ordering::Relaxed);
        }
    }

    /// Records a call that was unanswered for this long, and returns whether to reconnect. Replies
    /// come in the order of the calls, so no later call was answered either.
    fn stays_silent(&self, patience: Duration) -> bool {
        let age = self.since.elapsed();
        let millis = |age: Duration| u64::try_from(age.as_millis()).unwrap_or(u64::MAX - 1);
        let began = millis(age.saturating_sub(patience));
        let known =
            self.silent_from.compare_exchange(0, began + 1, Ordering::Relaxed, Ordering::Relaxed);
        let began = known.err().map_or(began, |from| from - 1);
        millis(age).saturating_sub(began) >= millis(SILENCE)
    }
}

/// The attempt to connect that is under way. Its end is told when this is dropped, and so once, and
/// of no other attempt: also when its runtime shuts down in the middle of it.
struct Underway {
    link: Link,
    end: Attempt,
}

impl Underway {
    fn new(link: &Link) -> Self {
        let shut_down = Problem::unavailable(
            "was being connected to by a runtime that has ended; nothing was charged",
        );
        Self { link: link.clone(), end: Attempt::Failed(link.error(shut_down)) }
    }

    async fn run(mut self) {
        self.end = self.link.attempt().await;
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        let end = mem::replace(&mut self.end, Attempt::Idle);
        self.link.shared.attempt.send_replace(end);
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("address", &self.endpoint().address).finish_non_exhaustive()
    }
}

/// Why a command has no reply.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server doesn't know the script. Nothing was done.
    NoScript,
    Store(StoreError),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Whether the server is not a primary (any more): its name may resolve to another server.
fn is_of_a_replica(error: &RedisError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown)
    )
}
