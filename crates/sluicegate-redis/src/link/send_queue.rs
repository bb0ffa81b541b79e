//! The calls that wait for a server, and what is known of it: what callers and the connection share.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;

use sluicegate_core::{Acknowledgement, StoreError};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::pace::Pace;
use super::redirect::Redirect;
use super::slots::Slots;
use crate::call::Call;
use crate::reply_frame::Said;
use crate::resp::Value;

/// What a caller is told.
#[derive(Debug)]
pub(crate) enum Told {
    /// What the script said.
    Said(Said),
    /// What the script said, though too few replicas have it.
    Unacknowledged(Box<Unacknowledged>),
    /// The reply to a command, or an error.
    Value(Value),
    /// The server found the call too late, and did nothing.
    Late,
    /// A node of a cluster sent the call elsewhere, and did nothing.
    Redirected(Box<Redirected>),
    Failed(StoreError),
}

/// What the script said, and what the server said of its replicas.
#[derive(Debug)]
pub(crate) struct Unacknowledged {
    pub(crate) said: Said,
    pub(crate) wanted: Acknowledgement,
    pub(crate) reply: Value,
}

/// A call of which nothing was done, and where or when to send it instead.
#[derive(Debug)]
pub(crate) struct Redirected {
    pub(crate) call: Call,
    pub(crate) redirect: Redirect,
}

/// Whoever waits for an answer.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) answer: oneshot::Sender<Told>,
    pub(super) deadline: Instant,
    pub(super) patience: Duration,
    /// Its call was too late once.
    pub(super) was_late: bool,
}

impl Caller {
    /// Answers. Whoever has given up doesn't want it any more.
    pub(super) fn tell(self, told: Told) {
        let _ = self.answer.send(told);
    }

    /// Whether what is too late for one is too late for the other, by the ms since an instant.
    pub(super) fn waits_as_long_as(&self, other: &Self, from: Instant) -> bool {
        let millis = |at: Instant| at.saturating_duration_since(from).as_millis();
        millis(self.deadline) == millis(other.deadline)
    }

    /// Whether it has given up.
    pub(super) fn is_gone(&self) -> bool {
        self.answer.is_closed()
    }
}

/// A call that waits to be sent.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) call: Call,
    pub(super) caller: Caller,
}

/// Calls in the order in which they came, each with the number of its ticket.
#[derive(Debug)]
pub(super) struct SendQueue {
    /// `None` for a call that was sent before those in front of it, or whose caller has given up.
    waiting: VecDeque<Option<Waiting>>,
    /// How many of the first were looked at to be sent.
    passed: usize,
    /// How many of them are still wanted.
    wanted: usize,
    /// The ticket of the first.
    first: u64,
    outstanding: usize,
    /// When an answer came last.
    last_answer: Option<Instant>,
    /// Whether one came on this connection. The first answers take longer, because the server reads the script.
    has_answered: bool,
    pub(super) state: State,
    pace: Pace,
    /// Wakes whoever serves.
    pub(super) server: Option<Waker>,
    /// Nobody will call any more.
    pub(super) is_closed: bool,
}

/// What is known of the server.
#[derive(Debug)]
pub(super) enum State {
    /// Nobody serves: the next caller sees to it that somebody does.
    Unattended,
    Connecting,
    Connected,
    /// It took no connection, and is asked again then.
    Away {
        until: Instant,
        error: StoreError,
    },
}

/// Why a call isn't taken.
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
            outstanding: 0,
            last_answer: None,
            has_answered: false,
            state: State::Unattended,
            pace: Pace::default(),
            server: None,
            is_closed: false,
        }
    }

    /// Takes a call in, and returns its ticket.
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

    /// How many calls are outstanding, if that is too many for one more to be answered in time.
    pub(super) fn crowd(&self, patience: Duration, now: Instant) -> Option<usize> {
        let outstanding = self.wanted + self.outstanding;
        (outstanding >= self.pace.most(patience, now)).then_some(outstanding)
    }

    /// Whether anything was answered since then.
    pub(super) fn has_answered_since(&self, then: Instant) -> bool {
        self.last_answer.is_some_and(|at| at >= then)
    }

    /// Whether any call waits.
    pub(super) const fn is_wanted(&self) -> bool {
        self.wanted > 0
    }

    /// About how many of the calls that wait may go.
    pub(super) fn ready(&self, slots: &Slots) -> usize {
        self.waiting.len() - self.passed + slots.freed()
    }

    /// Takes back a call, and tells whether it was not sent: then it was not and never will be charged.
    pub(super) fn leave(&mut self, ticket: u64) -> bool {
        let has_waited = self.remove(ticket).is_some();
        if has_waited {
            self.close_up();
        }
        has_waited
    }

    /// Takes out so many calls of those that may go, to be sent. The others keep their places.
    pub(super) fn take(&mut self, most: usize, slots: &mut Slots, into: &mut Vec<Waiting>) {
        while into.len() < most
            && let Some(ticket) = slots.next()
        {
            into.extend(self.remove(ticket));
        }
        while into.len() < most
            && let Some(place) = self.waiting.get_mut(self.passed)
        {
            let ticket = self.first + self.passed as u64;
            self.passed += 1;
            let goes = |waiting: &mut Waiting| slots.admit(ticket, self.first, &waiting.call);
            if let Some(waiting) = place.take_if(goes) {
                self.wanted -= 1;
                into.push(waiting);
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

    /// There is a connection.
    pub(super) fn connected(&mut self) {
        (self.state, self.has_answered) = (State::Connected, false);
    }

    /// Whether a call needs no time for a connection.
    pub(super) const fn is_ready(&self) -> bool {
        matches!(self.state, State::Connected) && self.has_answered
    }

    /// The connection has ended, and nothing is outstanding any more.
    pub(super) fn disconnected(&mut self) {
        (self.state, self.outstanding, self.passed) = (State::Connecting, 0, 0);
    }

    /// Every call that waits.
    pub(super) fn clear(&mut self) -> Vec<Caller> {
        self.first += self.waiting.len() as u64;
        (self.wanted, self.outstanding, self.passed) = (0, 0, 0);
        self.waiting.drain(..).flatten().map(|waiting| waiting.caller).collect()
    }

    /// Takes out a call that still waits.
    fn remove(&mut self, ticket: u64) -> Option<Waiting> {
        let index = usize::try_from(ticket.checked_sub(self.first)?).ok()?;
        let waiting = self.waiting.get_mut(index)?.take()?;
        self.wanted -= 1;
        Some(waiting)
    }

    /// The first is one who waits.
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
        Waiting { call: Call::Command(Command::of(&[b"PING"])), caller }
    }

    /// They counted against callers for as long as the pace was known, and were never answered.
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
}
