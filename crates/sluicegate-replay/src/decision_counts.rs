//! The contents of decision logs that a replay doesn't play.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use sluicegate_core::printable;

use crate::numbers::{counted, grouped};
use crate::scale::Proportion;

/// The wanted lines of decision logs, and counts of the others. The threads that read a log share it.
#[derive(Debug)]
pub(crate) struct DecisionCounts {
    /// The limit whose decisions are played; all if it is `None`.
    limit: Option<String>,
    is_scaled: bool,
    /// Names of the first limits.
    limits: Mutex<BTreeSet<String>>,
    unplayed: [AtomicU64; Unplayed::NUMBER],
    costs_by_policy: AtomicU64,
    left_out: AtomicU64,
    /// The smallest sample of a line, in millionths.
    sample: AtomicU32,
}

/// The reason that a decision isn't played.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Unplayed {
    /// Decision of another limit.
    OtherLimit,
    /// Operation that doesn't ask for admission.
    OtherOperation,
    /// Request that no policy counted: the key is on a list, or the request is a repeat.
    NotCounted,
    /// Request that another limit denied.
    DeniedByOthers,
}

/// The counts for a report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DecisionReport {
    /// Lines of other operations, such as settlements and resets.
    pub(crate) other_operations: u64,
    /// Requests of keys on a list, and repeats.
    pub(crate) not_counted: u64,
    /// Requests that another limit denied.
    pub(crate) denied_by_others: u64,
    /// Requests with a different cost for each policy.
    pub(crate) costs_by_policy: u64,
    /// Lines that the service left out of its log.
    pub(crate) left_out: u64,
    /// The share of allowed decisions in the log, if the counts are estimates from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) estimated_from: Option<String>,
}

impl Unplayed {
    const NUMBER: usize = 4;
}

impl Default for DecisionCounts {
    /// Returns counts for the decisions of all limits.
    fn default() -> Self {
        Self::new(None, false)
    }
}

impl DecisionCounts {
    /// The millionths of the whole.
    pub(crate) const WHOLE: u32 = Proportion::WHOLE;
    /// Maximum number of limits whose names are kept.
    const MOST_LIMITS: usize = 1_000;

    /// Returns counts for the decisions of a limit, or of all. `is_scaled` lets a decision of a sample stand for
    /// several.
    pub(crate) fn new(limit: Option<String>, is_scaled: bool) -> Self {
        Self {
            limit,
            is_scaled,
            limits: Mutex::default(),
            unplayed: [const { AtomicU64::new(0) }; Unplayed::NUMBER],
            costs_by_policy: AtomicU64::new(0),
            left_out: AtomicU64::new(0),
            sample: AtomicU32::new(Self::WHOLE),
        }
    }

    /// Notes the limit of a decision, and returns whether it is played.
    pub(crate) fn is_wanted(&self, limit: &str) -> bool {
        let mut limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        if limits.len() < Self::MOST_LIMITS && !limits.contains(limit) {
            limits.insert(limit.to_owned());
        }
        self.limit.as_deref().is_none_or(|wanted| wanted == limit)
    }

    pub(crate) fn count(&self, unplayed: Unplayed) {
        self.unplayed[unplayed as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_costs_by_policy(&self) {
        self.costs_by_policy.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn leave_out(&self, lines: u64) {
        self.left_out.fetch_add(lines, Ordering::Relaxed);
    }

    /// Notes the sample of a line, even of one that isn't played: the others are a sample too.
    pub(crate) fn note_sample(&self, sample: u32) {
        self.sample.fetch_min(sample, Ordering::Relaxed);
    }

    /// Returns the share that a decision of a sample stands for; 0 if it stands for itself.
    pub(crate) const fn scale(&self, sample: u32) -> u32 {
        if self.is_scaled { sample } else { 0 }
    }

    /// Returns why the decisions can't be played as a whole, if they can't.
    pub(crate) fn problem(&self) -> Option<String> {
        let limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        // A log may be of anyone.
        let shown = |name: &String| printable(name).to_string();
        let names = || limits.iter().take(20).map(shown).collect::<Vec<_>>().join(", ");
        match &self.limit {
            None if limits.len() > 1 => {
                return Some(format!(
                    "the decision log has several limits: choose one with --limit, of {}",
                    names()
                ));
            }
            Some(wanted) if !limits.is_empty() && !limits.contains(wanted) => {
                return Some(format!(
                    "the decision log has no decision of the limit `{}`: it has {}",
                    wanted.escape_debug(),
                    names()
                ));
            }
            _ => {}
        }
        self.sampled().filter(|_| !self.is_scaled).map(|sample| {
            format!(
                "the decision log has only a sample of the allowed decisions, {sample} of them: give --scale for \
                 estimates, or replay a log with `sample: 1`"
            )
        })
    }

    /// Returns the counts for a report; `None` if no log was a decision log.
    pub(crate) fn report(&self) -> Option<DecisionReport> {
        if self.limits.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            return None;
        }
        let unplayed = |why: Unplayed| self.unplayed[why as usize].load(Ordering::Relaxed);
        Some(DecisionReport {
            other_operations: unplayed(Unplayed::OtherOperation),
            not_counted: unplayed(Unplayed::NotCounted),
            denied_by_others: unplayed(Unplayed::DeniedByOthers),
            costs_by_policy: self.costs_by_policy.load(Ordering::Relaxed),
            left_out: self.left_out.load(Ordering::Relaxed),
            estimated_from: self.sampled(),
        })
    }

    /// Returns the smallest share, if it isn't the whole.
    fn sampled(&self) -> Option<String> {
        let sample = self.sample.load(Ordering::Relaxed);
        (sample < Self::WHOLE).then(|| format!("0.{sample:06}").trim_end_matches('0').to_owned())
    }
}

impl DecisionReport {
    /// Returns the counts in sentences, those that aren't zero.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        if let Some(sample) = &self.estimated_from {
            sentences.push(format!(
                "All numbers are estimates: the log has a share of {sample} of the allowed decisions."
            ));
        }
        for (count, noun, rest) in [
            (self.left_out, "line", "the service left out of its log"),
            (self.denied_by_others, "request", "not played, because another limit denied it"),
            (self.not_counted, "request", "not played, because no policy counted it"),
            (
                self.other_operations,
                "other operation",
                "not played, such as a settlement or a reset",
            ),
            (
                self.costs_by_policy,
                "request",
                "played at each policy's own cost, although the log has one per policy",
            ),
        ] {
            if count > 0 {
                let counted = if count == 1 {
                    counted(1, noun)
                } else {
                    format!("{} {noun}s", grouped(count))
                };
                sentences.push(format!("{counted}: {rest}."));
            }
        }
        sentences
    }
}
