//! The state of a policy in words, with its numbers. Pure: everything is an argument.

use std::time::Duration;

use sluicegate::policy::Algorithm;
use sluicegate::store::Span;
use sluicegate::{Outcome, RetryAfter};

/// Returns the state of a policy and what the request needs, in one to three sentences.
pub(super) fn sentence(outcome: &Outcome<'_>, cost: u64) -> String {
    let policy = outcome.member().policy();
    let (limit, remaining) = (outcome.limit(), outcome.remaining());
    let mut text = format!("`{policy}` {}", state(policy.algorithm(), limit, remaining));
    if let Some(used) = outcome.used().filter(|used| *used > 0) {
        text.push_str(&format!(", because {} used in its window", units(used, true)));
    }
    let costs = if cost == 0 { "nothing".to_owned() } else { cost.to_string() };
    text.push_str(&format!("; the request costs {costs}"));
    let missing = cost.saturating_sub(remaining.unwrap_or(u64::MAX));
    match (outcome.is_admitted(), outcome.retry_after()) {
        (true, _) if outcome.wait() > Duration::ZERO => {
            text.push_str(&format!(", and is admitted after a wait of {}", span(outcome.wait())));
        }
        (true, _) => text.push_str(", so it passes"),
        (false, RetryAfter::After(after)) => {
            text.push_str(&format!("; {}", arrival(policy.algorithm(), missing, after)));
        }
        (false, _) => match limit {
            Some(limit) if cost > limit => text.push_str(&format!(
                ", which is more than the {limit} that it ever has, so it never passes"
            )),
            _ => text.push_str(", and no time is known at which it passes"),
        },
    }
    text.push('.');
    if outcome.is_shadow() {
        let done = if outcome.is_admitted() { "would admit" } else { "would deny" };
        text.push_str(&format!(" It is a shadow: it {done} the request, but never decides."));
    } else if let Some(after) = outcome.reset_after().filter(|after| *after > Duration::ZERO) {
        text.push_str(&format!(" Without further requests it is unused again in {}.", span(after)));
    }
    text
}

/// Returns the remaining units of a policy in the words of its algorithm.
fn state(algorithm: &Algorithm, limit: Option<u64>, remaining: Option<u64>) -> String {
    let (Some(limit), Some(remaining)) = (limit, remaining) else {
        return "has no bound".to_owned();
    };
    match algorithm {
        Algorithm::Concurrency { .. } => format!("has {remaining} of {limit} permits free"),
        Algorithm::LeakyBucket { .. } => format!("has space for {remaining} of {limit} units"),
        _ => format!("has {remaining} of {limit} units"),
    }
}

/// Returns when the request passes, and why then.
fn arrival(algorithm: &Algorithm, missing: u64, after: Duration) -> String {
    let after = span(after);
    // Fractions of units count too, so that a request can lack less than 1.
    let more = units(missing.max(1), false);
    match algorithm {
        Algorithm::Concurrency { .. } => {
            format!("{more} more must be released, at the latest in {after}")
        }
        Algorithm::FixedWindow { .. } => format!("the window ends in {after}"),
        Algorithm::SlidingWindow { .. }
        | Algorithm::SlidingCounter { .. }
        | Algorithm::SlidingLog { .. } => {
            format!("{more} more {} in {after}", leave(missing))
        }
        _ => format!("{more} more {} in {after}", arrive(missing)),
    }
}

const fn arrive(missing: u64) -> &'static str {
    if missing > 1 { "arrive" } else { "arrives" }
}

const fn leave(missing: u64) -> &'static str {
    if missing > 1 { "leave the window" } else { "leaves the window" }
}

fn units(count: u64, with_verb: bool) -> String {
    let verb = match (with_verb, count) {
        (false, _) => "",
        (true, 1) => " unit is",
        (true, _) => " units are",
    };
    format!("{count}{verb}")
}

/// Returns a duration in words.
pub(super) fn span(duration: Duration) -> String {
    Span::from(duration).in_words()
}
