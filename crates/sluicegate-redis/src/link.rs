//! One multiplexed connection, which reconnects by itself and never makes a caller wait beyond its
//! deadline.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ErrorKind, IntoConnectionInfo, PushInfo,
    PushKind, RedisError, ServerErrorKind, Value,
};
use sluicegate_core::{StoreError, StoreErrorKind, printable};
use tokio::sync::watch;
use tokio::time::Instant;

/// How long one attempt to connect may take. It continues in the background after its callers have
/// given up, so that a slow handshake still succeeds.
const CONNECT: Duration = Duration::from_secs(1);

/// How long a connection may leave calls unanswered, or stay with a server that can't write, before
/// the next call reconnects: the address may resolve to another server by now.
const SILENCE: Duration = Duration::from_secs(1);

/// How many requests may queue for the socket before callers have to wait.
const QUEUE: usize = 4_096;

/// Why a store URL is invalid.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UrlError(String);

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UrlError {}

/// The connection to one server.
#[derive(Clone)]
pub(crate) struct Link {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    /// The address of the server for error messages, without a password.
    address: String,
    connection: ArcSwapOption<Connected>,
    /// Notifies of the end of an attempt to connect; `Some` while one is under way.
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
    pub(crate) fn new(url: &str) -> Result<Self, UrlError> {
        let url = url
            .strip_prefix("valkey://")
            .map_or_else(|| url.to_owned(), |rest| format!("redis://{rest}"));
        if !url.starts_with("redis://") {
            let scheme = url.split_once("://").map_or("none", |(scheme, _)| scheme);
            return Err(UrlError(format!(
                "the store URL's scheme is `{}`: write redis://HOST:PORT or valkey://HOST:PORT",
                scheme.escape_debug()
            )));
        }
        let malformed = |_: RedisError| {
            UrlError(
                "the store URL is malformed: write redis://[USER:PASSWORD@]HOST:PORT[/DATABASE], and / ? # % @ of a password as %2F %3F %23 %25 %40"
                    .to_owned(),
            )
        };
        let info = url.as_str().into_connection_info().map_err(malformed)?;
        let address = match info.addr() {
            ConnectionAddr::Tcp(host, port) if host.contains(':') => format!("[{host}]:{port}"),
            address => address.to_string(),
        };
        // With RESP3 the client is notified of a disconnection, so that the next request uses a new
        // connection rather than the broken one.
        let redis = info.redis_settings().clone().set_protocol(redis::ProtocolVersion::RESP3);
        let tcp = redis::io::tcp::TcpSettings::default().set_nodelay(true);
        let client = Client::open(info.set_redis_settings(redis).set_tcp_settings(tcp))
            .map_err(malformed)?;
        let shared = Shared {
            client,
            address,
            connection: ArcSwapOption::empty(),
            attempt: watch::Sender::new(Attempt::Idle),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The address of the server for messages.
    pub(crate) fn address(&self) -> &str {
        &self.shared.address
    }

    /// Sends a command and awaits its reply, at most until the deadline.
    pub(crate) async fn send(&self, command: &Cmd, deadline: Deadline) -> Result<Value, Failure> {
        let within = deadline.patience.as_millis();
        let connected = match self.shared.connection.load_full() {
            Some(connected) => connected,
            None => match tokio::time::timeout_at(deadline.at, self.connect()).await {
                Ok(connected) => connected?,
                Err(_) => {
                    let problem = format!(
                        "has not answered the connection within {within} ms; nothing was charged"
                    );
                    return Err(self.error(StoreErrorKind::Unavailable, &problem).into());
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
            let problem =
                format!("did not answer within {within} ms; whether it charged is unknown");
            return Err(self.error(StoreErrorKind::Timeout, &problem).into());
        };
        connected.answered();
        answer.and_then(Value::extract_error).map_err(|error| {
            let is_elsewhere = is_of_a_replica(&error) && connected.since.elapsed() >= SILENCE;
            if error.is_unrecoverable_error() || is_elsewhere {
                self.disconnected(&connected);
            }
            self.failure(&error)
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
                let unfinished = Unfinished(self.clone());
                tokio::spawn(async move { unfinished.0.attempt().await });
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

    async fn attempt(&self) {
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
        let connecting = self.shared.client.get_multiplexed_async_connection_with_config(&config);
        let end = match tokio::time::timeout(CONNECT, connecting).await {
            Ok(Ok(connection)) => {
                self.shared.connection.store(Some(Arc::new(Connected {
                    connection,
                    since: Instant::now(),
                    silent_from: AtomicU64::new(0),
                })));
                Attempt::Idle
            }
            Ok(Err(error)) => Attempt::Failed(self.connect_error(&error)),
            Err(_) => Attempt::Failed(self.error(
                StoreErrorKind::Unavailable,
                &format!(
                    "did not accept a connection within {} ms; nothing was charged",
                    CONNECT.as_millis()
                ),
            )),
        };
        self.shared.attempt.send_replace(end);
    }

    fn disconnected(&self, broken: &Arc<Connected>) {
        let current = self.shared.connection.load();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, broken)) {
            self.shared.connection.compare_and_swap(&current, None);
        }
    }

    fn failure(&self, error: &RedisError) -> Failure {
        let refused;
        let (kind, problem) = match error.kind() {
            ErrorKind::Server(ServerErrorKind::NoScript) => return Failure::NoScript,
            ErrorKind::Parse => (StoreErrorKind::Unexpected, "does not speak the Redis protocol"),
            ErrorKind::Io => (
                StoreErrorKind::Disconnected,
                "broke the connection before it answered; whether it charged is unknown",
            ),
            ErrorKind::Server(ServerErrorKind::ReadOnly) => (
                StoreErrorKind::Unavailable,
                "is a read-only replica: connect to the primary; nothing was charged",
            ),
            ErrorKind::Server(ServerErrorKind::BusyLoading) => {
                (StoreErrorKind::Unavailable, "is loading its data; nothing was charged")
            }
            ErrorKind::Server(ServerErrorKind::NoPerm) => (
                StoreErrorKind::Unexpected,
                "does not allow a command: the user needs EVALSHA, EVAL, TIME, GET, SET, GETRANGE, SETRANGE, STRLEN, PEXPIRE and DEL",
            ),
            _ if is_missing_password(error) => (StoreErrorKind::Unexpected, PASSWORD),
            _ => {
                refused = format!("refused the command: {}", words(error));
                (StoreErrorKind::Unexpected, refused.as_str())
            }
        };
        self.error(kind, problem).with_source(error.clone()).into()
    }

    fn connect_error(&self, error: &RedisError) -> StoreError {
        let refused;
        let (kind, problem) = match error.kind() {
            ErrorKind::AuthenticationFailed => (StoreErrorKind::Unexpected, PASSWORD),
            _ if is_missing_password(error) => (StoreErrorKind::Unexpected, PASSWORD),
            ErrorKind::Parse => (StoreErrorKind::Unexpected, "does not speak the Redis protocol"),
            ErrorKind::RESP3NotSupported => (
                StoreErrorKind::Unexpected,
                "is older than Redis 6.2, the oldest version that works",
            ),
            kind if kind != ErrorKind::Io && error.detail().is_some() => {
                refused = format!("refused the connection: {}; nothing was charged", words(error));
                (StoreErrorKind::Unavailable, refused.as_str())
            }
            _ => (StoreErrorKind::Unavailable, "can't be reached; nothing was charged"),
        };
        self.error(kind, problem).with_source(error.clone())
    }

    #[cold]
    fn error(&self, kind: StoreErrorKind, problem: &str) -> StoreError {
        StoreError::new(kind, format!("the store at {} {problem}", self.shared.address))
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

/// Ends an attempt whose runtime shuts down, so that no caller waits for it.
struct Unfinished(Link);

impl Drop for Unfinished {
    fn drop(&mut self) {
        let link = &self.0;
        link.shared.attempt.send_if_modified(|attempt| {
            let unfinished = matches!(attempt, Attempt::Connecting);
            if unfinished {
                *attempt = Attempt::Failed(link.error(
                    StoreErrorKind::Unavailable,
                    "was being connected to by a runtime that has ended; nothing was charged",
                ));
            }
            unfinished
        });
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("address", &self.shared.address).finish_non_exhaustive()
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

const PASSWORD: &str = "wants another user or password: write them into the URL, redis://USER:PASSWORD@HOST:PORT (USER may be empty)";

/// The error message of a server, shortened, and escaped for a terminal.
fn words(error: &RedisError) -> String {
    const MOST: usize = 200;
    let code = error.code().unwrap_or_default();
    let detail = error.detail().unwrap_or_default();
    // Leave out which script it was.
    let detail = detail.split_once(" script: ").map_or(detail, |(detail, _)| detail);
    let words = format!("{code} {detail}");
    let words: String = words.trim().trim_end_matches('.').chars().take(MOST).collect();
    printable(&words)
}

/// Whether the server is not a primary (any more): its name may resolve to another server.
fn is_of_a_replica(error: &RedisError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown)
    )
}

fn is_missing_password(error: &RedisError) -> bool {
    matches!(error.code(), Some("NOAUTH" | "WRONGPASS"))
}
