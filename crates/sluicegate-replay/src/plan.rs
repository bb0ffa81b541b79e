//! What to play a log through: limits.

use std::str::FromStr;

use sluicegate_core::{Limit, LimitName, Policy, SpecError};

use crate::recording::Recording;
use crate::report::Report;
use crate::tally::LimitTally;
use crate::timeline::Timeline;

/// What to play a log through: policies side by side, each deciding on its own, or one limit, whose
/// policies decide together.
///
/// ```
/// use sluicegate::MemoryStore;
/// use sluicegate_replay::{LogReader, Plan};
///
/// let log = "{\"time\":1,\"key\":\"alice\"}\n".repeat(5);
/// let recording = LogReader::new("requests.jsonl").read(log.as_bytes())?;
/// let limit = sluicegate::limit("login", ["gcra 1/s burst 3 as burst", "fixed_window 2/h as hour"])?;
/// let plan = Plan::together(limit);
/// assert_eq!(plan.decisions(&recording), 5);
///
/// let report = plan.play_now(&MemoryStore::new(), &recording, &|_| ())?;
/// let whole = report.subjects().last().ok_or("a limit is the last subject")?;
/// assert_eq!((whole.heading(), whole.allowed(), whole.denied()), ("limit login", 2, 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) limits: Vec<Limit>,
    /// Of policies that are limits of their own: as their user wrote them.
    specs: Option<Vec<String>>,
}

/// A policy with the spec as its user wrote it, by which reports call it.
///
/// ```
/// use sluicegate_replay::PolicySpec;
///
/// assert!("token_bucket 10/s burst 20".parse::<PolicySpec>().is_ok());
/// let error = "token_bucket 10/s brust 20".parse::<PolicySpec>().unwrap_err();
/// assert!(error.to_string().contains("burst"));
/// ```
#[derive(Clone, Debug)]
pub struct PolicySpec {
    text: String,
    policy: Policy,
}

impl Plan {
    /// Each policy decides every request by itself.
    #[must_use]
    pub fn side_by_side(policies: impl IntoIterator<Item = PolicySpec>) -> Self {
        let limit = |(index, spec): (usize, PolicySpec)| (alone(index + 1, spec.policy), spec.text);
        let (limits, specs) = policies.into_iter().enumerate().map(limit).unzip();
        Self { limits, specs: Some(specs) }
    }

    /// The policies of the limit decide together, all or nothing.
    #[must_use]
    pub fn together(limit: Limit) -> Self {
        Self { limits: vec![limit], specs: None }
    }

    /// How many decisions it takes to play a recording.
    #[must_use]
    pub const fn decisions(&self, recording: &Recording) -> u64 {
        self.limits.len() as u64 * recording.requests()
    }

    /// What came of each limit.
    pub(crate) fn report(
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
fn alone(number: usize, policy: Policy) -> Limit {
    let name: LimitName = format!("policy-{number}").parse().expect("valid characters, and few");
    Limit::new(name, vec![policy]).expect("nothing a single policy could collide with")
}
