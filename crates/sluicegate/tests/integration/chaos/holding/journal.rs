//! Journals of processes, each in a file of its own: lines that were written survive a kill.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::chaos::load::wall_clock;

/// An action of a process, or an answer to it. All times are in µs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Event {
    /// Is about to request units.
    Asks {
        rule: u64,
        key: u64,
        units: u64,
        manner: Manner,
        job: u64,
    },
    /// Got the units: since when by the store's clock, and for how long.
    Took {
        at: u64,
        lasts: u64,
        is_repeat: bool,
    },
    /// Was denied.
    Denied(Denial),
    /// No answer came, and it may have been charged, or not.
    Failed {
        is_unknown: bool,
    },
    /// Is about to renew, and got the answer.
    Renews {
        lasts: u64,
    },
    Renewed {
        is_live: bool,
    },
    /// Uses its units.
    Acts,
    /// Is about to settle or leave the queue, and got the answer.
    Settles,
    Settled(Found),
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Manner {
    /// For units now.
    AtOnce,
    /// For a permit, which renews itself.
    Permit,
    /// Waits, by polling on its own.
    Waits {
        priority: u8,
    },
    /// A limiter waits for it, and returns a permit or a grant.
    PermitWaits {
        priority: u8,
    },
    GrantWaits {
        priority: u8,
    },
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Denial {
    /// The queue is empty.
    Plain,
    /// The queue is full.
    Full,
    /// This many tickets are ahead.
    Behind(u64),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Found {
    Live,
    Settled,
    Waited,
    Unknown,
    Error,
}

/// The file of a process.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    deals: AtomicU64,
}

/// The related lines of a journal: a request, and the outcome of its units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deal<'j> {
    journal: &'j Journal,
    number: u64,
}

impl Journal {
    pub(crate) fn begin(path: &Path) -> Self {
        Self { file: File::create_new(path).unwrap(), deals: AtomicU64::new(0) }
    }

    pub(crate) fn deal(&self) -> Deal<'_> {
        Deal { journal: self, number: self.deals.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Deal<'_> {
    /// Notes it as of now, and returns the time.
    pub(crate) fn notes(self, event: Event) -> u64 {
        self.notes_at(wall_clock(), event)
    }

    pub(crate) fn notes_at(self, time: u64, event: Event) -> u64 {
        let line = Line { deal: self.number, time, event };
        // A single write, so that a line is written completely or not at all. Only the last line of a killed process
        // may be partial.
        (&self.journal.file).write_all(line.to_text().as_bytes()).unwrap();
        time
    }
}

/// One event of one deal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Line {
    pub(crate) deal: u64,
    pub(crate) time: u64,
    pub(crate) event: Event,
}

impl Line {
    /// Returns the lines of a file, except for one that was being written when its process was killed.
    pub(crate) fn all(text: &str) -> impl Iterator<Item = Self> {
        let whole = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        whole.map(|line| Self::parse(line).unwrap_or_else(|| panic!("{line:?} is no event")))
    }

    fn to_text(self) -> String {
        let (word, numbers): (&str, Vec<u64>) = match self.event {
            Event::Asks { rule, key, units, manner, job } => {
                let (manner, priority) = manner.numbers();
                ("asks", vec![rule, key, units, manner, priority, job])
            }
            Event::Took { at, lasts, is_repeat } => ("took", vec![at, lasts, is_repeat.into()]),
            Event::Denied(Denial::Plain) => ("denied", vec![]),
            Event::Denied(Denial::Full) => ("full", vec![]),
            Event::Denied(Denial::Behind(ahead)) => ("behind", vec![ahead]),
            Event::Failed { is_unknown } => ("failed", vec![is_unknown.into()]),
            Event::Renews { lasts } => ("renews", vec![lasts]),
            Event::Renewed { is_live } => ("renewed", vec![is_live.into()]),
            Event::Acts => ("acts", vec![]),
            Event::Settles => ("settles", vec![]),
            Event::Settled(found) => ("settled", vec![found as u64]),
        };
        let numbers: String = numbers.iter().map(|number| format!(" {number}")).collect();
        format!("{} {} {word}{numbers}\n", self.deal, self.time)
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let (deal, time) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let word = words.next()?;
        let numbers: Vec<u64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let event = match (word, numbers.as_slice()) {
            ("asks", &[rule, key, units, manner, priority, job]) => {
                Event::Asks { rule, key, units, manner: Manner::of(manner, priority)?, job }
            }
            ("took", &[at, lasts, is_repeat]) => {
                Event::Took { at, lasts, is_repeat: is_repeat == 1 }
            }
            ("denied", &[]) => Event::Denied(Denial::Plain),
            ("full", &[]) => Event::Denied(Denial::Full),
            ("behind", &[ahead]) => Event::Denied(Denial::Behind(ahead)),
            ("failed", &[is_unknown]) => Event::Failed { is_unknown: is_unknown == 1 },
            ("renews", &[lasts]) => Event::Renews { lasts },
            ("renewed", &[is_live]) => Event::Renewed { is_live: is_live == 1 },
            ("acts", &[]) => Event::Acts,
            ("settles", &[]) => Event::Settles,
            ("settled", &[found]) => Event::Settled(Found::of(found)?),
            _ => return None,
        };
        Some(Self { deal, time, event })
    }
}

impl Manner {
    const fn numbers(self) -> (u64, u64) {
        match self {
            Self::AtOnce => (0, 0),
            Self::Permit => (1, 0),
            Self::Waits { priority } => (2, priority as u64),
            Self::PermitWaits { priority } => (3, priority as u64),
            Self::GrantWaits { priority } => (4, priority as u64),
        }
    }

    fn of(manner: u64, priority: u64) -> Option<Self> {
        let priority = u8::try_from(priority).ok()?;
        [
            Self::AtOnce,
            Self::Permit,
            Self::Waits { priority },
            Self::PermitWaits { priority },
            Self::GrantWaits { priority },
        ]
        .get(usize::try_from(manner).ok()?)
        .copied()
    }

    /// Returns whether its hold renews itself.
    pub(crate) const fn is_permit(self) -> bool {
        matches!(self, Self::Permit | Self::PermitWaits { .. })
    }

    /// Returns its priority, if it waits.
    pub(crate) const fn priority(self) -> Option<u8> {
        match self {
            Self::AtOnce | Self::Permit => None,
            Self::Waits { priority }
            | Self::PermitWaits { priority }
            | Self::GrantWaits { priority } => Some(priority),
        }
    }
}

impl Found {
    fn of(number: u64) -> Option<Self> {
        let all = [Self::Live, Self::Settled, Self::Waited, Self::Unknown, Self::Error];
        all.get(usize::try_from(number).ok()?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_was_being_written_is_not() {
        let manner = Manner::GrantWaits { priority: 1 };
        let events = [
            Event::Asks { rule: 1, key: 0, units: 2, manner, job: 7 },
            Event::Took { at: 5, lasts: 6, is_repeat: true },
            Event::Denied(Denial::Behind(3)),
            Event::Denied(Denial::Full),
            Event::Settled(Found::Error),
        ];
        let lines = events.map(|event| Line { deal: 3, time: 9, event });
        let text: String = lines.iter().map(|line| line.to_text()).collect();
        let torn = format!("{text}3 10 setted");
        assert_eq!(Line::all(&torn).collect::<Vec<_>>(), lines);
    }
}
