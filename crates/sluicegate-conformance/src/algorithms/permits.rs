//! Permits in use: the held units and their ends, added up for every request.

use sluicegate_core::{Algorithm, MAX_EXACT};

use super::account::{Account, Patience, Report, Retry, Verdict, unknown};
use super::refusal::Refusal;

/// The permits in use, and the tickets that wait for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Permits {
    held: Vec<Units>,
    /// The end of the next admission's hold.
    next_end: u64,
    /// Tickets ahead of the caller's.
    ahead: Vec<Units>,
    behind: Vec<Units>,
    /// The caller's own ticket.
    own: Vec<Units>,
}

/// An end in microseconds, and a number of units.
type Units = (u64, u64);

impl Permits {
    /// Returns the permits of these holds, including expired ones.
    pub(crate) fn of(held: Vec<Units>) -> Self {
        Self { held, ..Self::default() }
    }
}

fn at_least(units: &[Units], at: u64) -> u64 {
    units.iter().filter(|(until, _)| *until > at).map(|(_, units)| units).sum()
}

fn last_end<'u>(units: impl Iterator<Item = &'u Units>, at: u64) -> Option<u64> {
    units.map(|(until, _)| *until).filter(|until| *until > at).max()
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
        let passes =
            |then| at_least(&self.held, then) + at_least(&self.ahead, then) + units <= most;
        if passes(at) {
            return Ok(Verdict::ADMITTED);
        }
        let end = if self.may_pass_sooner(at) {
            last_end(self.held.iter().chain(&self.ahead).chain(&self.behind), at)
        } else {
            self.held.iter().map(|(until, _)| *until).filter(|until| passes(*until)).min()
        };
        Ok(match end {
            Some(end) => Verdict::refused(Retry::After(end - at)),
            None => Verdict::NEVER,
        })
    }

    fn may_pass_sooner(&self, at: u64) -> bool {
        at_least(&self.ahead, at) > 0
    }

    fn admit(
        &mut self,
        _algorithm: &Algorithm,
        at: u64,
        units: u64,
        _acts_in_us: u64,
    ) -> Result<(), Refusal> {
        if at_least(&self.held, at) + units > MAX_EXACT {
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
        let all = || self.held.iter().chain(&self.ahead).chain(&self.behind).chain(&self.own);
        let spoken_for: Vec<Units> = all().copied().collect();
        Ok(Report {
            limit: Some(limit),
            remaining: Some(limit.saturating_sub(at_least(&spoken_for, at))),
            reset: Some(last_end(all(), at).map_or(0, |last| last - at)),
            ..Report::default()
        })
    }

    fn reset(&mut self, _algorithm: &Algorithm, _at: u64) {
        *self = Self::default();
    }

    fn hold_until(&mut self, until: u64) {
        self.next_end = until;
    }

    fn set_line(&mut self, ahead: Vec<Units>, behind: Vec<Units>, own: Vec<Units>) {
        (self.ahead, self.behind, self.own) = (ahead, behind, own);
    }
}
