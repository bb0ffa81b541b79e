//! The response fields of draft-ietf-httpapi-ratelimit-headers-11: `RateLimit-Policy`, `RateLimit`,
//! and `Retry-After` next to them. Text only, so that it fits any HTTP library.

use std::fmt::Write as _;

use tollgate::{
    Algorithm, CalendarUnit, Decision, Enforcement, Limit, Outcome, Policy, Rate, RetryAfter, Span,
    Window,
};

/// The fields of one limit. Policies that only watch are not in them.
#[derive(Clone, Debug)]
pub(crate) struct LimitFields {
    policy: String,
    /// Each enforced policy: its place in the limit, its name, its quota.
    members: Vec<(usize, String, u64)>,
}

impl LimitFields {
    /// Prepares the fields of `limit`.
    #[must_use]
    pub(crate) fn new(limit: &Limit) -> Self {
        let mut policy = String::new();
        let mut members = Vec::new();
        for (index, member) in limit.members().iter().enumerate() {
            if member.policy().enforcement() == Enforcement::Shadow {
                continue;
            }
            let name = member.name().as_str().to_owned();
            let quota = quota(member.policy());
            separate(&mut policy);
            // The characters of policy names need no escape between quotes.
            append(&mut policy, format_args!("\"{name}\";q={}", clamp(quota)));
            if let Some(window) = window(member.policy()) {
                append(&mut policy, format_args!(";w={window}"));
            }
            members.push((index, name, quota));
        }
        Self { policy, members }
    }

    /// The value of `RateLimit-Policy`; empty when every policy only watches.
    #[must_use]
    pub(crate) fn policy(&self) -> &str {
        &self.policy
    }

    /// The value of `RateLimit` for a decision; empty when the store failed and nobody counted.
    #[must_use]
    pub(crate) fn rate_limit(&self, decision: &Decision) -> String {
        let mut value = String::new();
        for (index, name, quota) in &self.members {
            let Some(outcome) = decision.policies().get(*index) else {
                continue;
            };
            separate(&mut value);
            let remaining = clamp(outcome.remaining().unwrap_or(*quota));
            append(&mut value, format_args!("\"{name}\";r={remaining}"));
            if let Some(seconds) = effective_window(outcome, decision) {
                append(&mut value, format_args!(";t={}", clamp(seconds)));
            }
        }
        value
    }
}

/// The value of `Retry-After` in whole seconds, at least 1: for a denied request that could ever
/// pass.
#[must_use]
pub(crate) fn retry_after(decision: &Decision) -> Option<u64> {
    match decision.retry_after() {
        RetryAfter::After(span) => Some(span.as_secs_ceil()),
        _ => None,
    }
}

/// The seconds in which no more than the remaining quota may be used. `Retry-After` must not
/// point before their end, so on a denial no policy names more.
fn effective_window(outcome: &Outcome, decision: &Decision) -> Option<u64> {
    let window = match outcome.retry_after() {
        RetryAfter::After(span) => Some(span),
        RetryAfter::NotRefused => outcome.reset_after(),
        _ => None,
    }?;
    let seconds = window.as_secs_ceil();
    Some(retry_after(decision).map_or(seconds, |retry| seconds.min(retry)))
}

/// The largest cost a fresh key admits; where there is no such cost, the units per period.
fn quota(policy: &Policy) -> u64 {
    match (policy.rule().limit(), policy.algorithm()) {
        (u64::MAX, Algorithm::Smooth { rate, .. } | Algorithm::WarmUp { rate, .. }) => rate.count(),
        (limit, _) => limit,
    }
}

/// The seconds over which the quota is given: for the bucket family the time from empty to full.
/// What is below a second has no spelling, since the field holds whole seconds.
fn window(policy: &Policy) -> Option<u64> {
    const DAY: u64 = 86_400;
    let micros = match policy.algorithm() {
        Algorithm::TokenBucket { rate, burst } | Algorithm::Gcra { rate, burst } => {
            refill(*rate, *burst)?
        }
        Algorithm::LeakyBucket { rate, capacity } => refill(*rate, *capacity)?,
        Algorithm::Shaper { rate, queue } => refill(*rate, queue.saturating_add(1))?,
        Algorithm::Smooth { rate, .. } | Algorithm::WarmUp { rate, .. } => rate.per().as_micros(),
        Algorithm::FixedWindow { window, .. } => match window {
            Window::FirstAdmitted(span) | Window::Aligned(span) => span.as_micros(),
            Window::Calendar(calendar) => {
                // As long as one can be.
                return Some(match calendar.unit() {
                    CalendarUnit::Day => DAY,
                    CalendarUnit::Week => 7 * DAY,
                    CalendarUnit::Month => 31 * DAY,
                    CalendarUnit::Year => 366 * DAY,
                    _ => return None,
                });
            }
            _ => return None,
        },
        Algorithm::SlidingWindow { window, .. } | Algorithm::SlidingCounter { window, .. } => {
            window.as_micros()
        }
        // The quota is that of the tightest strategy.
        Algorithm::SlidingLog { strategies } => strategies
            .iter()
            .min_by_key(|strategy| (strategy.limit, u64::MAX - strategy.window.as_micros()))?
            .window
            .as_micros(),
        _ => return None,
    };
    let second = Span::SECOND.as_micros();
    (micros >= second).then(|| micros.div_ceil(second))
}

/// The time in which `units` flow back, in microseconds.
fn refill(rate: Rate, units: u64) -> Option<u64> {
    let product = u128::from(units) * u128::from(rate.per().as_micros());
    let micros = product.checked_div(u128::from(rate.count()))?;
    u64::try_from(micros).ok()
}

fn separate(value: &mut String) {
    if !value.is_empty() {
        value.push_str(", ");
    }
}

fn append(value: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing into a string can't fail.
    let _ = value.write_fmt(text);
}

/// Integers in structured fields have at most 15 digits.
const fn clamp(number: u64) -> u64 {
    const MOST: u64 = 999_999_999_999_999;
    if number < MOST { number } else { MOST }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tollgate::{Ask, Limiter, ManualClock, MemoryStore};

    use super::*;

    fn limiter(policies: &[&str]) -> Limiter<MemoryStore> {
        let store = MemoryStore::builder().clock(Arc::new(ManualClock::default())).build();
        Limiter::new(store, tollgate::limit("l", policies).unwrap())
    }

    fn policy_field(spec: &str) -> String {
        LimitFields::new(&tollgate::limit("l", [spec]).unwrap()).policy().to_owned()
    }

    #[test]
    fn every_algorithm_has_a_quota_and_a_window() {
        for (spec, expected) in [
            ("token_bucket 10/s burst 20", "\"token_bucket\";q=20;w=2"),
            ("gcra 10/s burst 25 as b", "\"b\";q=25;w=3"),
            ("gcra 10/s burst 1", "\"gcra\";q=1"),
            ("leaky_bucket 5/s capacity 20", "\"leaky_bucket\";q=20;w=4"),
            ("shaper 5/s queue 9", "\"shaper\";q=10;w=2"),
            ("smooth 5/s", "\"smooth\";q=5;w=1"),
            ("warmup 5/500ms over 10s", "\"warmup\";q=5"),
            ("fixed_window 1000/h", "\"fixed_window\";q=1000;w=3600"),
            ("fixed_window 9/month calendar UTC", "\"fixed_window\";q=9;w=2678400"),
            ("sliding_window 1000/h slices 60", "\"sliding_window\";q=1000;w=3600"),
            ("sliding_counter 7/1500ms", "\"sliding_counter\";q=7;w=2"),
            ("sliding_log 10/s and 1000/h", "\"sliding_log\";q=10;w=1"),
            ("token_bucket 0/s", "\"token_bucket\";q=0"),
            ("gcra 1/s burst 2 shadow", ""),
        ] {
            assert_eq!(policy_field(spec), expected, "{spec}");
        }
    }

    #[test]
    fn an_allowed_request_says_what_is_left_until_when() {
        let limiter = limiter(&["token_bucket 10/s burst 20", "fixed_window 100/d", "smooth 5/s"]);
        let fields = LimitFields::new(limiter.limit());
        let decision = limiter.try_check("k").unwrap();
        assert_eq!(
            fields.rate_limit(&decision),
            "\"token_bucket\";r=19;t=1, \"fixed_window\";r=99;t=86400, \"smooth\";r=0;t=2"
        );
        assert_eq!(retry_after(&decision), None);
    }

    #[test]
    fn no_window_of_a_denial_ends_after_retry_after() {
        let limiter = limiter(&["token_bucket 1/s burst 3", "fixed_window 100/d"]);
        let fields = LimitFields::new(limiter.limit());
        assert!(limiter.try_check(Ask::new("k").cost(2)).unwrap().is_allowed());
        let decision = limiter.try_check(Ask::new("k").cost(3)).unwrap();
        assert_eq!(retry_after(&decision), Some(2));
        assert_eq!(
            fields.rate_limit(&decision),
            "\"token_bucket\";r=1;t=2, \"fixed_window\";r=98;t=2"
        );
        let never = limiter.try_check(Ask::new("k").cost(4)).unwrap();
        assert_eq!(retry_after(&never), None);
        assert_eq!(
            fields.rate_limit(&never),
            "\"token_bucket\";r=1, \"fixed_window\";r=98;t=86400"
        );
    }

    #[test]
    fn a_fallback_knows_no_numbers() {
        let fields = LimitFields::new(&tollgate::limit("l", ["gcra 1/s"]).unwrap());
        assert_eq!(fields.rate_limit(&Decision::fallback(false)), "");
        assert_eq!(retry_after(&Decision::fallback(false)), None);
    }

    #[test]
    fn other_programs_read_the_same() {
        use sfv::{BareItem, ListEntry, Parser};
        let limiter =
            limiter(&["token_bucket 10/s burst 20 as a-b_9", "fixed_window 100/d", "smooth 5/s"]);
        let fields = LimitFields::new(limiter.limit());
        let decision = limiter.try_check("k").unwrap();
        for value in [fields.policy(), &fields.rate_limit(&decision)] {
            let list = Parser::new(value).parse::<sfv::List>().unwrap();
            let names = list.iter().map(|entry| match entry {
                ListEntry::Item(item) => match &item.bare_item {
                    BareItem::String(name) => name.as_str(),
                    other => panic!("{other:?} is no string"),
                },
                other => panic!("{other:?} is no item"),
            });
            assert_eq!(names.collect::<Vec<_>>(), ["a-b_9", "fixed_window", "smooth"]);
        }
    }

    #[test]
    fn numbers_have_at_most_fifteen_digits() {
        assert_eq!(
            policy_field("fixed_window 9007199254740991/d"),
            "\"fixed_window\";q=999999999999999;w=86400"
        );
    }
}
