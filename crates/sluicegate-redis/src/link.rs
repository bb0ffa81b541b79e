//! The way to one server: calls wait in a line, one connection sends them and hands out the answers.
//! It reconnects by itself, and no caller waits beyond its deadline.
//!
//! A call whose caller has given up before it was written is never sent. How many may wait is bounded
//! by how many the server has lately answered in the time that a caller has; the rest is refused at
//! once, so that a server with too much to do is busy with calls that somebody still waits for.

mod backoff;
mod connection;
mod contact;
mod endpoint;
mod line;
mod pace;
mod problem;
mod stream;

use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use sluicegate_core::{StoreError, StoreErrorKind};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::resp::{Command, Value};
use backoff::Backoff;
use connection::{Connection, End, Use};
use contact::Talk;
pub(crate) use endpoint::Endpoint;
pub use endpoint::UrlError;
use line::{Call, Line, Refused, State};
use problem::Problem;

/// How long one attempt to connect may take. It continues in the background after its callers have
/// given up, so that a slow handshake still succeeds.
const CONNECT: Duration = Duration::from_secs(1);

/// The way to one server. Clones share it.
#[derive(Clone)]
pub(crate) struct Link {
    callers: Arc<Callers>,
}

/// All clones of a link: when the last one goes, the connection ends.
struct Callers {
    shared: Arc<Shared>,
}

/// What callers share with whoever serves them.
struct Shared {
    endpoint: Endpoint,
    line: Mutex<Line>,
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

impl Link {
    /// A link that connects at the first use.
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        let shared = Arc::new(Shared { endpoint, line: Mutex::new(Line::new()) });
        Self { callers: Arc::new(Callers { shared }) }
    }

    /// Where it leads.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.callers.shared.endpoint
    }

    /// Sends a command and awaits its answer, at most until the deadline.
    pub(crate) async fn send(
        &self,
        command: Command,
        deadline: Deadline,
    ) -> Result<Value, Failure> {
        let shared = &self.callers.shared;
        let (answer, mut answered) = oneshot::channel();
        let call = Call { command, answer, patience: deadline.patience };
        let ticket = shared.enter(call, deadline)?;
        let Ok(answer) = tokio::time::timeout_at(deadline.at, &mut answered).await else {
            return Err(ticket.give_up(deadline).into());
        };
        // It has left the line, which need not be locked again.
        mem::forget(ticket);
        match answer {
            Ok(Ok(Value::Error(words))) => {
                if words.starts_with(b"NOSCRIPT") {
                    return Err(Failure::NoScript);
                }
                Err(shared.error(Problem::of_command(&words, &shared.endpoint)).into())
            }
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(shared.error(Problem::shut_down()).into()),
        }
    }
}

impl Drop for Callers {
    fn drop(&mut self) {
        let mut line = self.shared.line();
        line.is_closed = true;
        let server = line.server.take();
        drop(line);
        if let Some(server) = server {
            server.wake();
        }
    }
}

/// The place of a call in the line. Dropped before the call was written, it takes the call back.
struct Ticket<'l> {
    shared: &'l Shared,
    number: u64,
}

impl Ticket<'_> {
    /// What to tell a caller whose time is up.
    #[cold]
    fn give_up(&self, deadline: Deadline) -> StoreError {
        let within = deadline.patience.as_millis();
        let mut line = self.shared.line();
        let is_unsent = line.leave(self.number);
        let is_connected = matches!(line.state, State::Connected);
        drop(line);
        self.shared.error(match (is_unsent, is_connected) {
            (true, true) => Problem::overloaded(format!(
                "has more to do than it can within {within} ms; this call was not sent, and nothing was charged"
            )),
            (true, false) => Problem::unavailable(format!(
                "has not answered the connection within {within} ms; nothing was charged"
            )),
            (false, _) => Problem::new(
                StoreErrorKind::Timeout,
                format!("did not answer within {within} ms; whether it charged is unknown"),
            ),
        })
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.shared.line().leave(self.number);
    }
}

impl Shared {
    fn line(&self) -> MutexGuard<'_, Line> {
        // Nothing that is done under this lock panics half way.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a call in. The first caller sees to it that somebody serves.
    fn enter(self: &Arc<Self>, call: Call, deadline: Deadline) -> Result<Ticket<'_>, StoreError> {
        let mut line = self.line();
        let number = match line.enter(call, deadline.at, Instant::now()) {
            Ok(number) => number,
            Err(refused) => {
                drop(line);
                return Err(match refused {
                    Refused::Away(error) => error,
                    Refused::Overloaded { outstanding } => self.overloaded(outstanding, deadline),
                });
            }
        };
        let is_unattended = matches!(line.state, State::Unattended);
        if is_unattended {
            line.state = State::Connecting;
        }
        let server = line.server.take();
        drop(line);
        if let Some(server) = server {
            server.wake();
        }
        if is_unattended {
            tokio::spawn(Attendant { shared: Arc::clone(self) }.run());
        }
        Ok(Ticket { shared: self, number })
    }

    #[cold]
    fn overloaded(&self, outstanding: usize, deadline: Deadline) -> StoreError {
        let within = deadline.patience.as_millis();
        self.error(Problem::overloaded(format!(
            "has {outstanding} calls to answer, more than it can within {within} ms; nothing was charged"
        )))
    }

    #[cold]
    fn error(&self, problem: Problem) -> StoreError {
        let Problem { kind, text, cause } = problem;
        let error = StoreError::new(kind, format!("the store at {} {text}", self.endpoint.address));
        match cause {
            Some(cause) => error.with_source(cause),
            None => error,
        }
    }
}

/// Whoever connects and serves. When its runtime shuts down, the next caller's takes over.
struct Attendant {
    shared: Arc<Shared>,
}

impl Attendant {
    async fn run(self) {
        let mut backoff = Backoff::default();
        let mut replacement = None;
        while let Some(talk) = self.connection(replacement.take(), &mut backoff).await {
            self.shared.line().state = State::Connected;
            let (end, useful) = Connection::new(&self.shared, talk).serve().await;
            self.shared.line().disconnected();
            if useful == Use::Some {
                backoff.reset();
            }
            match end {
                End::Closed => return,
                End::Broken(_) | End::Elsewhere => {}
                End::Replaced(talk) => replacement = Some(talk),
            }
            if useful == Use::None {
                // It takes connections and breaks them: don't come back at once.
                tokio::time::sleep(backoff.pause()).await;
            }
        }
    }

    /// A connection as soon as somebody calls; `None` once nobody can.
    async fn connection(&self, ready: Option<Talk>, backoff: &mut Backoff) -> Option<Talk> {
        if ready.is_some() {
            return ready;
        }
        loop {
            self.call().await?;
            let connecting = contact::connect(&self.shared.endpoint);
            let problem = match tokio::time::timeout(CONNECT, connecting).await {
                Ok(Ok(talk)) => return Some(talk),
                Ok(Err(problem)) => problem,
                Err(_) => Problem::unavailable(format!(
                    "did not accept a connection within {} ms; nothing was charged",
                    CONNECT.as_millis()
                )),
            };
            let until = Instant::now() + backoff.pause();
            self.away(&self.shared.error(problem), until);
            tokio::time::sleep_until(until).await;
            self.shared.line().state = State::Connecting;
        }
    }

    /// Leaves the server alone until then. Whoever waits gets the error, and so does whoever can't wait
    /// for so long.
    fn away(&self, error: &StoreError, until: Instant) {
        let mut line = self.shared.line();
        let calls = line.clear();
        line.state = State::Away { until, error: error.clone() };
        drop(line);
        for call in calls {
            let _ = call.answer.send(Err(error.clone()));
        }
    }

    /// Waits for a call; `None` once there will be none.
    async fn call(&self) -> Option<()> {
        std::future::poll_fn(|context| {
            let mut line = self.shared.line();
            if line.is_wanted() {
                return Poll::Ready(Some(()));
            }
            if line.is_closed {
                return Poll::Ready(None);
            }
            line.server = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl Drop for Attendant {
    fn drop(&mut self) {
        let mut line = self.shared.line();
        line.server = None;
        let state = mem::replace(&mut line.state, State::Unattended);
        let calls = line.clear();
        drop(line);
        let error = match state {
            State::Away { error, .. } => error,
            _ => self.shared.error(Problem::shut_down_before()),
        };
        for call in calls {
            let _ = call.answer.send(Err(error.clone()));
        }
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
