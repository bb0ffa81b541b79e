//! The calls that wait for a server, and what is known of it: what callers and the connection share.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;

use bytes::BytesMut;
use sluicegate_core::StoreError;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::pace::Pace;
use crate::resp::{Command, Value};

/// What a caller gets.
pub(super) type Answer = Result<Value, StoreError>;

/// A call that waits to be sent.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) command: Command,
    pub(super) answer: oneshot::Sender<Answer>,
    pub(super) patience: Duration,
}

/// A call that was sent.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) answer: oneshot::Sender<Answer>,
    pub(super) patience: Duration,
}

/// Calls in the order in which they came, each with the number of its ticket.
#[derive(Debug)]
pub(super) struct Line {
    /// `None` for a call whose caller has given up.
    waiting: VecDeque<Option<Call>>,
    /// How many of them are still wanted.
    wanted: usize,
    /// The ticket of the first.
    first: u64,
    outstanding: usize,
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
            state: State::Unattended,
            pace: Pace::default(),
            server: None,
            is_closed: false,
        }
    }

    /// Takes a call in, and returns its ticket.
    pub(super) fn enter(
        &mut self,
        call: Call,
        deadline: Instant,
        now: Instant,
    ) -> Result<u64, Refused> {
        if let State::Away { until, error } = &self.state
            && *until > deadline
        {
            return Err(Refused::Away(error.clone()));
        }
        let outstanding = self.wanted + self.outstanding;
        if outstanding >= self.pace.most(call.patience, now) {
            return Err(Refused::Overloaded { outstanding });
        }
        self.waiting.push_back(Some(call));
        self.wanted += 1;
        Ok(self.first + self.waiting.len() as u64 - 1)
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

    /// Moves calls from here to the wire, as long as there is room for them there.
    pub(super) fn send(
        &mut self,
        room: usize,
        bytes: usize,
        out: &mut BytesMut,
        sent: &mut VecDeque<Sent>,
    ) {
        let full = sent.len() + room;
        while sent.len() < full && out.len() < bytes {
            let Some(call) = self.waiting.pop_front() else { break };
            self.first += 1;
            let Some(Call { command, answer, patience }) = call else { continue };
            self.wanted -= 1;
            command.write(out);
            sent.push_back(Sent { answer, patience });
        }
        self.outstanding = sent.len();
    }

    /// Counts answers to calls that were sent.
    pub(super) fn answered(&mut self, calls: u64, outstanding: usize, now: Instant) {
        self.outstanding = outstanding;
        self.pace.answered(calls, self.wanted > 0, now);
    }

    /// The connection has ended, and nothing is outstanding any more.
    pub(super) fn disconnected(&mut self) {
        (self.state, self.outstanding) = (State::Connecting, 0);
    }

    /// Every call that waits.
    pub(super) fn clear(&mut self) -> Vec<Call> {
        self.first += self.waiting.len() as u64;
        (self.wanted, self.outstanding) = (0, 0);
        self.waiting.drain(..).flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> Call {
        let (answer, _) = oneshot::channel();
        Call { command: Command::of(&[b"PING"]), answer, patience: Duration::from_millis(50) }
    }

    /// They counted against callers for as long as the pace was known, and were never answered.
    #[test]
    fn what_a_broken_connection_left_unanswered_keeps_nobody_out() {
        let (mut line, start) = (Line::new(), Instant::now());
        let deadline = start + Duration::from_millis(50);
        for _ in 0..100 {
            assert!(line.enter(call(), deadline, start).is_ok());
        }
        let (mut out, mut sent) = (BytesMut::new(), VecDeque::new());
        line.send(70, usize::MAX, &mut out, &mut sent);
        for millis in [1, 11, 21] {
            line.answered(1, sent.len(), start + Duration::from_millis(millis));
        }
        let now = start + Duration::from_millis(21);
        assert!(matches!(line.enter(call(), deadline, now), Err(Refused::Overloaded { .. })));
        line.disconnected();
        assert!(line.enter(call(), deadline, now).is_ok(), "thirty wait, and none is outstanding");
    }
}
