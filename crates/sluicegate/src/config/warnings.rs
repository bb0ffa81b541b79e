//! Warnings about what is valid but probably a mistake.

use sluicegate_core::{Algorithm, Enforcement, Policy, Rate, Strategy};

/// Warnings about one policy.
pub(super) fn of_policy(policy: &Policy) -> Vec<String> {
    match policy.algorithm() {
        Algorithm::SlidingLog { strategies } => redundant_strategies(strategies),
        _ => Vec::new(),
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
