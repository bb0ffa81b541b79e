//! A call that waits to be sent.

use bytes::BytesMut;
use sluicegate_core::Acknowledgement;

use crate::program_frame::{CALLS, HEAD, INJECTED, LANE, LATE, ONCE, TAG_BYTES, TIMES, put};
use crate::reply_frame::Tag;
use crate::resp::{Command, words_of};
use crate::slot::{Crossing, slot_of_all};
use crate::twin::Lane;

/// A call to a server.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    /// A separate command.
    Command(Command),
    /// A command for a node of a cluster that is just importing the keys.
    Asking(Command),
    /// A script call, which may be batched.
    Script(ScriptCall),
}

/// A script call: its keys, and its program.
#[derive(Clone, Debug)]
pub(crate) struct ScriptCall {
    /// The keys, and then the program.
    words: Command,
    /// Offsets of the program's word, and of its bytes.
    program_word: usize,
    program: usize,
    /// The cluster slot of its keys; 0 without a cluster.
    slot: u16,
    company: Company,
    acknowledgement: Option<Acknowledgement>,
}

/// The calls that may be in the same batch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Company {
    /// Calls with keys of the same slot.
    Slot,
    /// No calls: while a slot moves, its keys may be on different nodes.
    None,
    /// No calls, and the call is for a node that is just importing the keys.
    Asking,
}

/// The fields of a program that are filled in when it is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filled {
    pub(crate) tag: Tag,
    /// The last µs, by the server's clock, in which a caller still waits.
    pub(crate) late: u64,
    /// Number of calls in the batch.
    pub(crate) calls: u16,
    /// Number of callers that the call is made for.
    pub(crate) callers: u16,
}

impl Call {
    /// Returns the cluster slot of its keys; 0 for a separate command.
    pub(crate) const fn slot(&self) -> u16 {
        match self {
            Self::Script(call) => call.slot(),
            Self::Command(_) | Self::Asking(_) => 0,
        }
    }
}

impl ScriptCall {
    /// Returns a call of this program with the written keys.
    pub(crate) fn new(write_keys: impl FnOnce(&mut Command), program: &[u8]) -> Self {
        let mut words = Command::with_capacity(program.len() + 128);
        write_keys(&mut words);
        let program_word = words.bytes().len();
        words.word(program);
        let program = words.bytes().len() - program.len() - 2;
        Self {
            words,
            program_word,
            program,
            slot: 0,
            company: Company::Slot,
            acknowledgement: None,
        }
    }

    /// Returns the call with the acknowledgement that replicas must send.
    pub(crate) const fn acknowledged(mut self, by: Option<Acknowledgement>) -> Self {
        self.acknowledgement = by;
        self
    }

    /// Returns the acknowledgement that replicas must send.
    pub(crate) const fn acknowledgement(&self) -> Option<Acknowledgement> {
        self.acknowledgement
    }

    /// Returns the number of keys.
    pub(crate) const fn key_count(&self) -> usize {
        self.words.len() - 1
    }

    /// Returns the keys, as they are sent.
    pub(crate) fn keys(&self) -> &[u8] {
        &self.words.bytes()[..self.program_word]
    }

    /// Returns the first key.
    pub(crate) fn first_key(&self) -> &[u8] {
        words_of(self.keys()).next().unwrap_or_default()
    }

    /// Returns the cluster slot that all keys share.
    pub(crate) fn shared_slot(&self) -> Result<u16, Crossing> {
        slot_of_all(words_of(self.keys()))
    }

    /// Sets the cluster slot of the call, and the calls that it may be batched with.
    pub(crate) const fn set_company(&mut self, slot: u16, company: Company) {
        (self.slot, self.company) = (slot, company);
    }

    /// Returns the slot of the call.
    pub(crate) const fn slot(&self) -> u16 {
        self.slot
    }

    /// Returns the calls that it may be batched with.
    pub(crate) const fn company(&self) -> Company {
        self.company
    }

    /// Returns whether both calls may be in one command.
    pub(crate) fn may_travel_with(&self, other: &Self) -> bool {
        self.slot == other.slot
            && [self.company, other.company].iter().all(|company| *company == Company::Slot)
    }

    /// Returns whether the call is a plain check, without an id.
    pub(crate) fn is_check(&self) -> bool {
        let lane = self.words.bytes()[self.program + LANE];
        lane < ONCE && [Lane::Shortest as u8, Lane::Express as u8].contains(&(lane % INJECTED))
    }

    /// Returns whether two checks are identical, so that only their callers differ.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.words.bytes() == other.words.bytes()
    }

    /// Returns the program, as it is sent.
    pub(crate) fn program(&self) -> &[u8] {
        &self.words.bytes()[self.program_word..]
    }

    /// Writes the program, with the fields that are filled in when it is sent.
    pub(crate) fn write_program(&self, out: &mut BytesMut, filled: Filled) {
        let word = &self.words.bytes()[self.program_word..];
        let at = out.len() + self.program - self.program_word;
        out.extend_from_slice(word);
        let head = &mut out[at..at + HEAD.size()];
        head[..TAG_BYTES].copy_from_slice(&filled.tag);
        put(&mut head[LATE..], filled.late);
        head[CALLS..CALLS + 2].copy_from_slice(&filled.calls.to_be_bytes());
        head[TIMES..TIMES + 2].copy_from_slice(&filled.callers.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_core::{Limit, MAX_EXACT, Operation, Request, Span};

    use super::*;
    use crate::program::Program;

    fn call(key: &[u8], operation: Operation<'_>) -> ScriptCall {
        let limit = Limit::new("l", vec!["gcra 1/s"]).unwrap();
        let request = Request::new(operation, b"alice");
        let program = Program::new(&limit, Span::SECOND).bytes(&limit, &request, |_| 0, None);
        let write_key = |words: &mut Command| {
            words.word(key);
        };
        ScriptCall::new(write_key, &program)
    }

    #[test]
    fn a_call_is_written_with_its_tag_its_time_and_its_number() {
        let call = call(b"key", Operation::Check);
        assert_eq!((call.key_count(), call.keys()), (1, &b"$3\r\nkey\r\n"[..]));
        let mut out = BytesMut::new();
        let filled = Filled { tag: *b"tag!", late: MAX_EXACT, calls: 772, callers: 258 };
        call.write_program(&mut out, filled);
        let start = out.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        let head = &out[start..start + HEAD.size()];
        assert_eq!(head[..4], *b"tag!");
        assert_eq!(head[4..11], MAX_EXACT.to_be_bytes()[1..]);
        assert_eq!(head[13..17], [3, 4, 1, 2]);
        assert!(out.ends_with(b"\r\n"));
        // The rest is unchanged.
        let mut plain = BytesMut::new();
        call.write_program(&mut plain, Filled { tag: [0; 4], calls: 1, callers: 1, ..filled });
        assert_eq!(plain[start + 17..], out[start + 17..]);
        assert_eq!(&plain[..], call.program());
    }

    #[test]
    fn checks_in_the_same_words_are_the_same() {
        let check = call(b"key", Operation::Check);
        assert!(check.is_check() && check.is_same(&call(b"key", Operation::Check)));
        assert!(!check.is_same(&call(b"kez", Operation::Check)));
        let peek = call(b"key", Operation::Peek);
        assert!(!peek.is_check() && !peek.is_same(&check));
    }
}
