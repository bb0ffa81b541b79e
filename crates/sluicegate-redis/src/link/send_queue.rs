//! The queue of calls for a server, and the server's state. Callers and the connection share it.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;

use sluicegate_core::for_stores::Batch;
use sluicegate_core::{Acknowledgement, StoreError};
use smallvec::SmallVec;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::pace::Pace;
use super::redirect::Redirect;
use super::slots::Slots;
use crate::call::Call;
use crate::reply_frame::Said;
use crate::resp::Value;

/// The outcome of a call.
#[derive(Debug)]
pub(crate) enum Told {
    /// The script's reply.
    Said(Said),
    /// The script's reply, which too few replicas have acknowledged.
    Unacknowledged(Box<Unacknowledged>),
    /// The reply to a command, or an error.
    Value(Value),
    /// The server found the call too late, and did nothing.
    Late,
    /// A node of a cluster redirected the call, and did nothing.
    Redirected(Box<Redirected>),
    Failed(StoreError),
}

/// The script's reply, and the server's report about its replicas.
#[derive(Debug)]
pub(crate) struct Unacknowledged {
    pub(crate) said: Said,
    pub(crate) wanted: Acknowledgement,
    pub(crate) reply: Value,
}

/// A call that a node didn't execute, and the node or time for the next attempt.
#[derive(Debug)]
pub(crate) struct Redirected {
    pub(crate) call: Call,
    pub(crate) redirect: Redirect,
}

/// The receiver of an answer.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) answer: oneshot::Sender<Told>,
    pub(super) deadline: Instant,
    pub(super) patience: Duration,
    /// Whether its call was too late once.
    pub(super) was_late: bool,
}

impl Caller {
    /// Sends the outcome. A caller that gave up ignores it.
    pub(super) fn tell(self, told: Told) {
        let _ = self.answer.send(told);
    }

    /// Returns whether both deadlines are in the same ms since an instant.
    pub(super) fn waits_as_long_as(&self, other: &Self, from: Instant) -> bool {
        let millis = |at: Instant| at.saturating_duration_since(from).as_millis();
        millis(self.deadline) == millis(other.deadline)
    }

    /// Returns whether the caller has given up.
    pub(super) fn is_gone(&self) -> bool {
        self.answer.is_closed()
    }
}

/// A call that waits to be sent.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) call: Call,
    pub(super) caller: Caller,
    /// The calls with which it was made. They are sent in one command.
    pub(super) batch: Option<Batch>,
}

impl Waiting {
    /// Returns whether both calls were made in one batch, for one slot.
    fn is_with(&self, other: &Self) -> bool {
        self.batch.is_some() && self.batch == other.batch && self.call.slot() == other.call.slot()
    }
}

/// Calls in their order of arrival, each with the number of its ticket.
#[derive(Debug)]
pub(super) struct SendQueue {
    /// `None` for a call that was sent before those in front of it, or whose caller has given up.
    waiting: VecDeque<Option<Waiting>>,
    /// Number of calls at the front that the connection has examined.
    passed: usize,
    /// Number of calls that still have a caller.
    wanted: usize,
    /// Ticket of the first call.
    first: u64,
    /// Batches that aren't complete yet. None of their calls is sent.
    open: SmallVec<[Batch; 1]>,
    outstanding: usize,
    /// Time of the last answer.
    last_answer: Option<Instant>,
    /// Whether this connection had an answer. The first answers take longer, because the server reads the
    /// script.
    has_answered: bool,
    pub(super) state: State,
    pace: Pace,
    /// Wakes the task that serves the queue.
    pub(super) server: Option<Waker>,
    /// Whether no further call can arrive.
    pub(super) is_closed: bool,
}

/// The state of the server.
#[derive(Debug)]
pub(super) enum State {
    /// No task serves the queue: the next caller starts one.
    Unattended,
    Connecting,
    Connected,
    /// The server accepted no connection. The next attempt is at `until`.
    Away {
        until: Instant,
        error: StoreError,
    },
}

/// A reason to refuse a call.
pub(super) enum Refused {
    Away(StoreError),
    Overloaded { outstanding: usize },
}

impl SendQueue {
    pub(super) fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            passed: 0,
            wanted: 0,
            first: 0,
            open: SmallVec::new(),
            outstanding: 0,
            last_answer: None,
            has_answered: false,
            state: State::Unattended,
            pace: Pace::default(),
            server: None,
            is_closed: false,
        }
    }

    /// Adds a call, and returns its ticket.
    pub(super) fn enter(&mut self, waiting: Waiting, now: Instant) -> Result<u64, Refused> {
        if let State::Away { until, error } = &self.state
            && *until > waiting.caller.deadline
        {
            return Err(Refused::Away(error.clone()));
        }
        if let Some(outstanding) = self.crowd(waiting.caller.patience, now) {
            return Err(Refused::Overloaded { outstanding });
        }
        self.waiting.push_back(Some(waiting));
        self.wanted += 1;
        Ok(self.first + self.waiting.len() as u64 - 1)
    }

    /// Holds back the calls of a batch until its [end](Self::end). Returns whether they weren't yet.
    pub(super) fn begin(&mut self, batch: Batch) -> bool {
        let is_new = !self.open.contains(&batch);
        if is_new {
            self.open.push(batch);
        }
        is_new
    }

    /// Lets the calls of a complete batch be sent.
    pub(super) fn end(&mut self, batch: Batch) {
        self.open.retain(|open| *open != batch);
    }

    /// Returns the number of outstanding calls, if that is too many for one more to be answered in time.
    pub(super) fn crowd(&self, patience: Duration, now: Instant) -> Option<usize> {
        let outstanding = self.wanted + self.outstanding;
        (outstanding >= self.pace.most(patience, now)).then_some(outstanding)
    }

    /// Returns whether there was an answer since `then`.
    pub(super) fn has_answered_since(&self, then: Instant) -> bool {
        self.last_answer.is_some_and(|at| at >= then)
    }

    /// Returns whether any call waits.
    pub(super) const fn is_wanted(&self) -> bool {
        self.wanted > 0
    }

    /// Returns about how many of the waiting calls may be sent.
    pub(super) fn ready(&self, slots: &Slots) -> usize {
        self.waiting.len() - self.passed + slots.freed()
    }

    /// Takes back a call, and returns whether it was unsent. An unsent call is never charged.
    pub(super) fn leave(&mut self, ticket: u64) -> bool {
        let has_waited = self.remove(ticket).is_some();
        if has_waited {
            self.close_up();
        }
        has_waited
    }

    /// Takes out up to `most` calls that may be sent, and all others of the last one's batch. The rest keep their
    /// places. The first call of an incomplete batch and all later ones aren't examined yet.
    pub(super) fn take(&mut self, most: usize, slots: &mut Slots, into: &mut Vec<Waiting>) {
        while into.len() < most
            && let Some(ticket) = slots.next()
        {
            if let Some(waiting) = self.remove(ticket) {
                self.take_batch(waiting, into);
            }
        }
        while into.len() < most
            && let Some(place) = self.waiting.get_mut(self.passed)
        {
            let batch = place.as_ref().and_then(|waiting| waiting.batch);
            if batch.is_some_and(|batch| self.open.contains(&batch)) {
                break;
            }
            let ticket = self.first + self.passed as u64;
            self.passed += 1;
            let goes = |waiting: &mut Waiting| slots.admit(ticket, self.first, &waiting.call);
            if let Some(waiting) = place.take_if(goes) {
                self.wanted -= 1;
                self.take_batch(waiting, into);
            }
        }
        self.close_up();
        self.outstanding += into.len();
    }

    /// Counts answers to callers whose calls were sent.
    pub(super) fn answered(&mut self, callers: u64, outstanding: usize, now: Instant) {
        self.outstanding = outstanding;
        self.last_answer = Some(now);
        self.has_answered = true;
        self.pace.answered(callers, self.wanted > 0, now);
    }

    /// Records a new connection.
    pub(super) fn connected(&mut self) {
        (self.state, self.has_answered) = (State::Connected, false);
    }

    /// Returns whether a call needs no time for a connection.
    pub(super) const fn is_ready(&self) -> bool {
        matches!(self.state, State::Connected) && self.has_answered
    }

    /// Records the end of the connection. No call is outstanding any longer.
    pub(super) fn disconnected(&mut self) {
        (self.state, self.outstanding, self.passed) = (State::Connecting, 0, 0);
    }

    /// Removes every waiting call, and returns the callers.
    pub(super) fn clear(&mut self) -> Vec<Caller> {
        self.first += self.waiting.len() as u64;
        (self.wanted, self.outstanding, self.passed) = (0, 0, 0);
        self.waiting.drain(..).flatten().map(|waiting| waiting.caller).collect()
    }

    /// Takes out a waiting call.
    fn remove(&mut self, ticket: u64) -> Option<Waiting> {
        let index = usize::try_from(ticket.checked_sub(self.first)?).ok()?;
        let waiting = self.waiting.get_mut(index)?.take()?;
        self.wanted -= 1;
        Some(waiting)
    }

    /// Adds a call, and all waiting calls of its batch, which the slots admit if they admit one of them.
    fn take_batch(&mut self, waiting: Waiting, into: &mut Vec<Waiting>) {
        let at = into.len();
        let is_batched = waiting.batch.is_some();
        into.push(waiting);
        for place in self.waiting.iter_mut().filter(|_| is_batched) {
            if let Some(other) = place.take_if(|other| into[at].is_with(other)) {
                self.wanted -= 1;
                into.push(other);
            }
        }
    }

    /// Removes empty places from the front.
    fn close_up(&mut self) {
        while self.waiting.front().is_some_and(Option::is_none) {
            self.waiting.pop_front();
            self.first += 1;
            self.passed = self.passed.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::slots::Many;
    use super::*;
    use crate::call::{Company, ScriptCall};
    use crate::resp::Command;

    fn waiting(start: Instant) -> Waiting {
        let patience = Duration::from_millis(50);
        let (answer, _) = oneshot::channel();
        let caller = Caller { answer, deadline: start + patience, patience, was_late: false };
        Waiting { call: Call::Command(Command::of(&[b"PING"])), caller, batch: None }
    }

    /// Before, unanswered calls counted against callers while the pace was known.
    #[test]
    fn what_a_broken_connection_left_unanswered_keeps_nobody_out() {
        let (mut queue, start) = (SendQueue::new(), Instant::now());
        for _ in 0..100 {
            assert!(queue.enter(waiting(start), start).is_ok());
        }
        let mut sent = Vec::new();
        queue.take(70, &mut Slots::Open, &mut sent);
        for millis in [1, 6, 11, 16, 21] {
            queue.answered(1, sent.len(), start + Duration::from_millis(millis));
        }
        let now = start + Duration::from_millis(21);
        assert!(matches!(queue.enter(waiting(start), now), Err(Refused::Overloaded { .. })));
        queue.disconnected();
        assert!(queue.enter(waiting(start), now).is_ok(), "thirty wait, and none is outstanding");
    }

    fn waiting_for(slot: u16, start: Instant) -> Waiting {
        let mut call = ScriptCall::new(|_| (), &[0; 64]);
        call.set_company(slot, Company::Slot);
        Waiting { call: Call::Script(call), ..waiting(start) }
    }

    #[test]
    fn what_is_passed_over_keeps_its_place_and_can_still_be_taken_back() {
        let (mut queue, start) = (SendQueue::new(), Instant::now());
        let mut slots = Slots::Many(Many::default());
        (0..2).for_each(|_| slots.left(0));
        let enter = |queue: &mut SendQueue, slot| {
            assert!(queue.enter(waiting_for(slot, start), start).is_ok());
        };
        let taken = |queue: &mut SendQueue, slots: &mut Slots, most| {
            let mut into = Vec::new();
            queue.take(most, slots, &mut into);
            let slot = |waiting: &Waiting| match &waiting.call {
                Call::Script(call) => call.slot(),
                _ => panic!("a call of the script"),
            };
            into.iter().map(slot).collect::<Vec<_>>()
        };
        [0, 1, 0, 3, 0, 5].into_iter().for_each(|slot| enter(&mut queue, slot));
        assert_eq!(taken(&mut queue, &mut slots, 9), [1, 3, 5]);
        [0, 6].into_iter().for_each(|slot| enter(&mut queue, slot));
        assert_eq!(taken(&mut queue, &mut slots, 9), [6]);
        assert!(!queue.leave(3), "it was sent");
        assert!(queue.leave(2) && queue.leave(0));
        assert_eq!((queue.wanted, queue.outstanding), (2, 4));
        slots.landed(0);
        [7, 0].into_iter().for_each(|slot| enter(&mut queue, slot));
        assert_eq!(taken(&mut queue, &mut slots, 2), [0, 0], "they came first");
        assert_eq!(taken(&mut queue, &mut slots, 9), [7, 0]);
        assert!(!queue.is_wanted() && !queue.leave(4));
        assert_eq!((queue.first, queue.passed, queue.waiting.len()), (10, 0, 0));
    }

    fn batch() -> Batch {
        let current = std::future::poll_fn(|_| std::task::Poll::Ready(Batch::current()));
        let mut asked = std::pin::pin!(sluicegate_core::batched([current]));
        let mut context = std::task::Context::from_waker(Waker::noop());
        match asked.as_mut().poll(&mut context) {
            std::task::Poll::Ready(batches) => batches[0].unwrap(),
            std::task::Poll::Pending => panic!("it is ready"),
        }
    }

    #[test]
    fn a_batch_is_taken_as_one_and_not_before_its_end() {
        let [one, other] = [(); 2].map(|()| batch());
        let (mut queue, start) = (SendQueue::new(), Instant::now());
        let mut slots = Slots::Many(Many::default());
        for (batch, slot) in
            [(None, 1), (Some(one), 1), (Some(one), 2), (Some(other), 1), (None, 2), (Some(one), 1)]
        {
            assert!(queue.enter(Waiting { batch, ..waiting_for(slot, start) }, start).is_ok());
        }
        assert!(queue.begin(one) && queue.begin(other) && !queue.begin(one));
        let mut taken = |queue: &mut SendQueue, most| {
            let mut into = Vec::new();
            queue.take(most, &mut slots, &mut into);
            into.iter().map(|waiting| (waiting.batch, waiting.call.slot())).collect::<Vec<_>>()
        };
        assert_eq!(taken(&mut queue, 9), [(None, 1)]);
        queue.end(other);
        assert_eq!(taken(&mut queue, 9), [], "the other one is behind the first");
        queue.end(one);
        assert_eq!(taken(&mut queue, 1), [(Some(one), 1), (Some(one), 1)]);
        assert_eq!(taken(&mut queue, 2), [(Some(one), 2), (Some(other), 1)]);
        assert_eq!(taken(&mut queue, 9), [(None, 2)]);
        assert!(!queue.is_wanted() && queue.waiting.is_empty());
    }
}
