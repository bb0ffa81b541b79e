//! Events of a step: printed in a counterexample, and counted to check that a search reaches all of
//! them.

use std::fmt;

/// A notable event of a step.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mark {
    Admitted,
    Refunded,
    Reset,
    Spent,
    SpentTooLate,
    Granted,
    SharedGrant,
    NoCapacity,
    NoSlot,
    SpentCounted,
    ReturnCounted,
    ReportIgnored,
    Received,
    OverBeforeReply,
    Lost,
    Crashed,
    Stood,
    Stepped,
    Restamped,
    Vanished,
}

/// Each event with its text.
pub(crate) const WORDS: [(Mark, &str); 20] = [
    (Mark::Admitted, "admitted"),
    (Mark::Refunded, "given back"),
    (Mark::Reset, "reset"),
    (Mark::Spent, "spent"),
    (Mark::SpentTooLate, "spent after the slot has expired"),
    (Mark::Granted, "granted"),
    (Mark::SharedGrant, "granted, in a slot that is there"),
    (Mark::NoCapacity, "refused: no capacity"),
    (Mark::NoSlot, "refused: no free slot"),
    (Mark::SpentCounted, "report of spent units counted"),
    (Mark::ReturnCounted, "report of returned units counted"),
    (Mark::ReportIgnored, "report ignored"),
    (Mark::Received, "lease begins"),
    (Mark::OverBeforeReply, "a lease is over before its reply came"),
    (Mark::Lost, "lost"),
    (Mark::Crashed, "crashed"),
    (Mark::Stood, "clock stands still"),
    (Mark::Stepped, "clock steps"),
    (Mark::Restamped, "restamped"),
    (Mark::Vanished, "vanished"),
];

/// A set of events.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Marks(u32);

impl Marks {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) const fn of(mark: Mark) -> Self {
        Self(1 << mark as u32)
    }

    pub(crate) const fn add(&mut self, mark: Mark) {
        self.0 |= 1 << mark as u32;
    }

    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn has(self, mark: Mark) -> bool {
        self.0 & (1 << mark as u32) != 0
    }
}

impl fmt::Display for Marks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = WORDS.iter().filter(|(mark, _)| self.has(*mark)).map(|(_, words)| *words);
        f.write_str(&words.collect::<Vec<_>>().join("; "))
    }
}
