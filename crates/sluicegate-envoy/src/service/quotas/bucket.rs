//! A bucket of a stream.

use std::sync::Arc;

use super::message::Blanket;
use super::{FundKey, Shared};
use crate::quota::{Assignment, Demand, Facts, Numbers, per_kilosecond};

/// A client's report about a bucket.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Usage {
    pub(super) allowed: u64,
    pub(super) denied: u64,
    /// The seconds since the last report, as the client cuts them; at least 0.
    pub(super) seconds: u64,
}

/// A bucket of a stream.
#[derive(Debug, Default)]
pub(super) struct Bucket {
    /// The latest report.
    pub(super) reported: u64,
    /// The latest blanket answer, and its instant.
    pub(super) told: Option<(Blanket, u64)>,
    /// `None` for a bucket that gets no share.
    pub(super) holder: Option<Holder>,
}

/// A holder of a share, or one who wants it.
#[derive(Debug)]
pub(super) struct Holder {
    pub(super) fund: Arc<FundKey>,
    pub(super) number: u64,
    demand: Demand,
    /// The assignment that this stream gave.
    pub(super) held: Option<Assignment>,
    /// The requests per 1,000 seconds that it admits by an assignment of another stream.
    admits: Option<u64>,
    /// The latest request for a share.
    pub(super) asked: Option<u64>,
    is_active: bool,
}

const SECOND: u64 = 1_000_000;

impl Usage {
    /// Adds what another report says about the same bucket.
    pub(super) fn add(&mut self, other: Self) {
        self.allowed = self.allowed.saturating_add(other.allowed);
        self.denied = self.denied.saturating_add(other.denied);
        self.seconds = self.seconds.max(other.seconds);
    }

    const fn requests(self) -> u64 {
        self.allowed.saturating_add(self.denied)
    }
}

impl Bucket {
    /// For how long a bucket without an assignment is known after its latest report, in µs.
    const KNOWN_FOR: u64 = 60 * SECOND;

    /// Returns whether a blanket answer is due: the first one, another one, or after half of its time.
    pub(super) fn is_due(&self, blanket: Blanket, now: u64) -> bool {
        self.told.is_none_or(|(told, at)| {
            told != blanket || now.saturating_sub(at) >= blanket.seconds() * SECOND / 2
        })
    }

    /// Returns the instant when it is forgotten without a further report.
    pub(super) fn ends_at(&self) -> u64 {
        match self.held() {
            Some(held) => held.over_at(),
            None => self.reported.saturating_add(Self::KNOWN_FOR),
        }
    }

    pub(super) fn held(&self) -> Option<&Assignment> {
        self.holder.as_ref()?.held.as_ref()
    }

    /// Takes away its share, which stays booked.
    pub(super) fn leave(&mut self, shared: &Shared) {
        if let Some(holder) = self.holder.take() {
            let booked = holder.held.map(|held| (held.share, held.ends));
            shared.state().leave(&holder.fund, holder.number, booked);
        }
    }

    /// Notes a report of a bucket whose limit and key are those of a fund.
    pub(super) fn report(&mut self, usage: Usage, fund: Arc<FundKey>, shared: &Shared, now: u64) {
        if self.holder.as_ref().is_some_and(|holder| holder.fund != fund) {
            self.leave(shared);
        }
        let since = now.saturating_sub(self.reported);
        (self.reported, self.told) = (now, None);
        match &mut self.holder {
            Some(holder) => {
                holder.demand.add(usage.requests(), now);
                holder.is_active = usage.requests() > 0;
                let admits = usage.allowed > 0 && holder.held.is_none() && holder.admits.is_some();
                holder.admits = admits.then(|| per_kilosecond(usage.allowed, since));
            }
            None => {
                let number = shared.state().new_holder();
                // The first request to a bucket is reported immediately, and later ones after seconds.
                let admits = usage.allowed > 0 && usage.seconds > 0;
                self.holder = Some(Holder {
                    fund,
                    number,
                    demand: Demand::new(now),
                    held: None,
                    admits: admits.then(|| per_kilosecond(usage.allowed, usage.seconds * SECOND)),
                    asked: None,
                    is_active: usage.requests() > 0,
                });
            }
        }
    }
}

impl Holder {
    /// The shortest time between two requests for a share, in µs.
    const PACE: u64 = SECOND;

    /// Returns whether it is time to ask for a share.
    pub(super) fn may_ask(&self, now: u64) -> bool {
        self.asked.is_none_or(|asked| now.saturating_sub(asked) >= Self::PACE)
    }

    /// Returns the share that its demand needs.
    pub(super) fn need(&self, numbers: Numbers) -> Option<u64> {
        self.demand.per_kilosecond().map(|demand| numbers.need_of(demand))
    }

    /// Returns what a plan is made of.
    pub(super) fn facts(&self, numbers: Numbers) -> Facts<'_> {
        Facts {
            numbers,
            held: self.held.as_ref(),
            admits: self.admits,
            need: self.need(numbers),
            is_active: self.is_active,
        }
    }
}
