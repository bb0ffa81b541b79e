//! Tracks whether the service is ready and whether its store answers.
//!
//! [`Readiness`] pings the store about once a second. `/readyz` and `/metrics` read the latest
//! outcome, so no probe waits for a store that hangs.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use serde::Serialize;
use sluicegate::Registry;
use sluicegate::admin::{Answered, Observer};
use sluicegate::decision::Source;
use sluicegate::error::{StoreError, StoreErrorKind};
use sluicegate::store::Store as _;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The state of the store, according to pings.
#[derive(Debug)]
pub(crate) struct Readiness {
    needs_store: bool,
    /// Whether the store has answered once.
    has_answered: AtomicBool,
    answers: Notify,
    seen: Mutex<Seen>,
}

/// The outcome of the pings so far.
#[derive(Debug, Default)]
struct Seen {
    /// Whether the store has failed for long enough to be reported as down.
    is_down: bool,
    failing_since: Option<Instant>,
    /// Latest failure, until the store answers.
    error: Option<String>,
}

/// The state of the store, as `/readyz` reports it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StoreState {
    store: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    store_error: Option<String>,
}

impl Readiness {
    /// Time for which pings must fail until the store counts as down. A single late ping isn't an
    /// outage.
    const PATIENCE: Duration = Duration::from_secs(1);
    /// Pause between pings of a failing store, until it counts as down.
    const RETRY: Duration = Duration::from_millis(100);
    /// Pause between pings otherwise.
    const PAUSE: Duration = Duration::from_secs(1);

    /// Creates the state of a service that hasn't called its store yet. `needs_store` says whether
    /// the store must have answered before the service is ready.
    pub(crate) fn new(needs_store: bool) -> Arc<Self> {
        let (has_answered, answers, seen) =
            (AtomicBool::new(false), Notify::new(), Mutex::default());
        Arc::new(Self { needs_store, has_answered, answers, seen })
    }

    /// Waits until the service is ready.
    #[cfg(feature = "envoy")]
    pub(crate) async fn ready(&self) {
        let answers = self.answers.notified();
        if self.needs_store && !self.has_answered.load(Ordering::Relaxed) {
            answers.await;
        }
    }

    /// Returns the store's state.
    ///
    /// # Errors
    /// Returns a message if the service isn't ready, because the store hasn't answered since the start.
    pub(crate) fn state(&self) -> Result<StoreState, String> {
        let (seen, has_answered) = (self.seen(), self.has_answered.load(Ordering::Relaxed));
        if self.needs_store && !has_answered {
            let why = seen.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
            return Err(format!("the store has not answered since the service started{why}"));
        }
        let (store, store_error) = match (seen.is_down, has_answered) {
            (true, _) => ("down", seen.error.clone()),
            (false, true) => ("up", None),
            (false, false) => ("unknown", None),
        };
        Ok(StoreState { store, store_error })
    }

    /// Returns whether the store answers; `None` if it hasn't answered yet.
    pub(super) fn is_up(&self) -> Option<bool> {
        let is_down = self.seen().is_down;
        (is_down || self.has_answered.load(Ordering::Relaxed)).then_some(!is_down)
    }

    /// Returns why the store is down, and for how long; `None` unless it is.
    pub(super) fn failure(&self) -> Option<(String, Option<Duration>)> {
        let seen = self.seen();
        let error = seen.error.clone().filter(|_| seen.is_down)?;
        Some((error, seen.failing_since.map(|since| since.elapsed())))
    }

    /// Pings the store about once a second.
    pub(crate) async fn watch(self: Arc<Self>, registry: Registry) {
        loop {
            let is_waiting = {
                let seen = self.seen();
                seen.failing_since.is_some() && !seen.is_down
            };
            tokio::time::sleep(if is_waiting { Self::RETRY } else { Self::PAUSE }).await;
            self.ping(&registry).await;
        }
    }

    /// Pings the store once. The first ping connects to it, so that requests don't have to.
    pub(crate) async fn ping(&self, registry: &Registry) {
        let store = registry.store();
        let outcome = match tokio::time::timeout(Self::PATIENCE, store.ping()).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let message = "the store did not answer a ping within 1 s";
                Err(StoreError::new(StoreErrorKind::Timeout, message))
            }
        };
        if outcome.is_ok() {
            self.note_answer();
        }
        let is_down = self.seen().note(outcome.as_ref().err(), Instant::now());
        // Late pings alone don't count.
        if outcome.is_ok() || is_down {
            registry.note_ping(outcome.as_ref().copied());
        }
    }

    fn note_answer(&self) {
        if !self.has_answered.load(Ordering::Relaxed) {
            self.has_answered.store(true, Ordering::Relaxed);
            self.answers.notify_waiters();
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a decision of the store as an answer.
impl Observer for Readiness {
    fn answered(&self, answered: &Answered<'_>) {
        if answered.outcome.is_ok_and(|decision| decision.source() == Source::Store) {
            self.note_answer();
        }
    }
}

impl Seen {
    /// Records the outcome of a ping. Returns whether the store counts as down.
    fn note(&mut self, error: Option<&StoreError>, now: Instant) -> bool {
        let Some(error) = error else {
            *self = Self::default();
            return false;
        };
        let since = *self.failing_since.get_or_insert(now);
        self.error = Some(error.to_string());
        self.is_down |= now.duration_since(since) >= Readiness::PATIENCE;
        self.is_down
    }
}

/// Reports the store's state at each scrape.
#[derive(Debug)]
pub(super) struct ReadinessCollector(pub(super) Arc<Readiness>);

impl Collector for ReadinessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let is_up = {
            let seen = self.0.seen();
            self.0.has_answered.load(Ordering::Relaxed) && !seen.is_down
        };
        let help = "1 while the store answers pings";
        let encoder = encoder.encode_descriptor("store_up", help, None, MetricType::Gauge)?;
        ConstGauge::new(u64::from(is_up)).encode(encoder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_down_once_pings_have_failed_for_a_second() {
        let mut seen = Seen::default();
        let start = Instant::now();
        let mut note = |is_failure: bool, millis: u64| {
            let error = StoreError::new(StoreErrorKind::Timeout, "no");
            let error = Some(&error).filter(|_| is_failure);
            seen.note(error, start + Duration::from_millis(millis))
        };
        assert!(!note(true, 0));
        assert!(!note(false, 500));
        assert!(!note(true, 1_000));
        assert!(!note(false, 1_100), "it was only late");
        assert!(!note(true, 2_000));
        assert!(!note(true, 2_999));
        assert!(note(true, 3_000));
        assert!(note(true, 9_000));
        assert!(!note(false, 9_100));
    }
}
