//! Warnings about what is valid but probably a mistake.

use sluicegate_core::{
    Algorithm, Enforcement, Limit, Now, Policy, Rate, Request, RetryAfter, Strategy, step,
};

/// Warnings about one policy.
pub(super) fn of_policy(policy: &Policy) -> Vec<String> {
    let mut warnings: Vec<String> = refuses_for_ever(policy).into_iter().collect();
    if let Algorithm::SlidingLog { strategies } = policy.algorithm() {
        warnings.extend(redundant_strategies(strategies));
    }
    warnings
}

/// How a policy refuses requests for ever, if it does: those of a fresh key, or of one that has used
/// its limit. It may be what an operator wants, and is valid.
pub(super) fn refuses_for_ever(policy: &Policy) -> Option<String> {
    let alone = Limit::new("limit".parse().ok()?, vec![policy.clone()]).ok()?;
    let now = Now { micros: 0, max_clock_back: None };
    let judged = step(&alone, &Request::check(b"key"), now, &mut [None]).ok()?;
    let outcome = judged.decision.policy(0)?;
    let refuses = match policy.enforcement() {
        Enforcement::Shadow => "would refuse",
        _ => "refuses",
    };
    match (outcome.retry_after(), outcome.limit()) {
        (RetryAfter::Never, Some(0)) => Some(format!("{refuses} every request: its limit is 0")),
        (RetryAfter::Never, None) => Some(format!("{refuses} every request: its rate is 0")),
        (RetryAfter::Never, Some(limit)) => Some(format!(
            "{refuses} every request that doesn't set its cost: `cost {}` is above the limit of {limit}",
            policy.cost()
        )),
        _ if outcome.reset_after().is_none() => Some(format!(
            "{refuses} every request of a key that has used its limit, because at a rate of 0 nothing comes back"
        )),
        _ => None,
    }
}

/// Warnings about the policies of a limit together.
pub(super) fn of_policies(policies: &[Policy]) -> Option<&'static str> {
    policies
        .iter()
        .all(|policy| policy.enforcement() == Enforcement::Shadow)
        .then_some("every policy is a shadow: the limit never refuses anything")
}

/// Warnings about the prefix of keys in Redis.
pub(super) fn of_prefix(prefix: &str) -> Option<&'static str> {
    /// The default under the project's former name.
    const FORMER: &str = "tg";
    (prefix == FORMER).then_some(
        "`tg` was the default under the project's former name: keep it only for the states \
         written then; where they need not be kept, leave it out",
    )
}

/// Warnings about strategies that never refuse anything, because another one refuses first.
fn redundant_strategies(strategies: &[Strategy]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, strategy) in strategies.iter().enumerate() {
        let tighter = strategies.iter().enumerate().find(|(other_index, other)| {
            let equal = implies(strategy, other) && implies(other, strategy);
            // Of two equal strategies, the later one is redundant.
            *other_index != index && implies(other, strategy) && (!equal || *other_index < index)
        });
        if let Some((_, tighter)) = tighter {
            let (shown, tighter) = (spelled(strategy), spelled(tighter));
            warnings.push(format!(
                "the strategy `{shown}` never refuses what `{tighter}` admits: remove it, or lower its limit"
            ));
        }
    }
    warnings
}

/// Whether `loose` admits everything that `tight` admits: the windows of `tight` that cover one
/// window of `loose` hold no more than `loose` allows.
fn implies(tight: &Strategy, loose: &Strategy) -> bool {
    if tight.window.is_zero() {
        return false;
    }
    let windows = loose.window.as_micros().div_ceil(tight.window.as_micros());
    u128::from(tight.limit) * u128::from(windows) <= u128::from(loose.limit)
}

fn spelled(strategy: &Strategy) -> String {
    let Strategy { limit, window } = strategy;
    Rate::new(*limit, *window)
        .map_or_else(|_| format!("{limit} in {window}"), |rate| rate.to_string())
}
