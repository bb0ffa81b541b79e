//! A connection, which sends the calls of the queue and hands out the answers.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::{io, mem};

use tokio::io::AsyncWrite as _;
use tokio::time::{Instant, Sleep};
use tokio_util::io::{poll_read_buf, poll_write_buf};

use super::handshake::{Broken, Talk};
use super::in_flight::Wrong;
use super::problem::Problem;
use super::send_queue::{Told, Waiting};
use super::shared_queue::SharedQueue;
use super::wire::Wire;
use crate::resp::{NoReply, Value};

/// Number of bytes to read at a time.
const INPUT: usize = 16 << 10;

/// Number of answered callers after which waiting calls are sent before further answers.
const ANSWERS: u64 = 32;

/// Number of ready calls that are sent without waiting for more.
const ENOUGH: usize = 32;

/// Time for which a connection stays with a server that can't write. After that, its name may resolve to
/// another server.
const ELSEWHERE: Duration = Duration::from_secs(1);

/// Minimum silence before a connection is doubted, even with shorter deadlines.
const SHORTEST_SILENCE: Duration = Duration::from_millis(20);

/// The reason why a connection ends.
pub(super) enum End {
    /// No further call can arrive.
    Closed,
    Broken(Broken),
    /// The server can't decide, and its name may resolve to another one by now.
    Elsewhere,
    /// The connection was silent for too long, while another one to the server was not.
    Replaced(Talk),
}

/// A connection in use.
pub(super) struct Connection<'l> {
    shared: &'l SharedQueue,
    talk: Talk,
    wire: Wire,
    /// The calls just taken out of the queue.
    taken: Vec<Waiting>,
    since: Instant,
    /// Start of the silence: calls are outstanding, and no byte has arrived since.
    silent_from: Option<Instant>,
    timer: Pin<Box<Sleep>>,
    is_timed: bool,
    /// Another connection, which is tried while this one is silent.
    other: Option<Pin<Box<dyn Future<Output = Option<Talk>> + Send + 'l>>>,
    /// Completes once another server has replaced this one.
    succeeded: Pin<Box<dyn Future<Output = ()> + Send + 'l>>,
    leaves: bool,
    has_answered: bool,
    /// Whether other tasks have run first, so that their calls join this batch.
    is_its_turn: bool,
    has_yielded: bool,
}

impl<'l> Connection<'l> {
    pub(super) fn new(shared: &'l SharedQueue, mut talk: Talk) -> Self {
        talk.input.reserve(INPUT);
        let now = Instant::now();
        let endpoint = &shared.server.endpoint;
        let succeeded = shared.server.succeeded(talk.host.take());
        let wire = Wire::new(shared.batch);
        let wire = if endpoint.is_node() { wire.by_slot() } else { wire };
        Self {
            shared,
            talk,
            wire: wire
                .counted_by(Arc::clone(&endpoint.traffic))
                .acknowledged(shared.acknowledgement),
            taken: Vec::new(),
            since: now,
            silent_from: None,
            timer: Box::pin(tokio::time::sleep_until(now)),
            is_timed: false,
            other: None,
            succeeded: Box::pin(succeeded),
            leaves: false,
            has_answered: false,
            is_its_turn: false,
            has_yielded: false,
        }
    }

    /// Serves until the connection ends, and then reports the problem to outstanding callers.
    pub(super) async fn serve(mut self) -> (End, Use) {
        let end = poll_fn(|context| self.poll(context)).await;
        let problem = match &end {
            End::Broken(Broken::NoReply) => Problem::garbled(),
            End::Broken(Broken::Disordered) => Problem::disordered(),
            End::Broken(Broken::Io(_)) | End::Closed | End::Elsewhere => Problem::disconnected(),
            End::Replaced(_) => Problem::silent(),
        };
        let error = self.shared.error(problem);
        for caller in self.wire.into_callers() {
            caller.tell(Told::Failed(error.clone()));
        }
        (end, if self.has_answered { Use::Some } else { Use::None })
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<End> {
        self.is_its_turn = mem::take(&mut self.has_yielded);
        loop {
            let answered = match self.hand_out() {
                Ok(answered) => answered,
                Err(broken) => return Poll::Ready(End::Broken(broken)),
            };
            if let Some(end) = self.take_calls(answered, context) {
                return Poll::Ready(end);
            }
            let wrote = match self.write(context) {
                Ok(wrote) => wrote,
                Err(error) => return Poll::Ready(End::Broken(Broken::Io(error))),
            };
            if answered > 0 {
                continue;
            }
            match self.read(context) {
                Ok(read) if read || wrote => {}
                Ok(_) => break,
                Err(broken) => return Poll::Ready(End::Broken(broken)),
            }
        }
        self.listen(context)
    }

    /// Hands out up to [`ANSWERS`] answers that have arrived, and returns the number of answered callers.
    fn hand_out(&mut self) -> Result<u64, Broken> {
        let Talk { reader, input, .. } = &mut self.talk;
        let mut answered = 0;
        while answered < ANSWERS
            && let Some(value) = reader.read(input).map_err(|NoReply| Broken::NoReply)?
        {
            let is_of_no_use = matches!(&value, Value::Error(words) if asks_for_another(words));
            self.leaves |= is_of_no_use && self.since.elapsed() >= ELSEWHERE;
            answered += self.wire.answer(value).map_err(|wrong| match wrong {
                Wrong::Nonsense => Broken::NoReply,
                Wrong::Disordered => Broken::Disordered,
            })?;
        }
        self.has_answered |= answered > 0;
        Ok(answered)
    }

    /// Reads the available bytes, and returns whether there were any.
    fn read(&mut self, context: &mut Context<'_>) -> Result<bool, Broken> {
        let Talk { stream, input, .. } = &mut self.talk;
        input.reserve(INPUT);
        match poll_read_buf(Pin::new(stream), context, input) {
            Poll::Pending => Ok(false),
            Poll::Ready(Err(error)) => Err(Broken::Io(error)),
            Poll::Ready(Ok(0)) => Err(Broken::Io(io::ErrorKind::UnexpectedEof.into())),
            Poll::Ready(Ok(_)) => {
                self.silent_from = None;
                self.other = None;
                Ok(true)
            }
        }
    }

    fn take_calls(&mut self, answered: u64, context: &Context<'_>) -> Option<End> {
        if answered > 0 {
            self.shared.queue().answered(answered, self.wire.callers(), Instant::now());
        }
        if self.leaves {
            return self.wire.is_idle().then_some(End::Elsewhere);
        }
        self.taken.append(&mut self.wire.take_again());
        loop {
            for waiting in self.taken.drain(..) {
                self.wire.add(waiting);
            }
            let room = self.wire.room();
            if room == 0 {
                self.wire.depart();
                if self.wire.room() == 0 {
                    // The next answer wakes this task.
                    return None;
                }
                continue;
            }
            let mut queue = self.shared.queue();
            // Send the first calls of a connection immediately, so that a duplicated reply is detected with
            // them.
            let ready = queue.ready(&self.wire.slots);
            if self.has_answered && !self.is_its_turn && (1..ENOUGH).contains(&ready) {
                drop(queue);
                self.yield_once(context);
                self.wire.depart();
                return None;
            }
            queue.take(room, &mut self.wire.slots, &mut self.taken);
            if !self.taken.is_empty() {
                continue;
            }
            if queue.is_closed && self.wire.callers() == 0 {
                return Some(End::Closed);
            }
            if queue.server.as_ref().is_none_or(|known| !known.will_wake(context.waker())) {
                queue.server = Some(context.waker().clone());
            }
            drop(queue);
            self.wire.depart();
            return None;
        }
    }

    /// Yields once to other ready tasks. A caller with a new answer may send its next call. And the first of
    /// several callers wakes the connection before the others have sent their calls.
    fn yield_once(&mut self, context: &Context<'_>) {
        if !mem::replace(&mut self.has_yielded, true) {
            context.waker().wake_by_ref();
        }
    }

    /// Writes as much as the stream takes, and returns whether it took anything.
    fn write(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        let mut wrote = false;
        while !self.wire.output.is_empty() {
            let output = &mut self.wire.output;
            match poll_write_buf(Pin::new(&mut self.talk.stream), context, output) {
                Poll::Pending => break,
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(_)) => wrote = true,
                Poll::Ready(Err(error)) => return Err(error),
            }
        }
        // An encrypting stream may hold bytes that didn't fit into the socket.
        match Pin::new(&mut self.talk.stream).poll_flush(context) {
            Poll::Ready(Err(error)) => Err(error),
            _ => Ok(wrote),
        }
    }

    /// Tries another connection once this one has been silent for two deadlines, because it may have broken
    /// unnoticed. A server that is only busy answers on neither, and keeps this one.
    fn listen(&mut self, context: &mut Context<'_>) -> Poll<End> {
        if !self.leaves && self.succeeded.as_mut().poll(context).is_ready() {
            self.leaves = true;
            if self.wire.is_idle() {
                return Poll::Ready(End::Elsewhere);
            }
        }
        let Some(patience) = self.wire.patience() else { return Poll::Pending };
        let patience = (patience * 2).max(SHORTEST_SILENCE);
        let from = *self.silent_from.get_or_insert_with(Instant::now);
        // A timer that fires too early is reset then, and not at each byte.
        if !self.is_timed || from + patience < self.timer.deadline() {
            self.timer.as_mut().reset(from + patience);
            self.is_timed = true;
        }
        while self.is_timed && self.other.is_none() && self.timer.as_mut().poll(context).is_ready()
        {
            if from.elapsed() < patience {
                self.timer.as_mut().reset(from + patience);
                continue;
            }
            self.is_timed = false;
            let connecting = self.shared.server.connect();
            let within = self.shared.server.endpoint.connect_deadline;
            let other = async move { tokio::time::timeout(within, connecting).await.ok()?.ok() };
            self.other = Some(Box::pin(other));
        }
        let Some(other) = &mut self.other else { return Poll::Pending };
        match ready!(other.as_mut().poll(context)) {
            Some(talk) => Poll::Ready(End::Replaced(talk)),
            None => {
                self.other = None;
                self.silent_from = None;
                self.listen(context)
            }
        }
    }
}

/// Whether a connection was useful.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Use {
    None,
    Some,
}

/// Returns whether another connection may help. Either the server isn't a primary any longer, and its name
/// may resolve to another one. Or it no longer accepts the credentials, and there may be another password.
fn asks_for_another(words: &[u8]) -> bool {
    [&b"READONLY"[..], b"MASTERDOWN", b"NOAUTH", b"WRONGPASS"]
        .iter()
        .any(|code| words.starts_with(code))
}
