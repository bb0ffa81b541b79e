//! The response fields that report limits to clients.

mod format;
mod partition;
mod prepared;
mod quota;
mod value;

use std::fmt::Write as _;
use std::sync::Arc;

use http::StatusCode;
use http::header::{
    ACCESS_CONTROL_EXPOSE_HEADERS, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
};
use sluicegate_core::{
    Costs, Decision, Enforcement, Limit, Outcome, RetryAfter, Source, Span, Timestamp,
};

use crate::policy_name::display_name;

pub use format::{FieldFormat, FieldFormatError};
pub use partition::{Partition, PartitionError};
pub use prepared::PreparedFields;

use prepared::{Content, window_parameter};
use quota::clamp;
use value::{build_value, reserve, write_number};

static RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
static RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
static RATE_LIMIT_PARTITION: HeaderName = HeaderName::from_static("ratelimit-partition");
static RETRY: HeaderName = RETRY_AFTER;
/// Limit, remaining and reset.
static DRAFT_03: [HeaderName; 3] = [
    HeaderName::from_static("ratelimit-limit"),
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("ratelimit-reset"),
];
static X_RATE_LIMIT: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
];

/// The response fields of one limit. Creating it prepares everything that is the same for every
/// response.
///
/// Shadow policies are never shown.
///
/// ```
/// use sluicegate_core::{Limit, OpenOptions, Request, Store};
/// use sluicegate_http::{FieldFormat, LimitFields};
/// use sluicegate_memory::MemoryStore;
///
/// let limit = Limit::new("api", vec!["token_bucket 1/s burst 2"])?;
/// let fields = LimitFields::new(&limit, FieldFormat::Draft11);
///
/// let opened = MemoryStore::new().open(limit, OpenOptions::default());
/// let decision = opened.decide(Request::check(b"alice"))?;
/// let mut headers = http::HeaderMap::new();
/// fields.of(&decision).write(&mut headers);
/// assert_eq!(headers["ratelimit-policy"], "\"token_bucket\";q=2;w=2");
/// assert_eq!(headers["ratelimit"], "\"token_bucket\";r=1;t=1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Cloning is cheap.
#[derive(Clone, Debug)]
pub struct LimitFields {
    ready: Arc<Ready>,
}

/// The parts of the fields that are equal in every response.
#[derive(Clone, Debug)]
struct Ready {
    format: FieldFormat,
    members: Box<[Member]>,
    /// The value of `RateLimit-Policy`.
    policies: Option<HeaderValue>,
    /// The value of `RateLimit-Partition`.
    partitions: Option<HeaderValue>,
}

/// An enforced policy.
#[derive(Clone, Debug)]
struct Member {
    /// The index in the limit.
    index: usize,
    part: usize,
    name: String,
    /// The text before the number of remaining units: `"burst";r=`.
    available: String,
    quota: u64,
    /// The value of `RateLimit-Limit` and `X-RateLimit-Limit`.
    limit: HeaderValue,
    /// The default cost of a request.
    cost: u64,
}

impl LimitFields {
    /// Returns the fields of `limit` in `format`.
    #[must_use]
    pub fn new(limit: &Limit, format: FieldFormat) -> Self {
        let mut members = Vec::new();
        let mut policies = String::new();
        for (index, member) in limit.members().iter().enumerate() {
            let policy = member.policy();
            if policy.enforcement() == Enforcement::Shadow {
                continue;
            }
            let name = display_name(limit, member).into_owned();
            let (quota, window) = (quota::units(policy), quota::window(policy));
            write_policy(&mut policies, format, &name, quota, window);
            let cost = policy.cost().get();
            let letter = if format == FieldFormat::DraftNext { 'a' } else { 'r' };
            let available = format!("\"{name}\";{letter}=");
            let limit = HeaderValue::from(quota);
            members.push(Member {
                index,
                part: member.part(),
                name,
                available,
                quota,
                limit,
                cost,
            });
        }
        if format == FieldFormat::Draft03 && !policies.is_empty() {
            for member in &mut members {
                member.limit = header_value(format!("{}, {policies}", member.quota));
            }
        }
        let policies = (!policies.is_empty()).then(|| header_value(policies));
        let ready = Ready { format, members: members.into(), policies, partitions: None };
        Self { ready: Arc::new(ready) }
    }

    /// Adds the partitions of the quota, which only [`FieldFormat::DraftNext`] shows.
    ///
    /// `partitions` has one element per part of the limit, in the order of [`Limit::parts`].
    #[must_use]
    pub fn with_partitions(mut self, partitions: &[Partition]) -> Self {
        let mut text = String::new();
        for member in &self.ready.members {
            if let Some(partition) = partitions.get(member.part).filter(|own| !own.is_empty()) {
                separate(&mut text);
                let _ = write!(text, "\"{}\"{partition}", member.name);
            }
        }
        let partitions = (!text.is_empty()).then(|| header_value(text));
        Arc::make_mut(&mut self.ready).partitions = partitions;
        self
    }

    /// Returns the format.
    #[must_use]
    pub fn format(&self) -> FieldFormat {
        self.ready.format
    }

    /// Returns whether a response with this status should have the fields. A redirection should not,
    /// because a client might wait before following it if few units are left. 304 (Not Modified)
    /// redirects no client, so it has fields.
    #[must_use]
    pub fn apply_to(status: StatusCode) -> bool {
        !status.is_redirection() || status == StatusCode::NOT_MODIFIED
    }

    /// Returns the fields of one decision.
    pub const fn of<'d>(&'d self, decision: &'d Decision) -> DecisionFields<'d> {
        DecisionFields { fields: self, decision, costs: None, now: None }
    }

    /// Adds the names of the fields to `Access-Control-Expose-Headers`, so that browsers show them to
    /// scripts from other origins.
    pub fn expose(&self, headers: &mut HeaderMap) {
        let exposed = HeaderValue::from_static(self.format().exposed());
        if !headers.get_all(ACCESS_CONTROL_EXPOSE_HEADERS).iter().any(|value| value == exposed) {
            headers.append(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
    }
}

/// The response fields of one decision.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct DecisionFields<'d> {
    fields: &'d LimitFields,
    decision: &'d Decision,
    costs: Option<Costs<'d>>,
    now: Option<Timestamp>,
}

impl<'d> DecisionFields<'d> {
    /// Sets the costs of the request, which only [`FieldFormat::DraftNext`] shows.
    pub const fn costs(self, costs: Costs<'d>) -> Self {
        Self { costs: Some(costs), ..self }
    }

    /// Sets the time of the response, by the clock that clients compare with. Without it, a reset as
    /// a Unix time is omitted.
    pub const fn at(self, now: Timestamp) -> Self {
        Self { now: Some(now), ..self }
    }

    /// Writes the fields, and `Retry-After` on a denial.
    ///
    /// If another limit has already written fields, lists are extended. Other fields keep the values
    /// of the limit with fewer units left.
    pub fn write(self, headers: &mut HeaderMap) {
        self.prepare().write(headers);
    }

    /// Detaches the fields from their borrows, for a response that is built later.
    pub fn prepare(self) -> PreparedFields {
        let content = match self.fields.format() {
            // No limit was checked.
            _ if self.decision.source() == Source::Bypass => Content::Nothing,
            FieldFormat::None => Content::Nothing,
            FieldFormat::Draft11 | FieldFormat::DraftNext => self.lists(),
            _ => self.closest(),
        };
        PreparedFields { content, retry: retry_after(self.decision) }
    }

    /// Returns the fields as pairs of a name in lower case and a value, for other libraries.
    #[must_use]
    pub fn pairs(self) -> Vec<(&'static str, String)> {
        let mut pairs = Vec::new();
        self.prepare().each(|name, value| {
            if let Some(value) = value {
                pairs.push((name.as_str(), value.to_str().unwrap_or_default().to_owned()));
            }
        });
        pairs
    }

    fn lists(self) -> Content {
        /// Enough for a policy: two names of 32 bytes, and numbers.
        const BYTES: usize = 128;
        let ready = &self.fields.ready;
        if ready.policies.is_none() {
            return Content::Nothing;
        }
        let is_next = ready.format == FieldFormat::DraftNext;
        let window = window_parameter(ready.format);
        reserve(BYTES * ready.members.len());
        let left = build_value(|text| {
            for member in &ready.members {
                let Some(outcome) = self.decision.policy(member.index) else {
                    continue;
                };
                if !text.is_empty() {
                    text.extend_from_slice(b", ");
                }
                text.extend_from_slice(member.available.as_bytes());
                write_number(text, member.remaining(outcome));
                if let Some(seconds) = effective_window(outcome) {
                    text.extend_from_slice(window);
                    write_number(text, seconds);
                }
                if is_next && let Some(cost) = self.cost(member) {
                    text.extend_from_slice(b";c=");
                    write_number(text, cost);
                }
            }
        });
        Content::Lists { fields: self.fields.clone(), left }
    }

    /// Returns the policy closest to its limit: the binding one, or else the one with the fewest
    /// units left.
    fn closest(self) -> Content {
        let shown = self.fields.ready.members.iter().enumerate().filter_map(|(index, member)| {
            let outcome = self.decision.policy(member.index)?;
            let seconds = reset(outcome);
            let binds = self.decision.binding_index() == Some(member.index);
            Some((index, binds, member.remaining(outcome), seconds))
        });
        let closest = shown.min_by_key(|(_, binds, remaining, seconds)| {
            (!binds, *remaining, u64::MAX - seconds.unwrap_or(u64::MAX))
        });
        let Some((index, _, left, seconds)) = closest else {
            return Content::Nothing;
        };
        let reset = match self.fields.format() {
            FieldFormat::XRateLimitUnix => {
                let member = self.fields.ready.members.get(index);
                let outcome = member.and_then(|member| self.decision.policy(member.index));
                outcome.and_then(reset_span).zip(self.now).map(|(span, now)| self.unix(span, now))
            }
            _ => seconds,
        };
        Content::Closest { fields: self.fields.clone(), index, left, reset }
    }

    /// Returns the Unix time, in seconds, of the instant `span` after the evaluation.
    fn unix(self, span: Span, now: Timestamp) -> u64 {
        const SECOND: u64 = 1_000_000;
        let (now, span) = (now.as_micros(), span.as_micros());
        let evaluated = self.decision.evaluated_at().map(Timestamp::as_micros);
        match evaluated.filter(|evaluated| evaluated.abs_diff(now) < SECOND) {
            Some(evaluated) => evaluated.saturating_add(span).div_ceil(SECOND),
            // The evaluation time is unknown, or from another clock than that of the clients. The
            // response came some time after the evaluation, so round to the nearest second. Rounding
            // up would make the end of an hour a second late.
            None => now.saturating_add(span).saturating_add(SECOND / 2) / SECOND,
        }
    }

    fn cost(&self, member: &Member) -> Option<u64> {
        Some(clamp(match self.costs? {
            Costs::Own => member.cost,
            Costs::Same(cost) => cost.get(),
            Costs::Each(each) => *each.get(member.index)?,
            _ => return None,
        }))
    }
}

impl Member {
    fn remaining(&self, outcome: Outcome<'_>) -> u64 {
        outcome.remaining().map_or(self.quota, clamp)
    }
}

/// Returns the value of `Retry-After` in whole seconds, at least 1. `None` if the request was allowed
/// or can never pass.
#[must_use]
pub fn retry_after(decision: &Decision) -> Option<u64> {
    match decision.retry_after() {
        RetryAfter::After(wait) => Some(Span::from(wait).as_secs_ceil()),
        _ => None,
    }
}

/// Returns the effective window of a policy: the seconds in which no more than the remaining units
/// may be used. For a policy that refuses, it lasts until the request would pass; otherwise, until
/// the policy is fresh. The retry times of other policies don't count.
fn effective_window(outcome: Outcome<'_>) -> Option<u64> {
    match outcome.retry_after() {
        RetryAfter::After(wait) => Some(clamp(Span::from(wait).as_secs_ceil())),
        _ => reset(outcome),
    }
}

/// Returns the seconds until a policy is fresh. `None` if that doesn't help the request.
fn reset(outcome: Outcome<'_>) -> Option<u64> {
    reset_span(outcome).map(|span| clamp(span.as_secs_ceil()))
}

/// Returns the time until a policy is fresh. `None` if that doesn't help the request.
fn reset_span(outcome: Outcome<'_>) -> Option<Span> {
    let reset = outcome.reset_after().map(Span::from);
    reset.filter(|_| outcome.retry_after() != RetryAfter::Never)
}

/// Appends a policy to the list of all policies. Names of policies need no escapes in quotes.
fn write_policy(
    text: &mut String,
    format: FieldFormat,
    name: &str,
    quota: u64,
    window: Option<u64>,
) {
    match (format, window) {
        (FieldFormat::Draft11 | FieldFormat::DraftNext, window) => {
            separate(text);
            let _ = write!(text, "\"{name}\";q={quota}");
            if let Some(seconds) = window {
                let _ = write!(text, ";w={seconds}");
            }
        }
        (FieldFormat::Draft03, Some(seconds)) => {
            separate(text);
            let _ = write!(text, "{quota};w={seconds};name=\"{name}\"");
        }
        _ => {}
    }
}

/// Returns the value of a text that must be valid: names of policies, digits and punctuation always
/// are.
fn header_value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

fn separate(text: &mut String) {
    if !text.is_empty() {
        text.push_str(", ");
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
