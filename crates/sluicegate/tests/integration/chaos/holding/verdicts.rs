//! The findings of the auditors.

use std::collections::BTreeMap;
use std::fmt;

use super::deals::{Conditions, Deal};
use super::flight::Flight;
use super::rules::{HELD, KEYS, Kind};
use super::used::Usages;

/// The findings in the journals of a scenario.
#[derive(Debug, Default)]
pub(crate) struct Verdicts {
    /// The findings of each kind, with their time and units.
    found: BTreeMap<&'static str, Vec<Finding>>,
    pub(crate) admitted: u64,
    pub(crate) denied: u64,
    pub(crate) jobs: u64,
    pub(crate) used: u64,
    /// The number of admissions whose order was checked.
    pub(crate) turns: u64,
    /// Killed holders, and the times in µs from the end of their holds to the next admissions.
    pub(crate) killed_holding: u64,
    pub(crate) taken_again: Vec<u64>,
    /// The longest time that a unit was free during a wait, without outages, in µs.
    pub(crate) longest_free: u64,
}

#[derive(Debug)]
struct Finding {
    time: u64,
    units: u64,
    text: String,
}

impl Verdicts {
    /// Returns whether enough happened for a verdict.
    pub(crate) const fn are_telling(&self) -> bool {
        self.admitted > 10 && self.jobs > 10 && self.turns > 0 && self.denied > 10
    }

    /// Checks all journals.
    pub(crate) fn on(deals: &[Deal], conditions: &Conditions) -> Self {
        let mut verdicts = Self::default();
        for (rule, held) in HELD.iter().enumerate() {
            for key in 0..KEYS {
                match held.kind {
                    Kind::InFlight { .. } => {
                        Flight::of(deals, conditions, rule, key).judge(&mut verdicts);
                    }
                    Kind::Used(_) => Usages::of(deals, conditions, rule, key).judge(&mut verdicts),
                }
            }
        }
        verdicts
    }

    pub(crate) fn finds(&mut self, kind: &'static str, time: u64, text: impl FnOnce() -> String) {
        self.finds_units(kind, time, 1, text);
    }

    pub(crate) fn finds_units(
        &mut self,
        kind: &'static str,
        time: u64,
        units: u64,
        text: impl FnOnce() -> String,
    ) {
        let found = self.found.entry(kind).or_default();
        // The first three of many findings are enough.
        let text = if found.len() < 3 { text() } else { String::new() };
        found.push(Finding { time, units, text });
    }

    /// Returns the kinds of the findings.
    pub(crate) fn kinds(&self) -> Vec<&'static str> {
        self.found.keys().copied().collect()
    }

    /// Removes findings that a server's lost state explains, between these times, and returns their maximum units.
    pub(crate) fn forgive(&mut self, kind: &str, spans: &[(u64, u64)]) -> u64 {
        let Some(found) = self.found.get_mut(kind) else { return 0 };
        let is_forgiven =
            |it: &Finding| spans.iter().any(|(from, to)| (*from..=*to).contains(&it.time));
        let most = found.iter().filter(|it| is_forgiven(it)).map(|it| it.units).max();
        found.retain(|it| !is_forgiven(it));
        self.found.retain(|_, found| !found.is_empty());
        most.unwrap_or(0)
    }
}

impl fmt::Display for Verdicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut again = self.taken_again.clone();
        again.sort_unstable();
        let at = |part: usize| again.get(again.len() * part / 100).map_or(0, |it| it / 1_000);
        let last = again.last().map_or(0, |it| it / 1_000);
        write!(
            f,
            "{} permits and {} jobs of {} used units admitted, {} turns and {} denials judged; {} holders \
             killed, others admitted {} ms (median), {} ms (p99), {last} ms (most) after what they held ended; \
             longest free while somebody waited {} ms; found: ",
            self.admitted,
            self.jobs,
            self.used,
            self.turns,
            self.denied,
            self.killed_holding,
            at(50),
            at(99),
            self.longest_free / 1_000,
        )?;
        if self.found.is_empty() {
            return write!(f, "nothing");
        }
        for (kind, found) in &self.found {
            write!(f, "{kind} {} times", found.len())?;
            for it in found.iter().take(if f.alternate() { 3 } else { 0 }) {
                write!(f, "\n  at {}, {} units: {}", it.time, it.units, it.text)?;
            }
            write!(f, "; ")?;
        }
        Ok(())
    }
}
