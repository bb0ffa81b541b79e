//! The commands in flight, and their callers.

use std::time::Duration;

use sluicegate_core::Acknowledgement;
use sluicegate_core::for_stores::Batch;
use smallvec::SmallVec;
use tokio::time::Instant;

use super::redirect::Redirect;
use super::send_queue::{Caller, Redirected, Told, Unacknowledged, Waiting};
use super::server_clock::ServerClock;
use crate::call::{Call, ScriptCall};
use crate::reply_frame::{self, List, ReplyFrame, Said, Tag};
use crate::resp::{Command, Value};

/// Maximum number of callers of one script call.
const MOST_CALLERS: usize = 4_096;

/// A command that was sent.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) asked: Asked,
    pub(super) at: Instant,
}

/// The kind of a command.
#[derive(Debug)]
pub(super) enum Asked {
    /// The prefix of a call to an importing node. Its answer has no caller.
    Asking,
    Command(Command, Caller),
    Script(Together),
    /// A query how many replicas have the earlier decisions of this connection. Its callers are those of the
    /// withheld answers; the first one had this much time.
    Replicas(Acknowledgement, Option<Duration>),
}

/// Calls in one script call.
#[derive(Debug)]
pub(super) struct Together {
    pub(super) entries: SmallVec<[Entry; 1]>,
    pub(super) tag: Tag,
    /// Number of the script call.
    pub(super) number: u64,
}

/// A script call with all its callers, the earliest first.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) call: ScriptCall,
    pub(super) callers: SmallVec<[Caller; 1]>,
    /// The batch of the first caller.
    pub(super) batch: Option<Batch>,
}

/// A reply that doesn't belong to the command.
#[derive(Debug)]
pub(super) enum Wrong {
    /// The reply has the wrong form for the command.
    Nonsense,
    /// The reply belongs to another call.
    Disordered,
}

/// The facts learned from replies.
#[derive(Debug)]
pub(super) struct Learned {
    /// Latest possible time of the server's clock.
    pub(super) clock: Option<ServerClock>,
    /// Whether the server has forgotten the script.
    pub(super) needs_script: bool,
    /// Number of the last call that sent the script's text.
    pub(super) taught: u64,
    /// Calls that were not executed, to send again.
    pub(super) again: Vec<Waiting>,
    /// Answers withheld until replicas acknowledge them, if they must.
    pub(super) withheld: Option<Vec<(Caller, Said)>>,
}

impl Learned {
    /// Returns the number of callers with a withheld answer.
    pub(super) fn withheld(&self) -> usize {
        self.withheld.as_ref().map_or(0, Vec::len)
    }

    /// Sends a reply to its caller, or withholds it until replicas have acknowledged it.
    fn tell(&mut self, caller: Caller, said: Said) {
        match &mut self.withheld {
            Some(withheld) => withheld.push((caller, said)),
            None => caller.tell(Told::Said(said)),
        }
    }

    /// Sends the withheld replies.
    fn release(&mut self, wanted: Acknowledgement, reply: &Value) {
        let have = if let Value::Int(have) = reply { *have } else { 0 };
        let is_enough = have >= i64::from(wanted.replicas.get());
        for (caller, said) in self.withheld.iter_mut().flat_map(std::mem::take) {
            caller.tell(if is_enough {
                Told::Said(said)
            } else {
                Told::Unacknowledged(Box::new(Unacknowledged {
                    said,
                    wanted,
                    reply: reply.clone(),
                }))
            });
        }
    }
}

impl Sent {
    /// Returns the number of callers.
    pub(super) fn callers(&self) -> usize {
        match &self.asked {
            Asked::Asking | Asked::Replicas(..) => 0,
            Asked::Command(..) => 1,
            Asked::Script(calls) => calls.entries.iter().map(|entry| entry.callers.len()).sum(),
        }
    }

    /// Returns the time that the first caller had.
    pub(super) fn patience(&self) -> Option<Duration> {
        match &self.asked {
            Asked::Asking => None,
            Asked::Replicas(_, patience) => *patience,
            Asked::Command(_, caller) => Some(caller.patience),
            Asked::Script(calls) => Some(calls.entries[0].callers[0].patience),
        }
    }

    /// Checks that a reply belongs to the command, as far as replies show it.
    pub(super) fn check(&self, reply: &Value) -> Result<(), Wrong> {
        match (&self.asked, reply) {
            (Asked::Script(calls), reply) if !matches!(reply, Value::Error(_)) => {
                match reply_frame::tag(reply) {
                    Some(tag) if tag == calls.tag => Ok(()),
                    _ => Err(Wrong::Disordered),
                }
            }
            _ => Ok(()),
        }
    }

    /// Hands out a checked reply.
    pub(super) fn answer(self, reply: Value, learned: &mut Learned) -> Result<(), Wrong> {
        match self.asked {
            // The next call's reply shows whether this was understood.
            Asked::Asking => {}
            Asked::Command(command, caller) => {
                let call = || Call::Command(command);
                caller.tell(redirected(&reply, call).unwrap_or(Told::Value(reply)));
            }
            Asked::Script(calls) => calls.answer(reply, self.at, learned)?,
            Asked::Replicas(wanted, _) => match &reply {
                Value::Int(_) | Value::Error(_) => learned.release(wanted, &reply),
                _ => return Err(Wrong::Nonsense),
            },
        }
        Ok(())
    }

    /// Returns all callers.
    pub(super) fn into_callers(self) -> SmallVec<[Caller; 1]> {
        match self.asked {
            Asked::Asking | Asked::Replicas(..) => SmallVec::new(),
            Asked::Command(_, caller) => SmallVec::from_iter([caller]),
            Asked::Script(calls) => {
                calls.entries.into_iter().flat_map(|entry| entry.callers).collect()
            }
        }
    }
}

impl Together {
    /// Returns the slot that the calls share.
    pub(super) fn slot(&self) -> u16 {
        self.entries[0].call.slot()
    }

    fn answer(mut self, reply: Value, sent: Instant, learned: &mut Learned) -> Result<(), Wrong> {
        if let Value::Error(words) = &reply {
            if words.starts_with(b"NOSCRIPT") {
                // Calls sent before the script's text get this error too.
                learned.needs_script |= self.number > learned.taught;
                self.entries.into_iter().for_each(|entry| entry.again(&mut learned.again));
            } else {
                self.entries.into_iter().for_each(|entry| entry.fail(&reply));
            }
            return Ok(());
        }
        let (first, mut others) = match reply {
            Value::Array(items) => {
                let mut items = items.into_iter();
                (items.next(), items)
            }
            first => (Some(first), Vec::new().into_iter()),
        };
        let Some(Value::Bytes(first)) = first else { return Err(Wrong::Nonsense) };
        let frame = ReplyFrame::of(&first).ok_or(Wrong::Nonsense)?;
        let at = Answered { sent, now: Instant::now() };
        if frame.sign != reply_frame::LATE {
            ServerClock::learn(&mut learned.clock, frame.micros, at.sent, at.now);
        }
        if self.entries.len() == 1 {
            let Some(entry) = self.entries.pop() else { return Err(Wrong::Nonsense) };
            return match frame.sign {
                reply_frame::OTHER => entry.answer_fully(others.collect(), learned),
                _ => entry.answer_briefly(&frame, at, learned),
            };
        }
        if frame.sign != reply_frame::TOGETHER {
            return Err(Wrong::Nonsense);
        }
        let ReplyFrame { micros, rest, .. } = frame;
        let mut list = List(rest);
        for entry in self.entries {
            match list.next().ok_or(Wrong::Nonsense)? {
                (reply_frame::OTHER, _) => match others.next() {
                    Some(Value::Array(mut items)) if !items.is_empty() => {
                        // The stamp comes first.
                        entry.answer_fully(items.split_off(1), learned)?;
                    }
                    Some(error @ Value::Error(_)) => entry.fail(&error),
                    _ => return Err(Wrong::Nonsense),
                },
                (sign, rest) => {
                    let frame = ReplyFrame { micros, sign, rest, turn: 0 };
                    entry.answer_briefly(&frame, at, learned)?;
                }
            }
        }
        Ok(())
    }
}

/// Returns the outcome of a redirected call.
fn redirected(reply: &Value, call: impl FnOnce() -> Call) -> Option<Told> {
    let Value::Error(words) = reply else { return None };
    let redirect = Redirect::of(words)?;
    Some(Told::Redirected(Box::new(Redirected { call: call(), redirect })))
}

/// The time when a call was sent, and the time of its reply.
#[derive(Clone, Copy)]
struct Answered {
    sent: Instant,
    now: Instant,
}

impl Entry {
    fn answer_briefly(
        self,
        frame: &ReplyFrame,
        at: Answered,
        learned: &mut Learned,
    ) -> Result<(), Wrong> {
        if frame.sign == reply_frame::LATE {
            ServerClock::replace(&mut learned.clock, frame.micros, at.sent);
            self.late(at.now, &mut learned.again);
            return Ok(());
        }
        if self.callers.len() > 1 && frame.sign != reply_frame::SEVERAL {
            return Err(Wrong::Nonsense);
        }
        for (turn, caller) in self.callers.into_iter().enumerate() {
            learned.tell(caller, Said::Briefly(ReplyFrame { turn, ..frame.clone() }));
        }
        Ok(())
    }

    /// Answers with the items after an array's stamp.
    fn answer_fully(mut self, items: Vec<Value>, learned: &mut Learned) -> Result<(), Wrong> {
        if self.callers.len() == 1 {
            let caller = self.callers.pop().ok_or(Wrong::Nonsense)?;
            learned.tell(caller, Said::Fully(items));
            return Ok(());
        }
        let Ok([Value::Array(replies)]) = <[Value; 1]>::try_from(items) else {
            return Err(Wrong::Nonsense);
        };
        if replies.len() != self.callers.len() {
            return Err(Wrong::Nonsense);
        }
        for (caller, reply) in self.callers.into_iter().zip(replies) {
            match reply {
                error @ Value::Error(_) => caller.tell(Told::Value(error)),
                reply => learned.tell(caller, Said::of(reply).ok_or(Wrong::Nonsense)?),
            }
        }
        Ok(())
    }

    /// Returns whether this entry and the next one can share a program.
    pub(super) fn is_followed_by(&self, next: &Self, from: Instant) -> bool {
        let ([caller], [other]) = (&self.callers[..], &next.callers[..]) else { return false };
        caller.waits_as_long_as(other, from) && self.call.program() == next.call.program()
    }

    /// Returns whether another caller may join those of the call.
    pub(super) fn is_for(&self, call: &ScriptCall, caller: &Caller, from: Instant) -> bool {
        self.callers.len() < MOST_CALLERS
            && self.callers[0].waits_as_long_as(caller, from)
            && self.call.is_same(call)
    }

    /// Sends the error to all callers.
    fn fail(self, error: &Value) {
        for caller in self.callers {
            let call = || Call::Script(self.call.clone());
            caller.tell(redirected(error, call).unwrap_or_else(|| Told::Value(error.clone())));
        }
    }

    /// Handles a call that the server skipped as too late. A caller that still waits is retried once.
    fn late(self, now: Instant, again: &mut Vec<Waiting>) {
        for mut caller in self.callers {
            if caller.was_late || caller.deadline <= now {
                caller.tell(Told::Late);
            } else {
                caller.was_late = true;
                let call = Call::Script(self.call.clone());
                again.push(Waiting { call, caller, batch: self.batch });
            }
        }
    }

    /// Sends the call again for all callers. It was not executed.
    fn again(self, again: &mut Vec<Waiting>) {
        let Self { call, callers, batch } = self;
        let waiting = |caller| Waiting { call: Call::Script(call.clone()), caller, batch };
        again.extend(callers.into_iter().map(waiting));
    }
}
