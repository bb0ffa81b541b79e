//! The traffic with a server: script calls are batched into one command, and equal ones into one call.
//! [`Wire`] does both.
//!
//! Each slot has at most two flights under way. Meanwhile its further calls wait in the queue for the next
//! flight. So batches grow with the load, and no call waits for a timer.

use std::collections::VecDeque;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use hashbrown::{DefaultHashBuilder, HashTable};
use sluicegate_core::for_stores::Batch;
use sluicegate_core::{Acknowledgement, MAX_EXACT, Span};
use smallvec::{SmallVec, smallvec};
use tokio::time::Instant;

use super::in_flight::{Asked, Entry, Learned, Sent, Together, Wrong};
use super::send_queue::{Caller, Waiting};
use super::server_clock::ServerClock;
use super::slots::{Many, Slots};
use super::traffic::Traffic;
use crate::call::{Call, Company, Filled, ScriptCall};
use crate::resp::{Command, Value, put_length, put_word};
use crate::script::Script;

/// Maximum number of commands under way. Further calls wait in the queue, from which they can be taken back
/// without a trace.
const COMMANDS: usize = 512;
/// Maximum number of calls that replicas acknowledge together: those sent while earlier calls are waited for.
const GROUP: usize = 512;

/// The commands that a connection has sent without an answer, and the ones in preparation.
#[derive(Debug)]
pub(super) struct Wire {
    /// Maximum number of calls in a batch.
    most: usize,
    /// Bytes to be written.
    pub(super) output: BytesMut,
    sent: VecDeque<Sent>,
    learned: Learned,
    pub(super) slots: Slots,
    /// Number of callers of these commands.
    callers: usize,
    /// Number of calls added since the last wait for replicas.
    boarding: usize,
    /// Calls that will be one command, or one for each slot.
    batch: SmallVec<[Entry; 1]>,
    /// The batch of the caller of the last entry.
    last: Option<Batch>,
    /// Index of the last batch entry that an equal check may join, by its keys.
    known: HashTable<usize>,
    hasher: DefaultHashBuilder,
    last_tag: u32,
    /// Number of script calls so far.
    scripts: u64,
    /// The zero of the ms in which deadlines are compared.
    start: Instant,
    traffic: Arc<Traffic>,
    /// The acknowledgement that replicas must send for each flight.
    acknowledgement: Option<Acknowledgement>,
}

impl Wire {
    /// Returns a wire with batches of up to `most` calls.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            output: BytesMut::new(),
            sent: VecDeque::new(),
            learned: Learned {
                clock: None,
                needs_script: false,
                taught: 0,
                again: Vec::new(),
                withheld: None,
            },
            slots: if most > 1 { Slots::One(0) } else { Slots::Open },
            callers: 0,
            boarding: 0,
            batch: SmallVec::new(),
            last: None,
            known: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            last_tag: fastrand::u32(..),
            scripts: 0,
            start: Instant::now(),
            traffic: Arc::default(),
            acknowledgement: None,
        }
    }

    /// Returns the wire for a node of a cluster, which takes no call about several slots.
    pub(super) fn by_slot(mut self) -> Self {
        if let Slots::One(_) = self.slots {
            self.slots = Slots::Many(Many::default());
        }
        self
    }

    /// Returns the wire for a connection on which replicas must acknowledge each call. The server does
    /// nothing else on a connection while it waits for them. So all calls that arrive meanwhile are batched,
    /// regardless of their slots.
    pub(super) fn acknowledged(mut self, by: Option<Acknowledgement>) -> Self {
        self.acknowledgement = by;
        self.learned.withheld = by.map(|_| Vec::new());
        if by.is_some() {
            self.slots = Slots::Open;
        }
        self
    }

    /// Returns the wire with a counter for the calls it sends.
    pub(super) fn counted_by(mut self, traffic: Arc<Traffic>) -> Self {
        self.traffic = traffic;
        self
    }

    /// Returns how many calls may be added now, of those that the slots [admit](Slots::admit).
    pub(super) fn room(&self) -> usize {
        match self.acknowledgement {
            // The current wait for replicas covers all calls that were added so far.
            Some(_) if self.is_acknowledging() => 0,
            Some(_) => self.most.max(GROUP).saturating_sub(self.boarding),
            None if self.sent.len() >= COMMANDS || self.slots.are_busy() => 0,
            None => self.most.saturating_sub(self.batch.len()),
        }
    }

    /// Returns the number of callers that wait for an answer.
    pub(super) fn callers(&self) -> usize {
        self.callers
    }

    /// Returns whether every reply has arrived.
    pub(super) fn is_idle(&self) -> bool {
        self.sent.is_empty()
    }

    /// Returns the time that the first waiting caller had.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.sent.iter().find_map(Sent::patience)
    }

    /// Adds a call to the next flight.
    pub(super) fn add(&mut self, Waiting { call, caller, batch }: Waiting) {
        if caller.is_gone() {
            return;
        }
        self.callers += 1;
        match call {
            Call::Script(call) => self.board(call, caller, batch),
            Call::Command(command) => {
                self.write_batch();
                self.write_command(command, caller);
            }
            Call::Asking(command) => {
                self.write_batch();
                self.write_asking();
                self.write_command(command, caller);
            }
        }
    }

    /// Sends the added calls.
    pub(super) fn depart(&mut self) {
        self.write_batch();
        if let Some(wanted) = self.acknowledgement
            && !self.sent.is_empty()
            && !self.is_acknowledging()
        {
            self.write_wait(wanted);
        }
    }

    /// Hands out a reply, and returns the number of its callers.
    pub(super) fn answer(&mut self, reply: Value) -> Result<u64, Wrong> {
        // After a reply to another call, the callers of this call get the same error as all others.
        self.sent.front().map_or(Ok(()), |sent| sent.check(&reply))?;
        // An answer without a call has no caller.
        let sent = self.sent.pop_front().ok_or(Wrong::Nonsense)?;
        let callers = sent.callers() + self.learned.withheld();
        if let Asked::Script(calls) = &sent.asked {
            self.slots.landed(calls.slot());
            self.traffic.answered(sent.at.elapsed());
        }
        sent.answer(reply, &mut self.learned)?;
        let answered = callers - self.learned.withheld();
        self.callers -= answered;
        Ok(answered as u64)
    }

    /// Returns the calls to send again.
    pub(super) fn take_again(&mut self) -> Vec<Waiting> {
        std::mem::take(&mut self.learned.again)
    }

    /// Returns all callers without an answer.
    pub(super) fn into_callers(self) -> impl Iterator<Item = Caller> {
        let again = self.learned.again.into_iter().map(|waiting| waiting.caller);
        let withheld = self.learned.withheld.into_iter().flatten().map(|(caller, _)| caller);
        withheld.chain(self.sent.into_iter().flat_map(Sent::into_callers)).chain(again)
    }

    /// Adds a call to the batch, or its caller to an equal call. Calls about one key are decided in their
    /// order of arrival. A full batch departs before the next call, unless the caller made both together.
    fn board(&mut self, call: ScriptCall, caller: Caller, batch: Option<Batch>) {
        if self.batch.len() >= self.most && (batch.is_none() || batch != self.last) {
            self.write_batch();
        }
        self.last = batch;
        if !call.is_check() || call.company() != Company::Slot {
            // This call may use several keys, so later calls must not join earlier ones.
            self.known.clear();
        } else if self.most > 1 {
            let hash = self.hasher.hash_one(call.keys());
            let last =
                self.known.find_mut(hash, |&index| self.batch[index].call.keys() == call.keys());
            if let Some(last) = last {
                let entry = &mut self.batch[*last];
                if entry.is_for(&call, &caller, self.start) {
                    entry.callers.push(caller);
                    return;
                }
                *last = self.batch.len();
            } else {
                let hash_of = |&index: &usize| self.hasher.hash_one(self.batch[index].call.keys());
                self.known.insert_unique(hash, self.batch.len(), hash_of);
            }
        }
        self.boarding += 1;
        self.batch.push(Entry { call, callers: smallvec![caller], batch });
    }

    fn write_command(&mut self, command: Command, caller: Caller) {
        self.boarding += 1;
        command.write(&mut self.output);
        self.push(Asked::Command(command, caller));
    }

    /// Makes an importing node of a cluster take the next command.
    fn write_asking(&mut self) {
        Command::of(&[b"ASKING"]).write(&mut self.output);
        self.push(Asked::Asking);
    }

    /// Asks how many replicas have the earlier calls, once they are enough or the time is up.
    fn write_wait(&mut self, wanted: Acknowledgement) {
        let millis = Span::from(wanted.within).as_millis_ceil().max(1);
        let mut wait = Command::of(&[b"WAIT"]);
        wait.number(wanted.replicas.get().into()).number(millis);
        wait.write(&mut self.output);
        self.boarding = 0;
        let patience = self.patience();
        self.push(Asked::Replicas(wanted, patience));
    }

    fn write_batch(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        self.known.clear();
        let mut batch = std::mem::take(&mut self.batch);
        let is_one = |batch: &[Entry]| {
            batch[1..].iter().all(|entry| entry.call.may_travel_with(&batch[0].call))
        };
        if !is_one(&batch) {
            // Calls of one slot stay in order, because nothing else shows which came first.
            batch.sort_by_key(|entry| entry.call.slot());
        }
        while !is_one(&batch) {
            let others = batch[1..].iter();
            let also = others.take_while(|entry| entry.call.may_travel_with(&batch[0].call));
            let together = 1 + also.count();
            let first = batch.drain(..together).collect();
            self.write_script(first);
        }
        self.write_script(batch);
    }

    /// Writes one script call for all entries.
    fn write_script(&mut self, entries: SmallVec<[Entry; 1]>) {
        if entries[0].call.company() == Company::Asking {
            self.write_asking();
        }
        let script = Script::get();
        self.scripts += 1;
        let (name, text) = if std::mem::take(&mut self.learned.needs_script) {
            self.learned.taught = self.scripts;
            (&b"EVAL"[..], script.text())
        } else {
            (&b"EVALSHA"[..], script.digest())
        };
        self.last_tag = self.last_tag.wrapping_add(1);
        let tag = self.last_tag.to_be_bytes();
        let keys: usize = entries.iter().map(|entry| entry.call.key_count()).sum();
        let start = self.start;
        let runs = || entries.chunk_by(|entry, next| entry.is_followed_by(next, start));
        let out = &mut self.output;
        put_length(out, b'*', 3 + keys + runs().count());
        put_word(out, name);
        put_word(out, text.as_bytes());
        put_word(out, itoa::Buffer::new().format(keys).as_bytes());
        entries.iter().for_each(|entry| out.extend_from_slice(entry.call.keys()));
        for run in runs() {
            let count = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
            let deadline = run.iter().flat_map(|entry| &entry.callers).map(|it| it.deadline).max();
            let late = deadline.map_or(MAX_EXACT, |at| ServerClock::latest(self.learned.clock, at));
            let (calls, callers) = (count(run.len()), count(run[0].callers.len()));
            run[0].call.write_program(out, Filled { tag, late, calls, callers });
        }
        self.traffic.count(entries.iter().map(|entry| entry.callers.len()).sum());
        self.slots.left(entries[0].call.slot());
        self.push(Asked::Script(Together { entries, tag, number: self.scripts }));
    }

    /// Returns whether replicas were asked about the last call.
    fn is_acknowledging(&self) -> bool {
        self.sent.back().is_some_and(|sent| matches!(sent.asked, Asked::Replicas(..)))
    }

    fn push(&mut self, asked: Asked) {
        self.sent.push_back(Sent { asked, at: Instant::now() });
    }
}

#[cfg(test)]
#[allow(clippy::panic, reason = "a test fails by panicking")]
mod tests;
