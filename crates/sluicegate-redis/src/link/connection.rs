//! One connection, which sends what waits in the line and hands out the answers.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use tokio::time::{Instant, Sleep};
use tokio_util::io::{poll_read_buf, poll_write_buf};

use super::contact::{self, Broken, Talk};
use super::line::Sent;
use super::problem::Problem;
use super::{CONNECT, Shared};
use crate::resp::{NoReply, Value};

/// Calls that are outstanding at once. What is beyond waits in the line, from where it can be taken
/// back without a trace.
const OUTSTANDING: usize = 512;
/// Bytes that are written before more calls are taken out of the line.
const OUTPUT: usize = 64 << 10;
/// How much is read at once.
const INPUT: usize = 16 << 10;

/// How long a connection stays with a server that can't write: its name may stand for another one by
/// then.
const ELSEWHERE: Duration = Duration::from_secs(1);

/// However short the deadlines are, a connection isn't doubted sooner.
const SHORTEST_SILENCE: Duration = Duration::from_millis(20);

/// Why a connection is used no longer.
pub(super) enum End {
    /// Nobody will call any more.
    Closed,
    Broken(Broken),
    /// The server can't decide, and its name may stand for another one by now.
    Elsewhere,
    /// It was silent for too long, and another connection to the server was not.
    Replaced(Talk),
}

/// A connection while it serves.
pub(super) struct Connection<'l> {
    shared: &'l Shared,
    talk: Talk,
    output: BytesMut,
    sent: VecDeque<Sent>,
    since: Instant,
    /// Since when calls have been outstanding and no byte came.
    silent_from: Option<Instant>,
    timer: Pin<Box<Sleep>>,
    is_timed: bool,
    /// Another connection, which is tried while this one is silent.
    other: Option<Pin<Box<dyn Future<Output = Option<Talk>> + Send + 'l>>>,
    leaves: bool,
    has_answered: bool,
}

impl<'l> Connection<'l> {
    pub(super) fn new(shared: &'l Shared, mut talk: Talk) -> Self {
        talk.input.reserve(INPUT);
        let now = Instant::now();
        Self {
            shared,
            talk,
            output: BytesMut::with_capacity(INPUT),
            sent: VecDeque::new(),
            since: now,
            silent_from: None,
            timer: Box::pin(tokio::time::sleep_until(now)),
            is_timed: false,
            other: None,
            leaves: false,
            has_answered: false,
        }
    }

    /// Serves until it ends; what is outstanding then is told.
    pub(super) async fn serve(mut self) -> (End, Use) {
        let end = poll_fn(|context| self.poll(context)).await;
        for sent in self.sent.drain(..) {
            let problem = match &end {
                End::Broken(Broken::NoReply) => Problem::no_protocol(),
                End::Broken(Broken::Io(_)) | End::Closed | End::Elsewhere => {
                    Problem::disconnected()
                }
                End::Replaced(_) => Problem::silent(),
            };
            let _ = sent.answer.send(Err(self.shared.error(problem)));
        }
        (end, if self.has_answered { Use::Some } else { Use::None })
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<End> {
        loop {
            let read = match self.read(context) {
                Ok(read) => read,
                Err(broken) => return Poll::Ready(End::Broken(broken)),
            };
            if let Some(end) = self.take_calls(read.unwrap_or(0), context) {
                return Poll::Ready(end);
            }
            match self.write(context) {
                Ok(wrote) if read.is_some() || wrote => {}
                Ok(_) => break,
                Err(error) => return Poll::Ready(End::Broken(Broken::Io(error))),
            }
        }
        self.listen(context)
    }

    /// Reads what there is and hands out the answers in it: their number, or `None` if nothing came.
    fn read(&mut self, context: &mut Context<'_>) -> Result<Option<u64>, Broken> {
        let Talk { stream, reader, input } = &mut self.talk;
        input.reserve(INPUT);
        match poll_read_buf(Pin::new(stream), context, input) {
            Poll::Pending => return Ok(None),
            Poll::Ready(Err(error)) => return Err(Broken::Io(error)),
            Poll::Ready(Ok(0)) => return Err(Broken::Io(io::ErrorKind::UnexpectedEof.into())),
            Poll::Ready(Ok(_)) => {}
        }
        let mut answered = 0;
        while let Some(value) = reader.read(input).map_err(|NoReply| Broken::NoReply)? {
            // An answer that nobody asked for belongs to nobody.
            let sent = self.sent.pop_front().ok_or(Broken::NoReply)?;
            let is_elsewhere = matches!(&value, Value::Error(words) if is_of_a_replica(words));
            self.leaves |= is_elsewhere && self.since.elapsed() >= ELSEWHERE;
            // Whoever has given up doesn't want it any more.
            let _ = sent.answer.send(Ok(value));
            answered += 1;
        }
        self.has_answered |= answered > 0;
        self.silent_from = None;
        self.other = None;
        Ok(Some(answered))
    }

    fn take_calls(&mut self, answered: u64, context: &Context<'_>) -> Option<End> {
        let mut line = self.shared.line();
        if answered > 0 {
            line.answered(answered, self.sent.len(), Instant::now());
        }
        if self.leaves {
            return self.sent.is_empty().then_some(End::Elsewhere);
        }
        if line.is_closed && self.sent.is_empty() && !line.is_wanted() {
            return Some(End::Closed);
        }
        line.send(
            OUTSTANDING.saturating_sub(self.sent.len()),
            OUTPUT,
            &mut self.output,
            &mut self.sent,
        );
        if line.server.as_ref().is_none_or(|known| !known.will_wake(context.waker())) {
            line.server = Some(context.waker().clone());
        }
        None
    }

    /// Writes what the stream takes: whether it took anything.
    fn write(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        let mut wrote = false;
        while !self.output.is_empty() {
            match poll_write_buf(Pin::new(&mut self.talk.stream), context, &mut self.output) {
                Poll::Pending => break,
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(_)) => wrote = true,
                Poll::Ready(Err(error)) => return Err(error),
            }
        }
        Ok(wrote)
    }

    /// Tries another connection once this one has been silent for two deadlines: it may have died
    /// without a word. A server that is only busy answers neither, and keeps this one.
    fn listen(&mut self, context: &mut Context<'_>) -> Poll<End> {
        let Some(first) = self.sent.front() else { return Poll::Pending };
        let patience = (first.patience * 2).max(SHORTEST_SILENCE);
        let from = *self.silent_from.get_or_insert_with(Instant::now);
        // One that ends too soon is set anew when it ends, and not with each byte.
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
            let connecting = contact::connect(&self.shared.endpoint);
            let other = async { tokio::time::timeout(CONNECT, connecting).await.ok()?.ok() };
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

/// Whether a connection was of any use.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Use {
    None,
    Some,
}

/// Whether the server is not a primary (any more): its name may stand for another server.
fn is_of_a_replica(words: &[u8]) -> bool {
    words.starts_with(b"READONLY") || words.starts_with(b"MASTERDOWN")
}
