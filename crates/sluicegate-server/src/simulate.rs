//! Simulations: recorded decisions, made again by other limits. They change nothing, and charge nothing.

mod answer;
mod gathered;
mod log;
mod origin;
mod rules;
mod sources;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sluicegate::config::LimitConfig;
use sluicegate::policy::Algorithm;
use sluicegate::{Config, Limit, MemoryStore, Policy, Registry};
use sluicegate_core::Timestamp;
use sluicegate_replay::Plan;
use tokio::runtime::Handle;
use tokio::time::Instant;

use gathered::Gathered;
use rules::Rules;

pub(crate) use answer::{KeyAnswer, LimitAnswer, Simulation};
pub(crate) use log::read_log;
pub(crate) use origin::From;
pub(crate) use sources::{Simulator, Sources};

/// The bounds of a simulation. Decisions beyond them are left out, and counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The moment at which it stops.
    end: Instant,
    /// Maximum number of decisions.
    decisions: u64,
    /// Maximum number of keys of all limits.
    keys: usize,
}

impl Bounds {
    /// Returns the bounds of a simulation that begins now.
    pub(crate) fn from_now() -> Self {
        let end = Instant::now() + Duration::from_secs(30);
        Self { end, decisions: 5_000_000, keys: 1_000_000 }
    }
}

/// The limits that a simulation tries.
#[derive(Clone, Debug)]
pub(crate) enum Proposal {
    /// One limit with other policies. Its override of the whole limit at run time doesn't count.
    One(Arc<LimitConfig>),
    /// The limits of a file.
    File(Vec<Arc<LimitConfig>>),
}

/// The terms of a simulation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The time that it goes back.
    pub(crate) since: Duration,
    /// Whether samples stand for all decisions.
    pub(crate) scale: bool,
    pub(crate) from: Option<From>,
}

/// The reason why nothing is simulated.
#[derive(Debug)]
pub(crate) enum Problem {
    /// The caller has something to change.
    Wrong(String),
    /// The decisions are a sample, and the caller takes no estimates.
    Sampled(String),
    /// There is nothing to play.
    Unrecorded(&'static str),
    /// The machine failed.
    Failed(String),
}

impl Proposal {
    /// Makes the proposal of other policies for a limit.
    ///
    /// # Errors
    /// Returns an error if a policy is malformed, or if they form no limit.
    pub(crate) fn of_policies(known: &LimitConfig, specs: &[String]) -> Result<Self, Problem> {
        let policies = policies_of(specs)?;
        let limit = known.limit.with_policies(policies);
        let mut config = known.clone();
        config.limit = limit.map_err(|error| Problem::Wrong(format!("`policies`: {error}")))?;
        if played(&config.limit).is_none() {
            return Err(Problem::Wrong(
                "`policies` only count requests in flight, whose duration isn't recorded: give another one".to_owned(),
            ));
        }
        Ok(Self::One(Arc::new(config)))
    }

    /// Makes the proposal of a file, or of one of its limits.
    ///
    /// # Errors
    /// Returns an error if the file has no such limit.
    pub(crate) fn of_config(config: &Config, limit: Option<&str>) -> Result<Self, Problem> {
        let is_off = config.enabled == sluicegate::config::Switch::Off;
        let with_switch = |limit: &Arc<LimitConfig>| {
            let mut limit = Arc::clone(limit);
            if is_off {
                Arc::make_mut(&mut limit).enabled = config.enabled;
            }
            limit
        };
        let is_wanted = |config: &&Arc<LimitConfig>| {
            limit.is_none_or(|wanted| config.limit.name().as_str() == wanted)
        };
        let limits: Vec<_> = config.limits.iter().filter(is_wanted).map(with_switch).collect();
        match (limits.is_empty(), limit) {
            (true, Some(limit)) => Err(Problem::Wrong(format!(
                "the file has no limit called `{}`",
                limit.escape_debug()
            ))),
            _ => Ok(Self::File(limits)),
        }
    }

    fn limits(&self) -> &[Arc<LimitConfig>] {
        match self {
            Self::One(limit) => std::slice::from_ref(limit),
            Self::File(limits) => limits,
        }
    }

    /// Returns the names of the limits.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.limits().iter().map(|config| config.limit.name().as_str())
    }

    /// Keeps the limits that a caller may see.
    pub(crate) fn retain(&mut self, sees: impl Fn(&str) -> bool) {
        if let Self::File(limits) = self {
            limits.retain(|config| sees(config.limit.name().as_str()));
        }
    }
}

/// Parses policies.
///
/// # Errors
/// Returns an error that shows the place in the first malformed one.
pub(crate) fn policies_of(specs: &[String]) -> Result<Vec<Policy>, Problem> {
    if specs.is_empty() || specs.len() > Limit::MAX_POLICIES {
        let most = Limit::MAX_POLICIES;
        return Err(Problem::Wrong(format!("`policies` must have 1 to {most} entries")));
    }
    let policy = |(index, spec): (usize, &String)| {
        let parsed = spec.parse::<Policy>();
        parsed.map_err(|error| Problem::Wrong(format!("policies[{index}]: {error}")))
    };
    specs.iter().enumerate().map(policy).collect()
}

/// Plays gathered decisions through a proposal. Blocks its thread, which is one for blocking work, until the
/// bounds' end: keys that aren't begun by then are left out.
///
/// # Errors
/// Returns an error if the decisions are a sample without `scale`, or if the machine fails.
pub(crate) fn play(
    proposal: &Proposal,
    gathered: Gathered,
    registry: Option<&Registry>,
    scale: bool,
    bounds: Bounds,
) -> Result<Simulation, Problem> {
    if gathered.sample.is_some() && !scale {
        return Err(Problem::Sampled(
            "the log has only a sample of the allowed decisions: give `scale` for estimates, or simulate from the recorder"
                .to_owned(),
        ));
    }
    let Gathered { from, recordings, decisions, mut left_out, sample, first, now, .. } = gathered;
    let failed =
        |error: &dyn fmt::Display| Problem::Failed(format!("the simulation failed: {error}"));
    let window = [first, now].map(Timestamp::from_micros_clamped);
    let mut recordings: BTreeMap<_, _> = recordings.into_iter().collect();
    let mut limits = Vec::new();
    for config in proposal.limits() {
        let name = config.limit.name().as_str();
        let unplayed: Vec<String> = config
            .limit
            .members()
            .iter()
            .map(sluicegate::policy::Member::policy)
            .filter(|policy| counts_in_flight(policy))
            .map(ToString::to_string)
            .collect();
        let (Some(recording), Some(limit)) = (recordings.remove(name), played(&config.limit))
        else {
            limits.push(LimitAnswer::empty(name, unplayed));
            continue;
        };
        let recording = recording.finish().map_err(|error| failed(&error))?;
        let is_one = matches!(proposal, Proposal::One(_));
        let rules = Rules::new(config, registry, is_one, bounds.end);
        let plan = Plan::together(limit).top(0).compared(KeyAnswer::MOST);
        let plan = plan.rules(Arc::new(rules)).window(window[0], window[1]);
        // One thread is enough, and leaves the others to requests.
        let store = MemoryStore::new();
        let playing = plan.play(&store, &recording, &|_| ());
        let report = Handle::current().block_on(playing).map_err(|error| failed(&error))?;
        let Some(comparison) = report.comparisons().next() else { continue };
        left_out += comparison.skipped;
        limits.push(LimitAnswer::new(name, comparison, unplayed, now));
    }
    Ok(Simulation {
        covers_ms: now.saturating_sub(first) / 1_000,
        from: from.to_string(),
        decisions,
        left_out,
        sampled: sample.is_some(),
        estimated: sample.is_some(),
        limits,
    })
}

/// Returns the limit without policies that count requests in flight, whose duration isn't recorded.
fn played(limit: &Limit) -> Option<Limit> {
    if !limit.has_permits() {
        return Some(limit.clone());
    }
    let policies = limit.members().iter().map(sluicegate::policy::Member::policy);
    limit.with_policies(policies.filter(|policy| !counts_in_flight(policy)).cloned().collect()).ok()
}

const fn counts_in_flight(policy: &Policy) -> bool {
    matches!(policy.algorithm(), Algorithm::Concurrency { .. })
}
