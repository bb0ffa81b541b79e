//! Checks the journals of all processes against the promises about used units. Each counts at the time of its charge.

use std::collections::BTreeMap;

use super::deals::{Call, Conditions, Deal, Reply};
use super::rules::{HELD, Job, Kind};
use super::verdicts::Verdicts;
use crate::chaos::auditor::Promise;

/// In a second.
const MICROS: u64 = 1_000_000;

/// The jobs of one key of one limit.
#[derive(Debug)]
pub(crate) struct Usages<'a> {
    promises: &'static [Promise],
    jobs: Vec<Taken>,
    /// Unknown charges: when they were requested, when they were charged at the latest, and their units.
    unknown: Vec<(u64, u64, u64)>,
    denied: Vec<(&'a Deal, &'a Call<Reply>)>,
    charged_twice: Vec<Vec<&'a Deal>>,
}

/// A job that was taken, at this time of the store.
#[derive(Clone, Copy, Debug)]
struct Taken {
    at: u64,
    units: u64,
    used: u64,
}

impl<'a> Usages<'a> {
    pub(crate) fn of(deals: &'a [Deal], conditions: &Conditions, rule: usize, key: usize) -> Self {
        let Kind::Used(promises) = HELD[rule].kind else { unreachable!("it is in flight") };
        let mut by_job: BTreeMap<u64, Vec<&Deal>> = BTreeMap::new();
        for deal in deals.iter().filter(|deal| deal.rule == rule && deal.key == key) {
            by_job.entry(deal.job).or_default().push(deal);
        }
        let all = Self {
            promises,
            jobs: Vec::new(),
            unknown: Vec::new(),
            denied: Vec::new(),
            charged_twice: Vec::new(),
        };
        by_job.into_values().fold(all, |all, deals| all.with(deals, conditions))
    }

    /// Adds all deals about one job.
    fn with(mut self, deals: Vec<&'a Deal>, conditions: &Conditions) -> Self {
        let asks = || deals.iter().flat_map(|deal| deal.asks.iter().map(move |ask| (*deal, ask)));
        let mut times = Vec::new();
        let mut charges = 0;
        for (deal, ask) in asks() {
            match ask.answer {
                Some((_, Reply::Took { at, is_repeat })) => {
                    times.push(at);
                    charges += u32::from(!is_repeat);
                }
                Some((_, Reply::Denied(_))) => self.denied.push((deal, ask)),
                _ => {}
            }
        }
        let units = deals[0].units;
        times.sort_unstable();
        times.dedup();
        match times.as_slice() {
            [] => {
                let unknown = deals.iter().filter_map(|deal| deal.maybe_charged(conditions));
                let unknown = unknown.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
                self.unknown.extend(unknown.map(|(sent, latest)| (sent, latest, units)));
            }
            [at, others @ ..] => {
                let is_settled = deals.iter().any(|deal| deal.may_be_settled());
                let settled_for = Job(deals[0].job).used().filter(|_| is_settled);
                self.jobs.push(Taken { at: *at, units, used: settled_for.unwrap_or(units) });
                if !others.is_empty() || charges > 1 {
                    self.charged_twice.push(deals);
                }
            }
        }
        self
    }

    pub(crate) fn judge(&self, verdicts: &mut Verdicts) {
        verdicts.jobs += u64::try_from(self.jobs.len()).unwrap();
        for deals in &self.charged_twice {
            verdicts.finds("charged twice", deals[0].asked_first(), || format!("{deals:?}"));
        }
        for promise in self.promises {
            self.judge_excess(*promise, verdicts);
        }
        self.judge_denials(verdicts);
    }

    /// Fills an ideal bucket or window with the used units, and checks that it doesn't overflow.
    fn judge_excess(&self, promise: Promise, verdicts: &mut Verdicts) {
        let mut jobs = self.jobs.clone();
        jobs.sort_unstable_by_key(|job| job.at);
        let mut ideal = Ideal::new(promise);
        for job in jobs {
            let excess = ideal.takes(job.at, job.used);
            verdicts.used += job.used;
            if excess > 0 {
                verdicts.finds_units("too much used", job.at, excess, || format!("{promise:?}"));
            }
        }
    }

    /// Checks that each denied request may have had too few units, if all charges were as late as possible and nothing
    /// was given back.
    fn judge_denials(&self, verdicts: &mut Verdicts) {
        let known = self.jobs.iter().map(|job| (job.at, job.units));
        let unknown = self.unknown.iter().map(|(_, latest, units)| (*latest, *units));
        let mut charges: Vec<_> = known.chain(unknown).collect();
        charges.sort_unstable();
        let mut denied = self.denied.clone();
        denied.sort_unstable_by_key(|(_, ask)| ask.sent);
        let mut ideals: Vec<_> = self.promises.iter().map(|promise| Ideal::new(*promise)).collect();
        let mut next = 0;
        for (deal, ask) in denied {
            let Some((answered, _)) = ask.answer else { continue };
            while let Some((at, units)) = charges.get(next).filter(|(at, _)| *at <= ask.sent) {
                for ideal in &mut ideals {
                    let _ = ideal.takes(*at, *units);
                }
                next += 1;
            }
            let later = charges[next..].iter().take_while(|(at, _)| *at <= answered);
            let later: u64 = later.map(|(_, units)| units).sum();
            let pending = self
                .unknown
                .iter()
                .filter(|(sent, latest, _)| *sent <= answered && *latest > answered);
            let pending: u64 = pending.map(|(.., units)| units).sum();
            let may_refuse =
                |ideal: &Ideal| ideal.is_too_much(ask.sent, answered, later + pending + deal.units);
            verdicts.denied += 1;
            if !ideals.iter().any(may_refuse) {
                verdicts.finds("unfounded denial", answered, || format!("{ask:?} of {deal:?}"));
            }
        }
    }
}

/// A bucket or window that is filled without a limit.
#[derive(Debug)]
struct Ideal {
    promise: Promise,
    /// In parts of a unit, a millionth each; and since when.
    level: u64,
    newest: u64,
}

impl Ideal {
    const fn new(promise: Promise) -> Self {
        Self { promise, level: 0, newest: 0 }
    }

    fn level_at(&self, at: u64) -> u64 {
        match self.promise {
            Promise::Bucket { per_second, .. } => {
                self.level.saturating_sub(at.saturating_sub(self.newest) * per_second)
            }
            Promise::Window { length_ms, .. } => {
                let window = |at: u64| at / (length_ms * 1_000);
                if window(at) == window(self.newest) { self.level } else { 0 }
            }
        }
    }

    /// Adds units, and returns by how many it then exceeds the limit.
    fn takes(&mut self, at: u64, units: u64) -> u64 {
        self.level = self.level_at(at) + units * MICROS;
        self.newest = at;
        self.level.saturating_sub(self.promise.at_once() * MICROS).div_ceil(MICROS)
    }

    /// Returns whether `units` more may have been too many at some instant between these.
    fn is_too_much(&self, from: u64, to: u64, units: u64) -> bool {
        let is_another_window = match self.promise {
            Promise::Bucket { .. } => false,
            Promise::Window { length_ms, .. } => {
                from / (length_ms * 1_000) != to / (length_ms * 1_000)
            }
        };
        is_another_window || self.level_at(from) + units * MICROS > self.promise.at_once() * MICROS
    }
}
