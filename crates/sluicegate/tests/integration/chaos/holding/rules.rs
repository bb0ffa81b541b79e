//! The limits whose units are held.

use sluicegate::Limit;
use sluicegate::store::Span;

use crate::chaos::auditor::Promise;

/// Lifetime of a ticket after its waiter's last request: of waiters that poll on their own, and of those of a limiter.
pub(crate) const TICKET_LIVES: Span = match Span::from_millis(800) {
    Ok(span) => span,
    Err(_) => Span::SECOND,
};
pub(crate) const LIMITERS_TICKET_LIVES: u64 = 5_000_000;

/// A limit with held units.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// At most `most` units at a time, with a queue of `queue`.
    InFlight { most: u64, queue: u64 },
    /// Units of these policies. Each counts the usage at the time of the charge.
    Used(&'static [Promise]),
}

pub(crate) const PERMITS: usize = 0;
pub(crate) const QUEUED: usize = 1;
pub(crate) const GRANTS: usize = 2;
pub(crate) const BOTH: usize = 3;
/// This limit has no holds: its charges are known to the unit, so each denial can be checked.
pub(crate) const JOBS: usize = 4;

pub(crate) static HELD: [Held; 5] = [
    Held { name: "permits", kind: Kind::InFlight { most: 3, queue: 0 } },
    Held { name: "queued", kind: Kind::InFlight { most: 2, queue: 14 } },
    Held { name: "grants", kind: Kind::Used(&[Promise::Bucket { per_second: 10, burst: 30 }]) },
    Held {
        name: "both",
        kind: Kind::Used(&[
            Promise::Bucket { per_second: 20, burst: 20 },
            Promise::Window { limit: 30, length_ms: 2_000 },
        ]),
    },
    Held { name: "jobs", kind: Kind::Used(&[Promise::Bucket { per_second: 10, burst: 10 }]) },
];

pub(crate) const KEYS: usize = 2;

impl Held {
    pub(crate) fn limit(&self, held_for: Span) -> Limit {
        let specs: Vec<String> = match self.kind {
            Kind::InFlight { most, queue: 0 } => {
                vec![format!("concurrency {most} hold {held_for}")]
            }
            Kind::InFlight { most, queue } => {
                vec![format!("concurrency {most} hold {held_for} queue {queue} priorities 2")]
            }
            Kind::Used(promises) => promises.iter().map(|promise| promise.spec()).collect(),
        };
        let specs: Vec<_> = specs.iter().map(String::as_str).collect();
        Limit::new(self.name, specs).unwrap()
    }
}

/// A job that any process may do. Its number determines its units and their outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job(pub(crate) u64);

impl Job {
    /// Returns the job to do at this time, in µs.
    pub(crate) fn at(time: u64) -> Self {
        Self(time / 120_000)
    }

    pub(crate) const fn units(self) -> u64 {
        1 + self.0 % 6
    }

    /// Returns the usage to settle; `None` if it isn't settled.
    pub(crate) const fn used(self) -> Option<u64> {
        match self.0 / 6 % 4 {
            0 => Some(0),
            1 => None,
            _ => Some(self.0 / 24 % (self.units() + 1)),
        }
    }

    pub(crate) fn name(self) -> String {
        format!("job-{}", self.0)
    }
}
