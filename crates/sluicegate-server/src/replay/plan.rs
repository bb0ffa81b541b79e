//! What the log is played through: limits, and the store that decides.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use indicatif::ProgressBar;
use sluicegate::config::LimitConfig;
use sluicegate::{AnyStore, Config, StoreOptions, Switch};
use sluicegate_core::{Limit, LimitName, Policy, SpecError};

use super::recording::Recording;
use super::report::Report;
use super::tally::LimitTally;
use super::timeline::Timeline;
use super::{ReplayArgs, play};
use crate::output::{Failure, complain, without_charge};
use crate::setup::{config_failure, store_url};

/// Limits and a store.
pub(super) struct Plan {
    store: AnyStore,
    limits: Vec<Arc<Limit>>,
    /// Of policies that are limits of their own: as their user wrote them.
    specs: Option<Vec<String>>,
}

impl Plan {
    /// The plan that the arguments ask for.
    pub(super) fn new(args: &ReplayArgs) -> Result<Self, Failure> {
        let url = store_url(&args.store)?;
        let mut options = StoreOptions::default();
        options.deadline = args.deadline.into();
        let (limits, specs) = match (&args.config, &args.limit) {
            (Some(file), Some(name)) => (vec![Arc::new(from_config(file, name)?)], None),
            _ => (
                side_by_side(&args.policy)?,
                Some(args.policy.iter().map(|spec| spec.text.clone()).collect()),
            ),
        };
        let store = AnyStore::open(&url, &options)
            .map_err(|error| Failure::usage(format_args!("--store: {error}")))?;
        Ok(Self { store, limits, specs })
    }

    /// How many limits decide each request.
    pub(super) const fn len(&self) -> usize {
        self.limits.len()
    }

    /// Decides every request under every limit.
    pub(super) async fn play(
        &self,
        recording: &Recording,
        timeline: Timeline,
        bar: &ProgressBar,
    ) -> Result<Vec<LimitTally>, Failure> {
        let played = match &self.store {
            AnyStore::Memory(store) => {
                play::play_now(&**store, &self.limits, recording, timeline, bar)
            }
            store => play::play(store, &self.limits, recording, timeline, bar).await,
        };
        played.map_err(|error| {
            let error = without_charge(&error);
            Failure::store(format_args!("the replay stopped, because the store failed: {error}"))
        })
    }

    /// Adds to the report what came of each limit.
    pub(super) fn report(
        &self,
        tallies: &[LimitTally],
        recording: &Recording,
        report: &mut Report,
    ) {
        for (index, (limit, tally)) in self.limits.iter().zip(tallies).enumerate() {
            match self.specs.as_ref().and_then(|specs| specs.get(index)) {
                Some(spec) => report.add_policy(spec, limit, tally, &recording.keys),
                None => report.add_limit(limit, tally, &recording.keys),
            }
        }
    }
}

/// A policy with the spec as its user wrote it.
#[derive(Clone, Debug)]
pub(crate) struct PolicySpec {
    text: String,
    policy: Policy,
}

impl FromStr for PolicySpec {
    type Err = PolicySpecError;

    fn from_str(text: &str) -> Result<Self, PolicySpecError> {
        let text = text.trim().to_owned();
        match text.parse() {
            Ok(policy) => Ok(Self { text, policy }),
            Err(error) => {
                let is_one_word = !text.is_empty() && !text.contains(' ');
                Err(PolicySpecError { is_one_word, error })
            }
        }
    }
}

/// A spec that can't be read.
#[derive(Clone, Debug)]
pub(crate) struct PolicySpecError {
    error: SpecError,
    is_one_word: bool,
}

impl fmt::Display for PolicySpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)?;
        if self.is_one_word {
            f.write_str("\nA policy is one argument: quote it, as in --policy \"gcra 5/min\"")?;
        }
        Ok(())
    }
}

impl std::error::Error for PolicySpecError {}

/// Limits of one policy each.
fn side_by_side(policies: &[PolicySpec]) -> Result<Vec<Arc<Limit>>, Failure> {
    let limit = |(index, spec): (usize, &PolicySpec)| {
        let name: LimitName = format!("policy-{}", index + 1)
            .parse()
            .map_err(|error| Failure::usage(format_args!("--policy: {error}")))?;
        let limit = Limit::new(name, vec![spec.policy.clone()])
            .map_err(|error| Failure::usage(format_args!("--policy: {error}")))?;
        Ok(Arc::new(limit))
    };
    policies.iter().enumerate().map(limit).collect()
}

/// What a limit says of some keys, or of itself as a whole, which a replay doesn't go by.
fn left_out(config: &LimitConfig) -> Vec<&'static str> {
    [
        ("`enabled: false`", config.enabled == Switch::Off),
        ("`allow`", !config.allow.is_empty()),
        ("`block`", !config.block.is_empty()),
        ("`overrides`", !config.overrides.is_empty()),
    ]
    .into_iter()
    .filter_map(|(field, is_told)| is_told.then_some(field))
    .collect()
}

fn from_config(file: &Path, name: &str) -> Result<Limit, Failure> {
    let config = Config::load(file).map_err(|errors| config_failure(&errors))?;
    if let Some(found) = config.limit(name) {
        let left_out = left_out(found);
        if !left_out.is_empty() {
            complain(format_args!(
                "note: only the policies of limit `{name}` are played: left out is its {}",
                left_out.join(", ")
            ));
        }
        return Ok(found.limit.clone());
    }
    let names: Vec<_> = config.limits.iter().map(|config| config.limit.name().as_str()).collect();
    Err(Failure::usage(format_args!(
        "{} has no limit `{}`: it has {}",
        file.display(),
        name.escape_debug(),
        names.join(", ")
    )))
}
