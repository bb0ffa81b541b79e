//! What is in flight: what was sent, and who waits for it.

use std::time::Duration;

use sluicegate_core::Acknowledgement;
use smallvec::SmallVec;
use tokio::time::Instant;

use super::redirect::Redirect;
use super::send_queue::{Caller, Redirected, Told, Unacknowledged, Waiting};
use super::server_clock::ServerClock;
use crate::call::{Call, ScriptCall};
use crate::reply_frame::{self, List, ReplyFrame, Said, Tag};
use crate::resp::{Command, Value};

/// Callers that one call of the script may stand for.
const MOST_CALLERS: usize = 4_096;

/// A command that was sent.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) asked: Asked,
    pub(super) at: Instant,
}

/// What was asked with a command.
#[derive(Debug)]
pub(super) enum Asked {
    /// What goes before a call whose keys are just on their way; nobody waits for its answer.
    Asking,
    Command(Command, Caller),
    Script(Together),
    /// How many replicas have what was decided before it on this connection. Whoever waits is with
    /// those that are withheld; the first had so much time.
    Replicas(Acknowledgement, Option<Duration>),
}

/// Calls that are one call of the script.
#[derive(Debug)]
pub(super) struct Together {
    pub(super) entries: SmallVec<[Entry; 1]>,
    pub(super) tag: Tag,
    /// Counts the calls of the script.
    pub(super) number: u64,
}

/// A call of the script, with all who asked it, first come first.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) call: ScriptCall,
    pub(super) callers: SmallVec<[Caller; 1]>,
}

/// A reply is not the one to what was asked.
#[derive(Debug)]
pub(super) enum Wrong {
    /// No reply to such a command.
    Nonsense,
    /// The reply to another call.
    Disordered,
}

/// What is learned from replies.
#[derive(Debug)]
pub(super) struct Learned {
    /// What the server's clock shows at the latest.
    pub(super) clock: Option<ServerClock>,
    /// Whether the server has forgotten the script.
    pub(super) needs_script: bool,
    /// The number of the call of it that taught it last.
    pub(super) taught: u64,
    /// Calls of which nothing was done, and which are to be sent again.
    pub(super) again: Vec<Waiting>,
    /// What isn't told before replicas have it, where they have to.
    pub(super) withheld: Option<Vec<(Caller, Said)>>,
}

impl Learned {
    /// How many callers are not told yet what was decided.
    pub(super) fn withheld(&self) -> usize {
        self.withheld.as_ref().map_or(0, Vec::len)
    }

    /// Tells what was decided, now or when replicas have it.
    fn tell(&mut self, caller: Caller, said: Said) {
        match &mut self.withheld {
            Some(withheld) => withheld.push((caller, said)),
            None => caller.tell(Told::Said(said)),
        }
    }

    /// Tells what was withheld.
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
    /// How many callers wait for it.
    pub(super) fn callers(&self) -> usize {
        match &self.asked {
            Asked::Asking | Asked::Replicas(..) => 0,
            Asked::Command(..) => 1,
            Asked::Script(calls) => calls.entries.iter().map(|entry| entry.callers.len()).sum(),
        }
    }

    /// How much time the first of them had.
    pub(super) fn patience(&self) -> Option<Duration> {
        match &self.asked {
            Asked::Asking => None,
            Asked::Replicas(_, patience) => *patience,
            Asked::Command(_, caller) => Some(caller.patience),
            Asked::Script(calls) => Some(calls.entries[0].callers[0].patience),
        }
    }

    /// Checks that a reply is the one to it, as far as replies tell.
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

    /// Hands out a reply, which was checked.
    pub(super) fn answer(self, reply: Value, learned: &mut Learned) -> Result<(), Wrong> {
        match self.asked {
            // Whether it was understood, the call that follows tells.
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

    /// Everybody who waits for it.
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
    /// Whose slot they share.
    pub(super) fn slot(&self) -> u16 {
        self.entries[0].call.slot()
    }

    fn answer(mut self, reply: Value, sent: Instant, learned: &mut Learned) -> Result<(), Wrong> {
        if let Value::Error(words) = &reply {
            if words.starts_with(b"NOSCRIPT") {
                // Those that were sent before it was taught say so too.
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
                        // After its stamp.
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

/// What to tell the caller of a call that was sent elsewhere.
fn redirected(reply: &Value, call: impl FnOnce() -> Call) -> Option<Told> {
    let Value::Error(words) = reply else { return None };
    let redirect = Redirect::of(words)?;
    Some(Told::Redirected(Box::new(Redirected { call: call(), redirect })))
}

/// When a call was sent, and when its reply came.
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

    /// Of an array, what follows its stamp.
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

    /// Whether one program does for it and the next one.
    pub(super) fn is_followed_by(&self, next: &Self, from: Instant) -> bool {
        let ([caller], [other]) = (&self.callers[..], &next.callers[..]) else { return false };
        caller.waits_as_long_as(other, from) && self.call.program() == next.call.program()
    }

    /// Whether another caller may join those of the call.
    pub(super) fn is_for(&self, call: &ScriptCall, caller: &Caller, from: Instant) -> bool {
        self.callers.len() < MOST_CALLERS
            && self.callers[0].waits_as_long_as(caller, from)
            && self.call.is_same(call)
    }

    /// Tells everybody what is wrong.
    fn fail(self, error: &Value) {
        for caller in self.callers {
            let call = || Call::Script(self.call.clone());
            caller.tell(redirected(error, call).unwrap_or_else(|| Told::Value(error.clone())));
        }
    }

    /// Nothing was done: the server thought that nobody waited. Whoever does is asked for again, but
    /// only once.
    fn late(self, now: Instant, again: &mut Vec<Waiting>) {
        for mut caller in self.callers {
            if caller.was_late || caller.deadline <= now {
                caller.tell(Told::Late);
            } else {
                caller.was_late = true;
                again.push(Waiting { call: Call::Script(self.call.clone()), caller });
            }
        }
    }

    /// Nothing was done, and everybody is asked for again.
    fn again(self, again: &mut Vec<Waiting>) {
        let Self { call, callers } = self;
        again.extend(
            callers.into_iter().map(|caller| Waiting { call: Call::Script(call.clone()), caller }),
        );
    }
}
