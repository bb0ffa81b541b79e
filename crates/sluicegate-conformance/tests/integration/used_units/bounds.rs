//! A minimal implementation of a bucket's two bounds while units are held, and possible defects of
//! it.

use super::Bucket;

/// A mistake that admits too much.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Defect {
    None,
    /// The second bound drains below the held units.
    DrainsBelowWhatIsHeld,
    /// Settling credits all unused units to the first bound, although they have drained.
    CreditsInFull,
    /// A hold that expires gives its units back.
    CreditsAtTheEnd,
    /// A second settlement gives units back again.
    ReturnsTwice,
}

impl Defect {
    pub(crate) const ALL: [Self; 4] = [
        Self::DrainsBelowWhatIsHeld,
        Self::CreditsInFull,
        Self::CreditsAtTheEnd,
        Self::ReturnsTwice,
    ];
}

/// The hold of one request.
#[derive(Clone, Copy, Debug)]
struct Held {
    number: u64,
    at: u64,
    units: u64,
    until: u64,
    is_settled: bool,
}

/// A bucket that uses the smaller of two bounds of its deficit, both in ticks.
#[derive(Debug)]
pub(crate) struct TwoBounds {
    bucket: Bucket,
    defect: Defect,
    now: u64,
    /// The bound under which held units drain like all others.
    draining: u64,
    /// The bound under which held units don't drain.
    holding: u64,
    held: Vec<Held>,
}

impl TwoBounds {
    pub(crate) const fn new(bucket: Bucket, defect: Defect) -> Self {
        Self { bucket, defect, now: 0, draining: 0, holding: 0, held: Vec::new() }
    }

    /// Takes units, if that many are free.
    pub(crate) fn take(&mut self, now: u64, units: u64) -> bool {
        self.bring_to(now);
        let ticks = units * self.bucket.per_unit;
        let passes = self.draining + ticks <= self.bucket.burst * self.bucket.per_unit;
        if passes {
            self.draining += ticks;
            self.holding += ticks;
        }
        passes
    }

    /// Takes units and holds them, if that many are free.
    pub(crate) fn hold(&mut self, now: u64, number: u64, units: u64, lasts: u64) -> bool {
        let passes = self.take(now, units);
        if passes {
            let until = now + lasts;
            self.held.push(Held { number, at: now, units, until, is_settled: false });
        }
        passes
    }

    /// Gives back the unused units. Returns whether the hold was unsettled.
    pub(crate) fn settle(&mut self, now: u64, number: u64, used: u64) -> bool {
        self.bring_to(now);
        let Some(held) = self.held.iter_mut().find(|held| held.number == number) else {
            return false;
        };
        let was_settled = std::mem::replace(&mut held.is_settled, true);
        let held = *held;
        if was_settled && self.defect != Defect::ReturnsTwice {
            return false;
        }
        let unused = (held.units - used) * self.bucket.per_unit;
        let drained = if self.defect == Defect::CreditsInFull {
            0
        } else {
            (now - held.at) * self.bucket.per_micro
        };
        self.draining = self.draining.saturating_sub(unused.saturating_sub(drained));
        self.holding = self.holding.saturating_sub(unused).max(self.pinned());
        self.draining = self.draining.min(self.holding);
        !was_settled
    }

    /// Moves the end of a hold.
    pub(crate) fn renew(&mut self, now: u64, number: u64, lasts: u64) {
        self.bring_to(now);
        if let Some(held) = self.held.iter_mut().find(|held| held.number == number) {
            held.until = now + lasts;
        }
    }

    fn pinned(&self) -> u64 {
        if self.defect == Defect::DrainsBelowWhatIsHeld {
            return 0;
        }
        let held = self.held.iter().filter(|held| !held.is_settled);
        held.map(|held| held.units * self.bucket.per_unit).sum()
    }

    fn bring_to(&mut self, now: u64) {
        loop {
            let next = self.held.iter().map(|held| held.until).min().unwrap_or(u64::MAX);
            let then = next.min(now);
            let drained = (then - self.now) * self.bucket.per_micro;
            self.draining = self.draining.saturating_sub(drained);
            self.holding = self.holding.saturating_sub(drained).max(self.pinned());
            self.now = then;
            if next > now {
                return;
            }
            for held in self.held.extract_if(.., |held| held.until <= next) {
                if self.defect == Defect::CreditsAtTheEnd && !held.is_settled {
                    let units = held.units * self.bucket.per_unit;
                    self.holding = self.holding.saturating_sub(units);
                }
            }
            self.draining = self.draining.min(self.holding);
        }
    }
}
