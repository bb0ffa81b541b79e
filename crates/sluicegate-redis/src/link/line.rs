//! The calls that wait for a server, and what is known of it: what callers and the connection share.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;

use sluicegate_core::{Acknowledgement, StoreError};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::pace::Pace;
use super::redirect::Redirect;
use crate::call::Call;
use crate::resp::Value;
use crate::stamp::Said;

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
pub(super) struct Line {
    /// `None` for a call whose caller has given up.
    waiting: VecDeque<Option<Waiting>>,
    /// How many of them are still wanted.
    wanted: usize,
    /// The ticket of the first.
    first: u64,
    outstanding: usize,
    /// When an answer came last.
    last_answer: Option<Instant>,
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

impl Line {
    pub(super) fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            wanted: 0,
            first: 0,
            outstanding: 0,
            last_answer: None,
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

    /// Takes back a call, and tells whether it was not sent: then it was not and never will be charged.
    pub(super) fn leave(&mut self, ticket: u64) -> bool {
        let Some(index) = ticket.checked_sub(self.first) else { return false };
        let place = usize::try_from(index).ok().and_then(|index| self.waiting.get_mut(index));
        if place.is_some_and(|place| place.take().is_some()) {
            self.wanted -= 1;
            while self.waiting.front().is_some_and(Option::is_none) {
                self.waiting.pop_front();
                self.first += 1;
            }
        }
        true
    }

    /// Takes out so many calls, to be sent.
    pub(super) fn take(&mut self, most: usize, into: &mut Vec<Waiting>) {
        while into.len() < most
            && let Some(waiting) = self.waiting.pop_front()
        {
            self.first += 1;
            if let Some(waiting) = waiting {
                self.wanted -= 1;
                into.push(waiting);
            }
        }
        self.outstanding += into.len();
    }

    /// Counts answers to callers whose calls were sent.
    pub(super) fn answered(&mut self, callers: u64, outstanding: usize, now: Instant) {
        self.outstanding = outstanding;
        self.last_answer = Some(now);
        self.pace.answered(callers, self.wanted > 0, now);
    }

    /// The connection has ended, and nothing is outstanding any more.
    pub(super) fn disconnected(&mut self) {
        (self.state, self.outstanding) = (State::Connecting, 0);
    }

    /// Every call that waits.
    pub(super) fn clear(&mut self) -> Vec<Caller> {
        self.first += self.waiting.len() as u64;
        (self.wanted, self.outstanding) = (0, 0);
        self.waiting.drain(..).flatten().map(|waiting| waiting.caller).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let (mut line, start) = (Line::new(), Instant::now());
        for _ in 0..100 {
            assert!(line.enter(waiting(start), start).is_ok());
        }
        let mut sent = Vec::new();
        line.take(70, &mut sent);
        for millis in [1, 6, 11, 16, 21] {
            line.answered(1, sent.len(), start + Duration::from_millis(millis));
        }
        let now = start + Duration::from_millis(21);
        assert!(matches!(line.enter(waiting(start), now), Err(Refused::Overloaded { .. })));
        line.disconnected();
        assert!(line.enter(waiting(start), now).is_ok(), "thirty wait, and none is outstanding");
    }
}
