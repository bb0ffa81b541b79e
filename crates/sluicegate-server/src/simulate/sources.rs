//! The recorded decisions of a service, and the right to simulate.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use sluicegate::testing::{Clock as _, SystemClock};
use sluicegate_core::Timestamp;
use sluicegate_replay::PastDecision;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::gathered::Gathered;
use super::log::read_log;
use super::origin::{From, micros};
use super::{Bounds, Problem, Terms};
use crate::decisions::{RecordedCost, RecordedDecision, Recorder};

/// The recorded decisions of a service.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    pub(crate) recorder: Option<Arc<Recorder>>,
    /// The decision log, if it is a file.
    pub(crate) log: Option<PathBuf>,
    /// Whether the log has hashes in place of keys, so that lists and overrides match none.
    pub(crate) has_hashes: bool,
}

/// Simulates, one simulation at a time.
#[derive(Debug)]
pub(crate) struct Simulator {
    sources: OnceLock<Sources>,
    turn: Semaphore,
}

impl Simulator {
    /// Sets the sources, once.
    pub(crate) fn set(&self, sources: Sources) {
        // The service sets them at its start.
        let _ = self.sources.set(sources);
    }

    /// Returns the sources.
    pub(crate) fn sources(&self) -> Sources {
        self.sources.get().cloned().unwrap_or_default()
    }

    /// Returns the turn to simulate; `None` if another simulation runs.
    pub(crate) fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.turn.try_acquire().ok()
    }
}

impl Default for Simulator {
    fn default() -> Self {
        Self { sources: OnceLock::new(), turn: Semaphore::new(1) }
    }
}

impl Sources {
    /// Gathers the decisions of these limits, by default from the source that covers more. Blocks its thread.
    ///
    /// # Errors
    /// Returns an error if there is no source, or if the log can't be read.
    pub(crate) fn gather(
        &self,
        wanted: &BTreeSet<String>,
        terms: Terms,
        bounds: Bounds,
    ) -> Result<Gathered, Problem> {
        let now = SystemClock::new().now().as_micros();
        let of_recorder =
            || self.recorder.as_ref().map(|it| recorded(it, wanted, terms, now, bounds));
        let of_log = || {
            let path = self.log.as_ref()?;
            Some(read_log(path, wanted.clone(), terms, Some(now), bounds))
        };
        match terms.from {
            Some(From::Recorder) => of_recorder().ok_or(Problem::Unrecorded(
                "the service has no recorder: set `recorder.size`, or simulate from the log",
            )),
            Some(From::Log) => of_log().unwrap_or(Err(Problem::Unrecorded(
                "the service has no decision log in a file: set `decision_log.file`, or simulate from the recorder",
            ))),
            None => {
                let Some(recorded) = of_recorder() else {
                    return of_log().unwrap_or(Err(Problem::Unrecorded(
                        "the service records no decisions: set `recorder.size` or `decision_log.file`",
                    )));
                };
                // A log is worse if it has less of each decision, and it has none from before the wanted time.
                let is_whole = recorded.first <= now.saturating_sub(micros(terms.since));
                let may_be_better = !is_whole && !self.has_hashes;
                let logged = may_be_better.then(of_log).flatten().and_then(Result::ok);
                let better = logged.filter(|logged| {
                    logged.first < recorded.first && (logged.sample.is_none() || terms.scale)
                });
                Ok(better.unwrap_or(recorded))
            }
        }
    }
}

fn recorded(
    recorder: &Recorder,
    wanted: &BTreeSet<String>,
    terms: Terms,
    now: u64,
    bounds: Bounds,
) -> Gathered {
    const WHOLE: u32 = 1_000_000;
    let copy = recorder.copy();
    let known = copy.complete_after.unwrap_or(0).max(recorder.started());
    let first = known.max(now.saturating_sub(micros(terms.since)));
    let mut gathered = Gathered::new(From::Recorder, wanted.clone(), false, (first, now), bounds);
    gathered.left_out = copy.left_out;
    for decision in copy.since(first) {
        let RecordedDecision { time, limit, key, cost, flags } = decision;
        let cost = match cost {
            RecordedCost::Same(cost) => Some(cost),
            RecordedCost::Own | RecordedCost::Each => None,
        };
        let past = PastDecision {
            time: Timestamp::from_micros_clamped(time),
            key,
            cost,
            is_take: flags.is_take,
            was_denied: flags.was_denied,
            sample: WHOLE,
        };
        gathered.add(limit.as_str(), &past);
    }
    gathered
}
