//! The numbers of the service as a whole, in seconds and in steps.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;
use sluicegate_core::HistogramCounts;

use super::counts::Counts;
use super::steps::{MOST_STEPS, STEP_SECONDS};

/// The numbers of a service at one time, as far as they aren't counts of decisions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gauges {
    pub(crate) decisions: HistogramCounts,
    /// Calls to servers; `None` without a server.
    pub(crate) store_calls: Option<HistogramCounts>,
    /// `None` if the store hasn't answered yet.
    pub(crate) store_up: Option<bool>,
    /// `None` without a breaker.
    pub(crate) breaker_open: Option<bool>,
    pub(crate) keys: Option<u64>,
    pub(crate) bytes: Option<u64>,
    pub(crate) leased_units: u64,
    pub(crate) processes: u64,
    /// The following ones only grow.
    pub(crate) evicted_live: u64,
    pub(crate) log_left_out: u64,
    pub(crate) closed_connections: u64,
    pub(crate) overloaded: u64,
}

/// The median and the 99th percentile of durations, in µs.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Quantiles {
    pub(crate) p50: u64,
    pub(crate) p99: u64,
}

/// A step of 10 s.
#[derive(Clone, Debug, Default)]
pub(crate) struct Step {
    pub(crate) counts: Counts,
    pub(crate) decision_us: Option<Quantiles>,
    pub(crate) store_us: Option<Quantiles>,
    pub(crate) store_up: Option<bool>,
    /// Whether a breaker was open in one of its seconds.
    pub(crate) breaker_open: Option<bool>,
    pub(crate) keys: Option<u64>,
    pub(crate) bytes: Option<u64>,
    pub(crate) leased_units: u64,
    pub(crate) processes: u64,
    grown: [u64; 4],
}

/// The numbers of the service as a whole.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    /// Decisions per second, over the last second.
    pub(crate) rates: Counts,
    /// Errors per second.
    pub(crate) errors: u64,
    /// Number of the last step that has ended.
    pub(crate) step: u64,
    steps: VecDeque<Step>,
    counted: (Counts, u64),
    counted_at_step: Counts,
    /// The durations at each of the last ten seconds.
    durations: VecDeque<(HistogramCounts, Option<HistogramCounts>)>,
    seconds: u64,
    /// Whether a breaker was open since the last step.
    breaker_open: Option<bool>,
    latest: Gauges,
}

impl Totals {
    /// Takes over the numbers of another second. Returns whether a step has ended.
    pub(super) fn tick(
        &mut self,
        counts: Counts,
        errors: u64,
        millis: u64,
        gauges: Gauges,
    ) -> bool {
        self.rates = counts.minus(self.counted.0).per_second(millis);
        let failed = Counts { allowed: errors.saturating_sub(self.counted.1), ..Counts::default() };
        self.errors = failed.per_second(millis).allowed;
        self.counted = (counts, errors);
        self.durations.push_back((gauges.decisions.clone(), gauges.store_calls.clone()));
        while self.durations.len() > 1 + usize::try_from(STEP_SECONDS).unwrap_or(usize::MAX) {
            self.durations.pop_front();
        }
        self.breaker_open = self.breaker_open.max(gauges.breaker_open);
        self.latest = gauges;
        self.seconds += 1;
        let ends = self.seconds.is_multiple_of(STEP_SECONDS);
        if ends {
            self.end_step(counts);
        }
        ends
    }

    fn end_step(&mut self, counts: Counts) {
        let breaker_open = self.breaker_open.take();
        let latest = &self.latest;
        let step = Step {
            counts: counts.minus(self.counted_at_step),
            decision_us: self.decision_us(),
            store_us: self.store_us(),
            store_up: latest.store_up,
            breaker_open,
            keys: latest.keys,
            bytes: latest.bytes,
            leased_units: latest.leased_units,
            processes: latest.processes,
            grown: growing(latest),
        };
        self.counted_at_step = counts;
        if self.steps.len() >= MOST_STEPS {
            self.steps.pop_front();
        }
        self.steps.push_back(step);
        self.step += 1;
    }

    /// Returns the last `count` steps, the oldest first.
    pub(crate) fn steps(&self, count: usize) -> impl Iterator<Item = &Step> {
        self.steps.iter().skip(self.steps.len().saturating_sub(count))
    }

    /// Returns the number of steps that are kept.
    pub(crate) fn kept(&self) -> usize {
        self.steps.len()
    }

    /// Returns the durations of decisions in the last 10 s.
    pub(crate) fn decision_us(&self) -> Option<Quantiles> {
        let (first, last) = (self.durations.front()?, self.durations.back()?);
        Quantiles::of(&last.0.since(&first.0))
    }

    /// Returns the durations of calls to servers in the last 10 s.
    pub(crate) fn store_us(&self) -> Option<Quantiles> {
        let (first, last) = (self.durations.front()?, self.durations.back()?);
        let first = first.1.clone().unwrap_or_default();
        Quantiles::of(&last.1.as_ref()?.since(&first))
    }

    /// Returns by how much [`Gauges::evicted_live`], [`Gauges::log_left_out`], [`Gauges::closed_connections`] and
    /// [`Gauges::overloaded`] have grown in the last minute.
    pub(crate) fn grown(&self) -> [u64; 4] {
        const MINUTE: usize = 6;
        let before = self.steps.len().checked_sub(MINUTE).and_then(|index| self.steps.get(index));
        let before = before.map_or([0; 4], |step| step.grown);
        let mut grown = growing(&self.latest);
        for (now, before) in grown.iter_mut().zip(before) {
            *now = now.saturating_sub(before);
        }
        grown
    }
}

const fn growing(gauges: &Gauges) -> [u64; 4] {
    [gauges.evicted_live, gauges.log_left_out, gauges.closed_connections, gauges.overloaded]
}

impl Quantiles {
    fn of(durations: &HistogramCounts) -> Option<Self> {
        let micros = |it: Duration| u64::try_from(it.as_micros()).unwrap_or(u64::MAX);
        let (p50, p99) = (durations.quantile(500)?, durations.quantile(990)?);
        Some(Self { p50: micros(p50), p99: micros(p99) })
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_core::Histogram;

    use super::*;

    #[test]
    fn a_step_ends_after_ten_seconds_and_growth_is_of_the_last_minute() {
        let mut totals = Totals::default();
        let durations = Histogram::new();
        for second in 1..=100_u64 {
            if second <= 30 {
                durations.observe(Duration::from_millis(3));
            }
            let gauges = Gauges {
                decisions: durations.counts(),
                evicted_live: second.min(20),
                breaker_open: (second > 20).then_some(second == 35),
                ..Gauges::default()
            };
            let counts = Counts { allowed: 5 * second, ..Counts::default() };
            assert_eq!(totals.tick(counts, second, 1_000, gauges), second % 10 == 0);
            assert_eq!((totals.rates.allowed, totals.errors), (5, 1));
            if second == 15 {
                assert!(totals.decision_us().is_some_and(|it| it.p50 > 2_000));
                assert_eq!(totals.grown()[0], 15);
            }
        }
        assert_eq!((totals.step, totals.kept(), totals.grown()[0]), (10, 10, 0));
        assert!(totals.steps(10).all(|step| step.counts.allowed == 50));
        let breaker: Vec<Option<bool>> = totals.steps(10).map(|step| step.breaker_open).collect();
        assert_eq!(breaker[..5], [None, None, Some(false), Some(true), Some(false)]);
        let timed = totals.steps(10).filter(|step| step.decision_us.is_some()).count();
        assert_eq!((timed, totals.decision_us()), (3, None));
    }
}
