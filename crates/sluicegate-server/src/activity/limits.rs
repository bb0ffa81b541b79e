//! The decisions of each limit, and those of the service as a whole.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use sluicegate::admin::{Answered, Configured, Observer};
use sluicegate::policy::LimitName;
use tokio::time::Instant;

use super::counts::{Counters, Counts};
use super::problems::Span;
use super::steps::{STEP_SECONDS, Steps};
use super::totals::{Gauges, Totals};
use crate::decisions::shares;

/// Counts the decisions of the configured limits. Limits without traffic in the last 15 min take nothing.
#[derive(Debug)]
pub(crate) struct Activity {
    all: Counters,
    errors: AtomicU64,
    limits: RwLock<Limits>,
    totals: Mutex<(Totals, Option<Instant>)>,
}

#[derive(Debug, Default)]
struct Limits {
    /// The limits that may be counted by name: clients choose the names of others.
    known: HashSet<LimitName>,
    busy: HashMap<LimitName, LimitActivity>,
}

/// The decisions of a limit that has traffic.
#[derive(Debug, Default)]
pub(crate) struct LimitActivity {
    counters: Counters,
    sampled: Mutex<Sampled>,
}

#[derive(Debug, Default)]
struct Sampled {
    counted: Counts,
    counted_at_step: Counts,
    rates: Counts,
    steps: Steps,
    /// Few limits are changed while they have traffic.
    change: Option<Box<Change>>,
}

/// The counts of a limit at the time when its configuration changed.
#[derive(Debug)]
struct Change {
    at: Instant,
    before: Span,
    counted: Counts,
}

/// The decisions of a limit before its configuration changed, and since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChangedLimit {
    pub(crate) age: Duration,
    /// Up to 10 min before the change.
    pub(crate) before: Span,
    pub(crate) since: Span,
}

/// The numbers of a limit at one time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LimitView {
    /// Decisions per second, over the last second.
    pub(crate) rates: Counts,
    /// Decisions of the last 15 min.
    pub(crate) sums: Counts,
}

impl Activity {
    /// Maximum number of limits that are counted by name. Each takes at most 1.5 KB.
    const MOST_LIMITS: usize = 10_000;

    pub(crate) fn new() -> Self {
        Self {
            all: Counters::default(),
            errors: AtomicU64::new(0),
            limits: RwLock::default(),
            totals: Mutex::default(),
        }
    }

    /// Lets a limit be counted by name, although no configuration has it.
    #[cfg(feature = "resp")]
    pub(crate) fn know(&self, limit: &LimitName) {
        let mut limits = self.limits.write().unwrap_or_else(PoisonError::into_inner);
        limits.known.insert(limit.clone());
    }

    /// Takes over the numbers of another second. Returns whether a step has ended.
    pub(crate) fn tick(&self, gauges: Gauges) -> bool {
        let now = Instant::now();
        let (ends, millis) = {
            let mut guard = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
            let (totals, latest) = &mut *guard;
            let passed = latest.replace(now).map_or(Duration::from_secs(1), |latest| now - latest);
            let millis = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
            let errors = self.errors.load(Ordering::Relaxed);
            (totals.tick(self.all.get(), errors, millis, gauges), millis)
        };
        let limits = self.limits.read().unwrap_or_else(PoisonError::into_inner);
        let mut idle = 0_usize;
        for limit in limits.busy.values() {
            limit.tick(millis, ends);
            idle += usize::from(ends && limit.is_idle());
        }
        drop(limits);
        if idle > 0 {
            let mut limits = self.limits.write().unwrap_or_else(PoisonError::into_inner);
            limits.busy.retain(|_, limit| !limit.is_idle());
        }
        ends
    }

    /// Returns the numbers of the service as a whole.
    pub(crate) fn totals<T>(&self, read: impl FnOnce(&Totals) -> T) -> T {
        read(&self.totals.lock().unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Calls `read` with the limits that have traffic.
    pub(crate) fn limits<T>(
        &self,
        read: impl FnOnce(&HashMap<LimitName, LimitActivity>) -> T,
    ) -> T {
        read(&self.limits.read().unwrap_or_else(PoisonError::into_inner).busy)
    }

    fn count(&self, limit: &LimitName, counts: Counts) {
        {
            let limits = self.limits.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(limit) = limits.busy.get(limit) {
                return limit.counters.add(counts);
            }
            if limits.busy.len() >= Self::MOST_LIMITS || !limits.known.contains(limit) {
                return;
            }
        }
        self.begin(limit, counts);
    }

    /// Counts the first decisions of a limit without traffic.
    #[cold]
    fn begin(&self, limit: &LimitName, counts: Counts) {
        let mut limits = self.limits.write().unwrap_or_else(PoisonError::into_inner);
        limits.busy.entry(limit.clone()).or_default().counters.add(counts);
    }
}

impl LimitActivity {
    fn tick(&self, millis: u64, ends_step: bool) {
        let counts = self.counters.get();
        let mut sampled = self.sampled();
        sampled.rates = counts.minus(sampled.counted).per_second(millis);
        sampled.counted = counts;
        if ends_step {
            let of_step = counts.minus(sampled.counted_at_step);
            sampled.counted_at_step = counts;
            sampled.steps.push(of_step);
        }
    }

    fn is_idle(&self) -> bool {
        let sampled = self.sampled();
        sampled.steps.is_empty() && self.counters.get() == sampled.counted_at_step
    }

    /// Returns the numbers of the limit.
    pub(crate) fn view(&self) -> LimitView {
        let sampled = self.sampled();
        let current = sampled.counted.minus(sampled.counted_at_step);
        LimitView { rates: sampled.rates, sums: sampled.steps.sum(0, usize::MAX).plus(current) }
    }

    /// Returns the decisions per second, over the last second.
    pub(crate) fn rates(&self) -> Counts {
        self.sampled().rates
    }

    /// Reads the steps that have ended.
    pub(crate) fn steps<T>(&self, read: impl FnOnce(&Steps) -> T) -> T {
        read(&self.sampled().steps)
    }

    /// Notes that the configuration of the limit changes.
    fn note_change(&self) {
        /// Number of steps of 10 min.
        const BEFORE: usize = 60;
        let counted = self.counters.get();
        let mut sampled = self.sampled();
        let current = counted.minus(sampled.counted_at_step);
        let steps = sampled.steps.count().min(BEFORE) as u64;
        let before = Span {
            counts: sampled.steps.sum(0, BEFORE).plus(current),
            // With the current step, which hasn't ended.
            seconds: (steps + 1) * STEP_SECONDS,
        };
        sampled.change = Some(Box::new(Change { at: Instant::now(), before, counted }));
    }

    /// Returns the decisions before and since the last change of the configuration, if there was one.
    pub(crate) fn changed(&self) -> Option<ChangedLimit> {
        let sampled = self.sampled();
        let Change { at, before, counted } = sampled.change.as_deref()?;
        let age = at.elapsed();
        let since = Span { counts: self.counters.get().minus(*counted), seconds: age.as_secs() };
        Some(ChangedLimit { age, before: *before, since })
    }

    fn sampled(&self) -> MutexGuard<'_, Sampled> {
        self.sampled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Activity {
    fn answered(&self, answered: &Answered<'_>) {
        if !answered.is_admission() {
            return;
        }
        if answered.outcome.is_err() {
            self.errors.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut all = Counts::default();
        shares(answered, |limit, is_allowed, is_refused, is_shadow_denied| {
            let counts = Counts {
                allowed: u64::from(is_allowed),
                denied: u64::from(is_refused),
                shadow_denied: u64::from(is_allowed && is_shadow_denied),
            };
            all.allowed = u64::from(is_allowed);
            all.denied = u64::from(!is_allowed);
            all.shadow_denied = all.shadow_denied.max(counts.shadow_denied);
            if !counts.is_zero() {
                self.count(limit, counts);
            }
        });
        self.all.add(all);
    }

    fn reported(&self, limit: &sluicegate::Limit, allowed: u64, denied: u64) {
        let counts = Counts { allowed, denied, shadow_denied: 0 };
        if counts.is_zero() {
            return;
        }
        limit.parts().iter().for_each(|limit| self.count(limit, counts));
        self.all.add(counts);
    }

    fn configured(&self, configured: &Configured<'_>) {
        let mut limits = self.limits.write().unwrap_or_else(PoisonError::into_inner);
        for config in configured.before {
            limits.known.remove(config.limit.name());
        }
        limits.known.extend(configured.limits.iter().map(|config| config.limit.name().clone()));
        let Limits { known, busy } = &mut *limits;
        busy.retain(|name, _| known.contains(name));
        if busy.is_empty() {
            return;
        }
        let before: HashMap<&str, _> =
            configured.before.iter().map(|config| (config.limit.name().as_str(), config)).collect();
        for config in configured.limits {
            let name = config.limit.name().as_str();
            if before.get(name).is_some_and(|before| !Arc::ptr_eq(before, config))
                && let Some(limit) = busy.get(name)
            {
                limit.note_change();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sluicegate::{Config, MemoryStore, Registry};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn limits_are_counted_while_they_have_traffic() {
        let activity = Arc::new(Activity::new());
        let limit = |name| sluicegate::Limit::new(name, ["fixed_window 2/d", "gcra 1/d shadow"]);
        let registry = Registry::builder(MemoryStore::new())
            .observer(activity.clone())
            .limit(limit("l").unwrap())
            .limit(limit("idle").unwrap())
            .build();
        for _ in 0..5 {
            let _ = registry.gate("l").check("a").now().unwrap();
        }
        let inline = registry.gate_with_numbers(limit("clients-choose").unwrap());
        let _ = inline.check("a").now().unwrap();
        let view = || activity.limits(|limits| limits.get("l").map(LimitActivity::view));
        for second in 1..=11 {
            tokio::time::advance(Duration::from_secs(1)).await;
            activity.tick(Gauges::default());
            let view = view().unwrap();
            let sums = Counts { allowed: 2, denied: 3, shadow_denied: 1 };
            assert_eq!(view.sums, sums, "{second}");
            assert_eq!(view.rates.denied, if second == 1 { 3 } else { 0 });
        }
        assert_eq!(activity.limits(HashMap::len), 1, "others take nothing");
        assert_eq!(activity.totals(|it| it.steps(1).next().unwrap().counts.allowed), 3);
        for _ in 0..1_000 {
            tokio::time::advance(Duration::from_secs(1)).await;
            activity.tick(Gauges::default());
        }
        assert!(view().is_none(), "15 min have passed");
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_of_a_limit_divides_its_counts() {
        let activity = Arc::new(Activity::new());
        let registry = Registry::builder(MemoryStore::new()).observer(activity.clone()).build();
        let apply = |text: &str| {
            let text = format!("limits: {{a: {text}, other: {{policies: [fixed_window 9/d]}}}}");
            registry.replace(&Config::parse(&text, "limits.yaml").unwrap()).unwrap();
        };
        let check = |limit: &str, times: usize| {
            (0..times).for_each(|_| drop(registry.gate(limit).check("k").now().unwrap()));
        };
        let changed = |limit: &str| {
            activity.limits(|limits| limits.get(limit).and_then(LimitActivity::changed))
        };
        apply("{policies: [fixed_window 9/d]}");
        check("a", 5);
        check("other", 1);
        assert!(changed("a").is_none());
        for _ in 0..21 {
            tokio::time::advance(Duration::from_secs(1)).await;
            activity.tick(Gauges::default());
        }
        check("a", 2);
        apply("{policies: [fixed_window 2/d]}");
        check("a", 3);
        tokio::time::advance(Duration::from_secs(7)).await;
        let ChangedLimit { age, before, since } = changed("a").unwrap();
        assert_eq!((age.as_secs(), since.seconds), (7, 7));
        assert_eq!(before.counts, Counts { allowed: 7, ..Counts::default() });
        assert_eq!(since.counts, Counts { denied: 3, ..Counts::default() });
        assert!((20..=30).contains(&before.seconds), "{before:?}");
        assert!(changed("other").is_none(), "its configuration is the same");
    }

    #[test]
    fn ten_thousand_busy_limits_take_less_than_16_megabytes() {
        let activity = Activity::new();
        let names: Vec<LimitName> =
            (0..10_001).map(|it| format!("limit-{it}").parse().unwrap()).collect();
        activity.limits.write().unwrap().known.extend(names.iter().cloned());
        let counts = Counts { allowed: 1, denied: 1, shadow_denied: 0 };
        let measured = allocation_counter::measure(|| {
            names.iter().for_each(|name| activity.count(name, counts));
            (0..10).for_each(|_| {
                let _ = activity.tick(Gauges::default());
            });
        });
        assert_eq!(activity.limits(HashMap::len), Activity::MOST_LIMITS);
        assert!((1 << 20..16 << 20).contains(&measured.bytes_current), "{measured:?}");
    }
}
