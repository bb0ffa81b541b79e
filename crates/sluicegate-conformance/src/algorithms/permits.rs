//! Units in flight: until when how many are held, added up anew for every question.

use sluicegate_core::{Algorithm, MAX_EXACT};

use super::account::{Account, Patience, Refusal, Report, Retry, Verdict, unknown};

/// What is in flight: until when, and how many units.
#[derive(Clone, Debug, Default)]
pub(crate) struct Permits {
    held: Vec<(u64, u64)>,
    /// Until when what comes next is held.
    next_end: u64,
}

impl Permits {
    /// What somebody holds, until when and how many units, whether it has ended or not.
    pub(crate) const fn of(held: Vec<(u64, u64)>) -> Self {
        Self { held, next_end: 0 }
    }

    fn in_flight(&self, at: u64) -> u64 {
        self.held.iter().filter(|(until, _)| *until > at).map(|(_, units)| units).sum()
    }
}

fn most(algorithm: &Algorithm) -> u64 {
    let Algorithm::Concurrency { permits, .. } = algorithm else { unknown(algorithm) };
    *permits
}

impl Account for Permits {
    fn boxed(&self) -> Box<dyn Account> {
        Box::new(self.clone())
    }

    fn newest(&self) -> Option<u64> {
        None
    }

    fn restamp(&mut self, _algorithm: &Algorithm, _now: u64) -> Result<(), Refusal> {
        Ok(())
    }

    fn judge(
        &self,
        algorithm: &Algorithm,
        at: u64,
        units: u64,
        _patience: Patience,
    ) -> Result<Verdict, Refusal> {
        let most = most(algorithm);
        if units > most {
            return Ok(Verdict::NEVER);
        }
        let passes = |then| self.in_flight(then) + units <= most;
        if passes(at) {
            return Ok(Verdict::ADMITTED);
        }
        let ends = self.held.iter().map(|(until, _)| *until).filter(|until| passes(*until));
        Ok(match ends.min() {
            Some(end) => Verdict::refused(Retry::After(end - at)),
            None => Verdict::NEVER,
        })
    }

    fn admit(
        &mut self,
        _algorithm: &Algorithm,
        at: u64,
        units: u64,
        _acts_in_us: u64,
    ) -> Result<(), Refusal> {
        if self.in_flight(at) + units > MAX_EXACT {
            return Err(Refusal::TooLarge);
        }
        self.held.push((self.next_end, units));
        Ok(())
    }

    fn charge_denied(
        &mut self,
        _algorithm: &Algorithm,
        _at: u64,
        _units: u64,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    fn refund(&mut self, _algorithm: &Algorithm, _at: u64, _units: u64) -> Result<(), Refusal> {
        Ok(())
    }

    fn report(&self, algorithm: &Algorithm, at: u64) -> Result<Report, Refusal> {
        let limit = most(algorithm);
        let last = self.held.iter().map(|(until, _)| *until).filter(|until| *until > at).max();
        Ok(Report {
            limit: Some(limit),
            remaining: Some(limit.saturating_sub(self.in_flight(at))),
            reset: Some(last.map_or(0, |last| last - at)),
            ..Report::default()
        })
    }

    fn reset(&mut self, _algorithm: &Algorithm, _at: u64) {
        self.held.clear();
    }

    fn hold_until(&mut self, until: u64) {
        self.next_end = until;
    }
}
