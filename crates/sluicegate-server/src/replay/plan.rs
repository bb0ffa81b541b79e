//! What a log is played through: limits.

use std::str::FromStr;
use std::sync::Arc;

use sluicegate_core::{Limit, LimitName, Policy, SpecError};

use super::recording::Recording;
use super::report::Report;
use super::tally::LimitTally;
use super::timeline::Timeline;

/// What a log is played through: policies side by side, each deciding by itself, or one limit,
/// whose policies decide together.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) limits: Vec<Arc<Limit>>,
    /// Of policies that are limits of their own: as their user wrote them.
    specs: Option<Vec<String>>,
}

/// A policy with the spec as its user wrote it, by which reports call it.
#[derive(Clone, Debug)]
pub(super) struct PolicySpec {
    text: String,
    policy: Policy,
}

impl Plan {
    /// Each policy decides every request by itself.
    pub(super) fn side_by_side(policies: impl IntoIterator<Item = PolicySpec>) -> Self {
        let limit = |(index, spec): (usize, PolicySpec)| (alone(index + 1, spec.policy), spec.text);
        let (limits, specs) = policies.into_iter().enumerate().map(limit).unzip();
        Self { limits, specs: Some(specs) }
    }

    /// The policies of the limit decide together, all or nothing.
    pub(super) fn together(limit: Limit) -> Self {
        Self { limits: vec![Arc::new(limit)], specs: None }
    }

    /// How many decisions it takes to play a recording.
    pub(super) const fn decisions(&self, recording: &Recording) -> u64 {
        self.limits.len() as u64 * recording.len()
    }

    /// What came of each limit.
    pub(super) fn report(
        &self,
        tallies: &[LimitTally],
        recording: &Recording,
        timeline: Timeline,
    ) -> Report {
        let mut report = Report::new(recording, timeline);
        for (index, (limit, tally)) in self.limits.iter().zip(tallies).enumerate() {
            match self.specs.as_ref().and_then(|specs| specs.get(index)) {
                Some(spec) => report.add_policy(spec, limit, tally, &recording.keys),
                None => report.add_limit(limit, tally, &recording.keys),
            }
        }
        report
    }
}

impl FromStr for PolicySpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let text = text.trim().to_owned();
        let policy = text.parse()?;
        Ok(Self { text, policy })
    }
}

/// The limit of one policy.
#[expect(clippy::expect_used, reason = "a word and a number are a name, and a policy is a limit")]
fn alone(number: usize, policy: Policy) -> Arc<Limit> {
    let name: LimitName = format!("policy-{number}").parse().expect("lawful characters, and few");
    Arc::new(Limit::new(name, vec![policy]).expect("nothing a single policy could collide with"))
}
