//! The limits that a log is played through.

use std::str::FromStr;
use std::sync::Arc;

use sluicegate_core::{Algorithm, Hold, Limit, Member, Policy, SpecError, Timestamp};

use crate::recording::Recording;
use crate::rules::KeyRules;
use crate::timeline::Timeline;

/// The limits that a log is played through: policies side by side, each deciding alone, or one
/// limit, whose policies decide together.
///
/// ```
/// use sluicegate::MemoryStore;
/// use sluicegate_replay::{LogReader, Plan};
///
/// let log = "{\"time\":1,\"key\":\"alice\"}\n".repeat(5);
/// let recording = LogReader::new("requests.jsonl").read(log.as_bytes())?;
/// let limit = sluicegate::Limit::new("login", ["gcra 1/s burst 3 as burst", "fixed_window 2/h as hour"])?;
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
    /// Specs as their user wrote them, for policies that are limits of their own.
    pub(crate) specs: Option<Vec<String>>,
    pub(crate) top: usize,
    /// Number of keys that a comparison lists.
    pub(crate) compared: usize,
    pub(crate) rules: Option<Arc<dyn KeyRules>>,
    /// The period that the timeline covers; that of the recording if it is `None`.
    window: Option<(Timestamp, Timestamp)>,
}

/// A policy with its spec as the user wrote it, which reports show.
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
    /// Number of denied keys that a report lists by default.
    pub const TOP: usize = 10;

    /// Returns a plan in which each policy decides every request alone.
    #[must_use]
    pub fn side_by_side(policies: impl IntoIterator<Item = PolicySpec>) -> Self {
        let limit = |(index, spec): (usize, PolicySpec)| (alone(index + 1, spec.policy), spec.text);
        let (limits, specs) = policies.into_iter().enumerate().map(limit).unzip();
        Self::of(limits, Some(specs))
    }

    /// Returns a plan in which the policies of the limit decide together, all or nothing.
    #[must_use]
    pub fn together(limit: Limit) -> Self {
        Self::of(vec![limit], None)
    }

    const fn of(limits: Vec<Limit>, specs: Option<Vec<String>>) -> Self {
        let (top, compared) = (Self::TOP, 0);
        Self { limits, specs, top, compared, rules: None, window: None }
    }

    /// Sets the number of keys that a [`Comparison`](crate::Comparison) lists.
    #[must_use]
    pub const fn compared(mut self, keys: usize) -> Self {
        self.compared = keys;
        self
    }

    /// Sets rules for single keys. The numbers that listed keys would need don't follow them.
    #[must_use]
    pub fn rules(mut self, rules: Arc<dyn KeyRules>) -> Self {
        self.rules = Some(rules);
        self
    }

    /// Sets the period that the timeline covers, in at most 60 buckets. By default it is that of the recording.
    #[must_use]
    pub const fn window(mut self, from: Timestamp, to: Timestamp) -> Self {
        self.window = Some((from, to));
        self
    }

    /// Returns the buckets over time.
    pub(crate) fn timeline(&self, recording: &Recording) -> Timeline {
        self.window.map_or_else(
            || recording.timeline(),
            |(from, to)| Timeline::of_window(from.as_micros(), to.as_micros()),
        )
    }

    /// Sets the number of denied keys that a report lists for each policy, those with the most
    /// denials first.
    #[must_use]
    pub const fn top(mut self, keys: usize) -> Self {
        self.top = keys;
        self
    }

    /// Returns the specs of the policies that count requests in flight. Replaying them needs
    /// durations.
    pub fn permits(&self) -> impl Iterator<Item = String> {
        let members = self.limits.iter().flat_map(Limit::members).map(Member::policy);
        members.filter(|policy| is_permits(policy)).map(Policy::to_string)
    }

    /// Removes the policies that count requests in flight, for a log without durations.
    #[must_use]
    pub fn without_permits(mut self) -> Self {
        let mut kept = Vec::new();
        let mut specs = self.specs.as_ref().map(|_| Vec::new());
        for (index, limit) in self.limits.iter().enumerate() {
            let Some(limit) =
                changed(limit, |policy| (!is_permits(policy)).then(|| policy.clone()))
            else {
                continue;
            };
            kept.push(limit);
            if let Some((specs, all)) = specs.as_mut().zip(self.specs.as_ref()) {
                specs.push(all[index].clone());
            }
        }
        (self.limits, self.specs) = (kept, specs);
        self
    }

    /// Returns `true` if the plan has no policy.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.limits.is_empty()
    }

    /// Returns the number of decisions in a replay of a recording.
    #[must_use]
    pub const fn decisions(&self, recording: &Recording) -> u64 {
        self.limits.len() as u64 * recording.requests()
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

/// Returns the limit as it is played. A request holds its permits from its start to its end, as if
/// its holder renewed them. So the hold has the maximum length, and is released at the end.
pub(crate) fn played(limit: &Limit) -> Limit {
    if !limit.has_permits() {
        return limit.clone();
    }
    let held_longest = |policy: &Policy| match policy.algorithm().clone() {
        Algorithm::Concurrency { permits, queue, .. } => policy
            .with_algorithm(Algorithm::Concurrency { permits, hold: Hold::MAX_LASTS, queue })
            .ok(),
        _ => Some(policy.clone()),
    };
    changed(limit, held_longest).unwrap_or_else(|| limit.clone())
}

/// Returns the limit with other policies, each of the same algorithm; `None` if none remains.
fn changed(limit: &Limit, change: impl Fn(&Policy) -> Option<Policy>) -> Option<Limit> {
    let policies = limit.members().iter().filter_map(|member| change(member.policy()));
    limit.with_policies(policies.collect()).ok()
}

const fn is_permits(policy: &Policy) -> bool {
    matches!(policy.algorithm(), Algorithm::Concurrency { .. })
}

/// Returns the limit of a single policy.
#[expect(clippy::expect_used, reason = "a word and a number are a name, and a policy is a limit")]
pub(crate) fn alone(number: usize, policy: Policy) -> Limit {
    Limit::new(format!("policy-{number}"), [policy]).expect("a valid name and a single policy")
}
