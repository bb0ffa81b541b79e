//! The results of a replay, the source of the JSON, the table and the page.

use serde::Serialize;
use sluicegate_core::{Enforcement, Error, Limit, Member, Timestamp};

use crate::comparison::Comparison;
use crate::counts::{Counts, Decided, DeniedKey, Offered, Then, WorstMinute};
use crate::decision_counts::DecisionReport;
use crate::keys::{self, Keys};
use crate::need::Needs;
use crate::plan::Plan;
use crate::recording::Recording;
use crate::subject::Subject;
use crate::suggest::Suggestions;
use crate::tally::{self, LimitTally, Tally};
use crate::timeline::Timeline;

/// The results of a replay. Its serialized form is the output of [`Report::write_json`].
#[derive(Debug, Serialize)]
pub struct Report {
    pub(crate) log: String,
    /// Name of the format; `None` if no line is well formed.
    pub(crate) format: Option<String>,
    /// Key expression; `None` if the lines bring their own key.
    pub(crate) key: Option<String>,
    pub(crate) lines: u64,
    pub(crate) malformed: u64,
    pub(crate) malformed_lines: Vec<MalformedLine>,
    pub(crate) requests: u64,
    pub(crate) keys: u64,
    pub(crate) first: Option<String>,
    pub(crate) last: Option<String>,
    /// Counts of a decision log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) decisions: Option<DecisionReport>,
    /// Requests over time; `None` if there are no requests.
    pub(crate) timeline: Option<Offered>,
    /// One message for each policy or limit that couldn't decide some requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) errors: Vec<String>,
    pub(crate) policies: Vec<PolicyReport>,
    /// Results of the policies together, if they were decided together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<LimitReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) suggest: Option<Suggestions>,
    /// One comparison for each limit that was played.
    #[serde(skip)]
    comparisons: Vec<Comparison>,
}

#[derive(Debug, Serialize)]
pub(crate) struct MalformedLine {
    /// Name of the log, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) log: Option<String>,
    pub(crate) line: u64,
    pub(crate) why: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct PolicyReport {
    pub(crate) policy: String,
    pub(crate) name: String,
    pub(crate) shadow: bool,
    #[serde(flatten)]
    pub(crate) counts: Counts,
    /// Present for a policy that decides alone on a decision log.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(crate) then: Option<Then>,
}

#[derive(Debug, Serialize)]
pub(crate) struct LimitReport {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) counts: Counts,
    /// Present for a decision log.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(crate) then: Option<Then>,
}

/// A limit that was played, with its results.
struct Played<'p> {
    limit: &'p Limit,
    tally: &'p LimitTally,
    needs: &'p Needs,
    keys: &'p Keys,
}

impl Report {
    /// Returns the policies, followed by their limit if they were decided together.
    pub fn subjects(&self) -> impl Iterator<Item = Subject<'_>> {
        let policies = self.policies.iter().map(|policy| Subject {
            heading: policy.policy.clone(),
            is_shadow: policy.shadow,
            counts: &policy.counts,
        });
        let limit = self.limit.iter().map(|limit| Subject {
            heading: format!("limit {}", limit.name),
            is_shadow: false,
            counts: &limit.counts,
        });
        policies.chain(limit)
    }

    /// Returns the comparison of each limit of the plan with the decisions of the recording, in the order of the plan.
    /// Only a recording of decisions has any to compare with; in others every request counts as allowed then.
    pub fn comparisons(&self) -> impl Iterator<Item = &Comparison> {
        self.comparisons.iter()
    }

    /// Adds suggested limits, found by a search of the same recording.
    #[must_use]
    pub fn with_suggestions(mut self, suggestions: Suggestions) -> Self {
        self.suggest = Some(suggestions);
        self
    }

    /// Returns the report of a plan, from the results of each of its limits.
    pub(crate) fn of(
        plan: &Plan,
        tallies: &[LimitTally],
        needs: &[Needs],
        recording: &Recording,
        timeline: Timeline,
    ) -> Result<Self, Error> {
        let mut report = Self::new(recording, timeline)?;
        for (index, (limit, tally)) in plan.limits.iter().zip(tallies).enumerate() {
            let played = Played { limit, tally, needs: &needs[index], keys: &recording.keys };
            match plan.specs.as_ref().and_then(|specs| specs.get(index)) {
                Some(spec) => report.add_policy(spec, &played),
                None => report.add_limit(&played),
            }
            let comparison = tally.comparison.finish(&recording.keys, &timeline);
            report.comparisons.push(comparison);
        }
        Ok(report)
    }

    /// Returns a report without policies.
    fn new(recording: &Recording, timeline: Timeline) -> Result<Self, Error> {
        let mut offered = vec![0; timeline.count()];
        for part in recording.parts() {
            part?.times().for_each(|time| timeline.count_in(&mut offered, time));
        }
        let period = recording.period();
        let malformed_lines = recording.malformed.first().iter();
        let are_several = recording.logs.len() > 1;
        Ok(Self {
            log: recording.name(),
            format: recording.formats(),
            key: recording.key(),
            lines: recording.lines(),
            malformed: recording.malformed(),
            malformed_lines: malformed_lines
                .map(|malformed| MalformedLine {
                    log: are_several
                        .then(|| recording.logs.get(malformed.log).map(|log| log.name.clone()))
                        .flatten(),
                    line: malformed.line,
                    why: malformed.why.clone(),
                })
                .collect(),
            requests: recording.requests(),
            keys: recording.keys.len() as u64,
            first: period.map(|(first, _)| rfc_3339(first)),
            last: period.map(|(_, last)| rfc_3339(last)),
            timeline: period.map(|_| Offered {
                from: rfc_3339(Timestamp::from_micros_clamped(timeline.start())),
                bucket_us: timeline.length(),
                offered,
                buckets: timeline,
            }),
            decisions: recording.decisions.report(),
            errors: Vec::new(),
            policies: Vec::new(),
            limit: None,
            suggest: None,
            comparisons: Vec::new(),
        })
    }

    /// Adds a policy that was decided alone, under the spec that its user wrote.
    fn add_policy(&mut self, spec: &str, played: &Played<'_>) {
        self.add_policies(Some(spec), played);
    }

    /// Adds the policies of a limit that were decided together.
    fn add_limit(&mut self, played: &Played<'_>) {
        self.add_policies(None, played);
        let counts = self.counts(&played.tally.whole, played, None);
        let then = self.then(played);
        self.limit = Some(LimitReport { name: played.limit.name().to_string(), counts, then });
    }

    fn add_policies(&mut self, spec: Option<&str>, played: &Played<'_>) {
        let members = played.limit.members().iter().zip(&played.tally.policies);
        for (index, (member, tally)) in members.enumerate() {
            let policy = member.policy();
            self.policies.push(PolicyReport {
                policy: spec.map_or_else(|| policy.to_string(), str::to_owned),
                name: member.name().to_string(),
                shadow: policy.enforcement() == Enforcement::Shadow,
                counts: self.counts(tally, played, Some(index)),
                then: spec.and_then(|_| self.then(played)),
            });
        }
        if let Some((_, message)) = &played.tally.errors.first {
            self.errors.push(message.clone());
        }
    }

    /// Returns how a limit's decisions compare with those of a decision log.
    fn then(&self, played: &Played<'_>) -> Option<Then> {
        self.decisions.as_ref()?;
        Some(played.tally.comparison.then())
    }

    /// Returns the counts of a policy, by its index, or of a limit as a whole.
    fn counts(&self, tally: &Tally, played: &Played<'_>, policy: Option<usize>) -> Counts {
        // Keys that the lines bring may contain any character.
        let is_joined = self.key.is_some();
        let errors = &played.tally.errors;
        let denied_most = tally.denied_most.iter().map(|most| DeniedKey {
            key: keys::text(played.keys.get(most.key), is_joined),
            requests: most.requests,
            allowed: most.requests - most.errors - most.denied,
            denied: most.denied,
            worst_minute: shown_minute(most.worst_minute),
            needed: played.needed(most.key, policy),
        });
        let offered = self.timeline.iter().flat_map(|timeline| &timeline.offered);
        let refused = tally.denied_in.iter().zip(&errors.errors_in);
        let allowed =
            offered.zip(refused).map(|(offered, (denied, errors))| offered - denied - errors);
        Counts {
            requests: self.requests,
            allowed: self.requests - tally.denied - errors.count,
            denied: tally.denied,
            errors: errors.count,
            keys: self.keys,
            keys_denied: tally.keys_denied,
            worst_minute: tally.worst_minute().map(shown_minute),
            denied_most: denied_most.collect(),
            timeline: Decided { allowed: allowed.collect(), denied: tally.denied_in.clone() },
        }
    }
}

impl Played<'_> {
    /// Returns the specs that admit all requests of a key: of one policy, or of all policies that
    /// need other numbers.
    fn needed(&self, key: u32, policy: Option<usize>) -> Option<String> {
        let needs = self.needs.get(&key)?;
        if let Some(index) = policy {
            return Some(needs.get(index)?.as_ref()?.to_string());
        }
        let members = self.limit.members().iter().map(Member::policy).zip(needs);
        let enforced = members.filter(|(own, _)| own.enforcement() == Enforcement::Enforced);
        let mut specs = Vec::new();
        for (own, needed) in enforced {
            let needed = needed.as_ref()?;
            if needed != own {
                specs.push(needed.to_string());
            }
        }
        Some(specs.join(" + "))
    }
}

fn shown_minute(worst: tally::WorstMinute) -> WorstMinute {
    WorstMinute { time: rfc_3339(worst.at), denied: worst.denied, at: worst.at }
}

fn rfc_3339(at: Timestamp) -> String {
    i64::try_from(at.as_micros())
        .ok()
        .and_then(|micros| jiff::Timestamp::from_microsecond(micros).ok())
        .map_or_else(String::new, |instant| instant.to_string())
}
