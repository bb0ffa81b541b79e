//! What a replay found: what JSON, the table and the page are made of.

use serde::Serialize;
use sluicegate_core::{Enforcement, Limit, Timestamp};

use crate::counts::{Counts, Decided, DeniedKey, Offered, WorstMinute};
use crate::keys::{self, Keys};
use crate::log_format::LogFormat;
use crate::recording::Recording;
use crate::subject::Subject;
use crate::tally::{LimitTally, Tally};
use crate::timeline::Timeline;

/// What a replay found. It serializes as what [`Report::write_json`] writes.
#[derive(Debug, Serialize)]
pub struct Report {
    pub(crate) log: String,
    /// `None` when no line is well formed.
    pub(crate) format: Option<&'static str>,
    /// What makes the key; `None` when the lines bring their own.
    pub(crate) key: Option<String>,
    pub(crate) lines: u64,
    pub(crate) malformed: u64,
    pub(crate) malformed_lines: Vec<MalformedLine>,
    pub(crate) requests: u64,
    pub(crate) keys: u64,
    pub(crate) first: Option<String>,
    pub(crate) last: Option<String>,
    /// `None` when there are no requests.
    pub(crate) timeline: Option<Offered>,
    pub(crate) policies: Vec<PolicyReport>,
    /// The policies together, when they were decided together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<LimitReport>,
}

#[derive(Debug, Serialize)]
pub(crate) struct MalformedLine {
    pub(crate) line: u64,
    pub(crate) why: &'static str,
}

#[derive(Debug, Serialize)]
pub(crate) struct PolicyReport {
    pub(crate) policy: String,
    pub(crate) name: String,
    pub(crate) shadow: bool,
    #[serde(flatten)]
    pub(crate) counts: Counts,
}

#[derive(Debug, Serialize)]
pub(crate) struct LimitReport {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) counts: Counts,
}

impl Report {
    /// The policies, and after them their limit when they were decided together.
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

    /// A report without policies.
    pub(crate) fn new(recording: &Recording, timeline: Timeline) -> Self {
        let period = recording.period();
        let malformed_lines = recording.malformed.first().iter();
        Self {
            log: recording.name.clone(),
            format: recording.format.map(LogFormat::as_str),
            key: recording.key.clone(),
            lines: recording.lines,
            malformed: recording.malformed(),
            malformed_lines: malformed_lines
                .map(|&(line, why)| MalformedLine { line, why: why.why() })
                .collect(),
            requests: recording.requests(),
            keys: recording.keys.len() as u64,
            first: period.map(|(first, _)| rfc_3339(first)),
            last: period.map(|(_, last)| rfc_3339(last)),
            timeline: period.map(|_| Offered {
                from: rfc_3339(Timestamp::from_micros_clamped(timeline.start())),
                bucket_us: timeline.length(),
                offered: timeline.counts(recording.times()),
                buckets: timeline,
            }),
            policies: Vec::new(),
            limit: None,
        }
    }

    /// Adds a policy that was decided alone; `spec` is what its user wrote.
    pub(crate) fn add_policy(
        &mut self,
        spec: &str,
        limit: &Limit,
        tally: &LimitTally,
        keys: &Keys,
    ) {
        self.add_policies(Some(spec), limit, tally, tally.beyond, keys);
    }

    /// Adds the policies of a limit that were decided together.
    pub(crate) fn add_limit(&mut self, limit: &Limit, tally: &LimitTally, keys: &Keys) {
        self.add_policies(None, limit, tally, 0, keys);
        let counts = self.counts(&tally.whole, tally.beyond, keys);
        self.limit = Some(LimitReport { name: limit.name().to_string(), counts });
    }

    fn add_policies(
        &mut self,
        spec: Option<&str>,
        limit: &Limit,
        tally: &LimitTally,
        beyond: u64,
        keys: &Keys,
    ) {
        for (member, tally) in limit.members().iter().zip(&tally.policies) {
            let policy = member.policy();
            self.policies.push(PolicyReport {
                policy: spec.map_or_else(|| policy.to_string(), str::to_owned),
                name: member.name().to_string(),
                shadow: policy.enforcement() == Enforcement::Shadow,
                counts: self.counts(tally, beyond, keys),
            });
        }
    }

    fn counts(&self, tally: &Tally, beyond: u64, keys: &Keys) -> Counts {
        // Lines that bring their own key may have any character in it.
        let is_joined = self.key.is_some();
        let denied_most = tally.denied_most.iter().map(|most| DeniedKey {
            key: keys::text(keys.get(most.key), is_joined),
            requests: most.requests,
            allowed: most.requests - most.denied,
            denied: most.denied,
        });
        let offered = self.timeline.iter().flat_map(|timeline| &timeline.offered);
        let allowed = offered.zip(&tally.denied_in).map(|(offered, denied)| offered - denied);
        Counts {
            requests: self.requests,
            allowed: self.requests - tally.denied,
            denied: tally.denied,
            keys: self.keys,
            keys_denied: tally.keys_denied,
            beyond,
            worst_minute: tally.worst_minute().map(|(at, denied)| WorstMinute {
                time: rfc_3339(at),
                denied,
                at,
            }),
            denied_most: denied_most.collect(),
            timeline: Decided { allowed: allowed.collect(), denied: tally.denied_in.clone() },
        }
    }
}

fn rfc_3339(at: Timestamp) -> String {
    i64::try_from(at.as_micros())
        .ok()
        .and_then(|micros| jiff::Timestamp::from_microsecond(micros).ok())
        .map_or_else(String::new, |instant| instant.to_string())
}
