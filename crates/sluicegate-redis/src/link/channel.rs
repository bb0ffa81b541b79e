//! One connection to a server, with the calls that wait for it. It reconnects by itself.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use sluicegate_core::for_stores::Batch;
use sluicegate_core::{Acknowledgement, StoreError, StoreErrorKind};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::Deadline;
use super::backoff::Backoff;
use super::connection::{Connection, End, Use};
use super::endpoint::Endpoint;
use super::handshake::Talk;
use super::problem::Problem;
use super::send_queue::{Caller, Refused, State, Told, Waiting};
use super::server::Server;
use super::shared_queue::SharedQueue;
use super::trace;
use crate::call::Call;
use crate::resp::Value;

/// A queue of calls, and the task that serves it over one connection at a time. Dropping it ends the
/// connection once all callers have an answer.
pub(super) struct Channel {
    shared: Arc<SharedQueue>,
    /// Whether the last caller was refused because of earlier calls.
    is_crowded: AtomicBool,
}

impl Channel {
    /// Returns a channel that connects at its first use, with batches of up to `batch` calls.
    pub(super) fn new(server: Server, batch: usize) -> Self {
        Self::with(server, batch, None)
    }

    /// Returns a channel on which replicas must acknowledge each call.
    pub(super) fn acknowledged(mut server: Server, batch: usize, by: Acknowledgement) -> Self {
        server.endpoint.waits = true;
        Self::with(server, batch, Some(by))
    }

    fn with(server: Server, batch: usize, acknowledgement: Option<Acknowledgement>) -> Self {
        let shared = Arc::new(SharedQueue::new(server, batch, acknowledgement));
        Self { shared, is_crowded: AtomicBool::new(false) }
    }

    /// Returns the server of the channel.
    pub(super) fn server(&self) -> &Server {
        &self.shared.server
    }

    fn endpoint(&self) -> &Endpoint {
        &self.shared.server.endpoint
    }

    /// Returns an error if a call would be refused because of earlier ones. Called before a call is written,
    /// so that refusing takes little of the time for serving others.
    pub(super) fn admits(&self, deadline: Deadline) -> Result<(), StoreError> {
        if !self.is_crowded.load(Ordering::Relaxed) {
            return Ok(());
        }
        let crowd = self.shared.queue().crowd(deadline.patience, Instant::now());
        crowd.map_or(Ok(()), |outstanding| Err(self.overloaded(outstanding, deadline)))
    }

    /// Sends a call. The future returns its outcome, or an error after the deadline.
    // The call is in the queue before the future is there, which would only have to carry it.
    pub(super) fn ask(
        &self,
        call: Call,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Told, StoreError>> {
        let shared = &self.shared;
        let (answer, mut answered) = oneshot::channel();
        let Deadline { at, patience, .. } = deadline;
        let caller = Caller { answer, deadline: at, patience, was_late: false };
        let batch = Batch::current();
        let span = trace::call(&call, self.endpoint());
        let entered = self.enter(Waiting { call, caller, batch }, deadline);
        let asking = async move {
            let ticket = entered.inspect_err(trace::failed)?;
            let Ok(told) = tokio::time::timeout_at(ticket.deadline.at, &mut answered).await else {
                let error = ticket.give_up();
                trace::failed(&error);
                return Err(error);
            };
            // The call has left the queue, which doesn't need to be locked again.
            mem::forget(ticket);
            match told {
                Ok(Told::Value(Value::Error(words))) => {
                    Err(shared.error(Problem::of_command(&words, &shared.server.endpoint)))
                }
                Ok(Told::Failed(error)) => Err(error),
                Ok(told) => Ok(told),
                Err(_) => Err(shared.error(Problem::shut_down())),
            }
            .inspect_err(trace::failed)
        };
        asking.instrument(span)
    }

    /// Returns the error of a caller with an outcome other than a reply.
    #[cold]
    pub(super) fn no_reply(&self, told: Told) -> StoreError {
        match told {
            Told::Failed(error) => error,
            Told::Late => self.shared.error(Problem::late()),
            Told::Redirected(_) => self.shared.error(Problem::cluster_node(self.endpoint())),
            Told::Unacknowledged(it) => {
                self.shared.error(Problem::unacknowledged(it.wanted, &it.reply, self.endpoint()))
            }
            Told::Said(_) | Told::Value(_) => self.shared.error(Problem::no_protocol()),
        }
    }

    /// Adds a call. The first caller starts the task that serves the queue.
    fn enter(&self, mut waiting: Waiting, deadline: Deadline) -> Result<Ticket<'_>, StoreError> {
        let mut queue = self.shared.queue();
        let deadline = if queue.is_ready() { deadline } else { deadline.with_connecting() };
        waiting.caller.deadline = deadline.at;
        let batch = waiting.batch;
        let number = match queue.enter(waiting, Instant::now()) {
            Ok(number) => number,
            Err(refused) => {
                drop(queue);
                return Err(match refused {
                    Refused::Away(error) => error,
                    Refused::Overloaded { outstanding } => {
                        self.is_crowded.store(true, Ordering::Relaxed);
                        self.overloaded(outstanding, deadline)
                    }
                });
            }
        };
        if self.is_crowded.load(Ordering::Relaxed) {
            self.is_crowded.store(false, Ordering::Relaxed);
        }
        let is_unattended = matches!(queue.state, State::Unattended);
        if is_unattended {
            queue.state = State::Connecting;
        }
        let begins = batch.filter(|batch| queue.begin(*batch));
        // In a batch only its end wakes the connection, so that all its calls are sent together.
        let server = if batch.is_none() { queue.server.take() } else { None };
        drop(queue);
        if let Some(server) = server {
            server.wake();
        }
        if let Some(batch) = begins {
            let shared = Arc::clone(&self.shared);
            Batch::at_end(move || shared.end(batch));
        }
        if is_unattended {
            tokio::spawn(Attendant { shared: Arc::clone(&self.shared) }.run());
        }
        Ok(Ticket { shared: &self.shared, number, deadline })
    }

    #[cold]
    fn overloaded(&self, outstanding: usize, deadline: Deadline) -> StoreError {
        let within = deadline.patience.as_millis();
        self.shared.error(Problem::overloaded(format!(
            "has {outstanding} calls to answer, more than it can within {within} ms; nothing was charged"
        )))
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        queue.is_closed = true;
        let server = queue.server.take();
        drop(queue);
        if let Some(server) = server {
            server.wake();
        }
    }
}

/// The place of a call in the queue. Dropped before the call was written, it takes the call back.
struct Ticket<'l> {
    shared: &'l SharedQueue,
    number: u64,
    deadline: Deadline,
}

impl Ticket<'_> {
    /// Returns the error of a caller whose time is up.
    #[cold]
    fn give_up(&self) -> StoreError {
        let deadline = self.deadline;
        let within = deadline.patience.as_millis();
        let mut queue = self.shared.queue();
        let is_unsent = queue.leave(self.number);
        let is_connected = matches!(queue.state, State::Connected);
        let answers = queue.has_answered_since(deadline.at - deadline.patience);
        drop(queue);
        self.shared.error(match (is_unsent, is_connected) {
            (true, true) if answers => Problem::overloaded(format!(
                "has more to do than it can within {within} ms; this call was not sent, and nothing was charged"
            )),
            (true, true) => Problem::unavailable(format!(
                "has answered nothing for {within} ms; this call was not sent, and nothing was charged"
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
        self.shared.queue().leave(self.number);
    }
}

/// The task that connects and serves. When its runtime shuts down, the next caller's takes over.
struct Attendant {
    shared: Arc<SharedQueue>,
}

impl Attendant {
    async fn run(self) {
        let mut backoff = Backoff::up_to(self.shared.server.endpoint.longest_pause());
        let mut replacement = None;
        while let Some(talk) = self.connection(replacement.take(), &mut backoff).await {
            self.shared.queue().connected();
            let (end, useful) = Connection::new(&self.shared, talk).serve().await;
            self.shared.queue().disconnected();
            if useful == Use::Some {
                backoff.reset();
            }
            match end {
                End::Closed => return,
                End::Broken(_) | End::Elsewhere => {}
                End::Replaced(talk) => replacement = Some(talk),
            }
            if useful == Use::None {
                // The server accepts connections and breaks them, so wait before the next one.
                tokio::time::sleep(backoff.pause()).await;
            }
        }
    }

    /// Returns a connection once there is a call; `None` once there can't be any.
    async fn connection(&self, ready: Option<Talk>, backoff: &mut Backoff) -> Option<Talk> {
        if ready.is_some() {
            return ready;
        }
        loop {
            self.call().await?;
            let server = &self.shared.server;
            let connecting = server.connect();
            let within = server.endpoint.connect_deadline;
            let problem = match tokio::time::timeout(within, connecting).await {
                Ok(Ok(talk)) => return Some(talk),
                Ok(Err(problem)) => problem,
                Err(_) => Problem::unavailable(format!(
                    "has not answered a connection within {} ms: check whether it hangs, or a firewall or proxy holds back its replies; nothing was charged",
                    within.as_millis()
                )),
            };
            let until = Instant::now() + backoff.pause();
            self.away(&self.shared.error(problem), until);
            tokio::time::sleep_until(until).await;
            self.shared.queue().state = State::Connecting;
        }
    }

    /// Makes no attempt to connect until then. Waiting callers get the error, and so do new ones whose
    /// deadline is earlier.
    fn away(&self, error: &StoreError, until: Instant) {
        let mut queue = self.shared.queue();
        let callers = queue.clear();
        queue.state = State::Away { until, error: error.clone() };
        drop(queue);
        for caller in callers {
            caller.tell(Told::Failed(error.clone()));
        }
    }

    /// Waits for a call; `None` once there will be none.
    async fn call(&self) -> Option<()> {
        std::future::poll_fn(|context| {
            let mut queue = self.shared.queue();
            if queue.is_wanted() {
                return Poll::Ready(Some(()));
            }
            if queue.is_closed {
                return Poll::Ready(None);
            }
            queue.server = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl Drop for Attendant {
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        queue.server = None;
        let state = mem::replace(&mut queue.state, State::Unattended);
        let callers = queue.clear();
        drop(queue);
        let error = match state {
            State::Away { error, .. } => error,
            _ => self.shared.error(Problem::shut_down_before()),
        };
        for caller in callers {
            caller.tell(Told::Failed(error.clone()));
        }
    }
}
