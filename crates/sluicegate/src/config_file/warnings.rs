//! Warnings about valid settings that are probably mistakes.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::for_stores::{Now, step};
use sluicegate_core::{
    Algorithm, DeniedCharge, Enforcement, Limit, LogTier, Member, Policy, Rate, Request,
    RetryAfter, Span, Window, kernel::Rule,
};
use sluicegate_http::{Cidr, KeyComponent, KeyExpression, KeyMatcher};

use super::{LimitConfig, Override};

/// Returns warnings about the tiers of one policy.
pub(super) fn of_tiers(policy: &Policy) -> Vec<String> {
    match policy.algorithm() {
        Algorithm::SlidingLog { tiers } => redundant_tiers(tiers),
        _ => Vec::new(),
    }
}

/// Returns a warning about where the windows of a policy begin.
pub(super) fn of_window(policy: &Policy) -> Option<String> {
    const WEEK: u128 = Duration::from_secs(7 * 86_400).as_micros();
    let Algorithm::FixedWindow { window: Window::Aligned(length), .. } = policy.algorithm() else {
        return None;
    };
    let is_weekly = length.as_micros().is_multiple_of(WEEK);
    is_weekly.then(|| {
        format!(
            "`aligned` windows of {} begin on Thursdays at 00:00 UTC, as 1 January 1970 did: write \
             `w calendar UTC` (Monday) or `w calendar UTC start thursday`",
            Span::from(*length)
        )
    })
}

/// Returns how a policy refuses requests permanently, if it does: those of a fresh key, or of one that has used its
/// limit. This is valid, and may be what an operator wants.
pub(super) fn refuses_for_ever(policy: &Policy) -> Option<String> {
    let quota = policy.quota();
    if quota.window.is_some() && policy.cost().get() <= quota.units {
        return None;
    }
    let alone = Limit::new("limit", [policy.clone()]).ok()?;
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
            "{refuses} every request of a key that has used its limit, because no units flow back at a rate of 0"
        )),
        _ => None,
    }
}

/// Returns a warning about the policies of a limit together.
pub(super) fn of_policies(policies: &[Policy]) -> Option<&'static str> {
    policies
        .iter()
        .all(|policy| policy.enforcement() == Enforcement::Shadow)
        .then_some("every policy is a shadow: the limit never refuses anything")
}

/// Returns the policies that never refuse what another one admits, by their index. Policies with names are skipped,
/// because a request may name its cost under each.
pub(super) fn redundant_policies(policies: &[Policy]) -> Vec<(usize, String)> {
    let is_alike =
        |policy: &Policy| policy.name().is_none() && policy.enforcement() != Enforcement::Shadow;
    let tighter = |(index, loose): (usize, &Policy)| {
        let mut others = policies.iter().enumerate();
        let found = others.find(|(other, tight)| {
            let is_redundant = *other != index && is_alike(tight) && admits_no_more(tight, loose);
            // The later one of two equal policies is redundant.
            is_redundant && (*other < index || !admits_no_more(loose, tight))
        });
        let is_free = is_alike(loose) && loose.denied_charge() == DeniedCharge::Free;
        let (_, tight) = found.filter(|_| is_free)?;
        Some((index, format!("never refuses what `{tight}` admits: remove it, or lower its limit")))
    };
    policies.iter().enumerate().filter_map(tighter).collect()
}

/// Returns whether `loose` admits everything that `tight` admits; `false` if that isn't clear.
fn admits_no_more(tight: &Policy, loose: &Policy) -> bool {
    use Algorithm::{FixedWindow, SlidingCounter, SlidingLog, SlidingWindow};
    let (tight_one, loose_one) = (tight.algorithm(), loose.algorithm());
    if tight.cost() != loose.cost() {
        return false;
    }
    if let (Some(tight), Some(loose)) = (meter(tight_one), meter(loose_one)) {
        let slower = |one: Rate, other: Rate| {
            u128::from(one.count()) * other.period().as_micros()
                <= u128::from(other.count()) * one.period().as_micros()
        };
        return tight.1 <= loose.1 && slower(tight.0, loose.0);
    }
    match (tight_one, loose_one) {
        (FixedWindow { limit, window }, FixedWindow { limit: most, window: other }) => {
            window == other && limit <= most
        }
        (SlidingCounter { limit, window }, SlidingCounter { limit: most, window: other }) => {
            window == other && limit <= most
        }
        (
            SlidingWindow { limit, window, slices },
            SlidingWindow { limit: most, window: other, slices: others },
        ) => window == other && slices == others && limit <= most,
        (SlidingLog { tiers: tight }, SlidingLog { tiers: loose }) => {
            loose.iter().all(|loose| tight.iter().any(|tight| implies(tight, loose)))
        }
        _ => false,
    }
}

/// Returns the rate and burst of an algorithm that is equivalent to a token bucket.
const fn meter(algorithm: &Algorithm) -> Option<(Rate, u64)> {
    match algorithm {
        Algorithm::TokenBucket { rate, burst: most }
        | Algorithm::Gcra { rate, burst: most }
        | Algorithm::LeakyBucket { rate, capacity: most } => Some((*rate, *most)),
        _ => None,
    }
}

/// Returns warnings about the source of keys.
pub(super) fn of_key(key: &KeyExpression) -> Vec<String> {
    let mut warnings = Vec::new();
    // Fields with which proxies report the client, and which clients can send too.
    let about_address = ["x-forwarded-for", "forwarded", "x-real-ip"];
    for component in key.alternatives().flatten() {
        if let KeyComponent::Header(name) = component
            && about_address.contains(&name.as_str())
        {
            warnings.push(format!(
                "a client chooses its `{component}`, so it can use any number of keys: write \
                 `ip`, and set `client_address` and the trusted proxies in `http`"
            ));
        }
    }
    let mut alternatives = key.alternatives().rev().skip(1);
    if alternatives.any(|components| components.iter().all(is_nearly_always_there)) {
        warnings.push(
            "nearly every request has an `ip`, so the alternatives after it are rarely used: \
             write `ip` last"
                .to_owned(),
        );
    }
    warnings
}

/// Returns a warning about `missing_key`.
pub(super) fn of_missing_key(key: &KeyExpression) -> Option<String> {
    let last = key.alternatives().next_back()?;
    let is_there = last.iter().all(is_always_there);
    is_there.then(|| format!("has no effect, because every request has the key `{key}`: remove it"))
}

const fn is_always_there(component: &KeyComponent) -> bool {
    matches!(component, KeyComponent::Method | KeyComponent::Path | KeyComponent::Literal(_))
}

fn is_nearly_always_there(component: &KeyComponent) -> bool {
    *component == KeyComponent::Ip || is_always_there(component)
}

/// Returns a warning about a list of keys that has no exceptions.
pub(super) fn of_lists(limit: &LimitConfig) -> Option<(&'static str, &'static str)> {
    let LimitConfig { allow, block, overrides, .. } = limit;
    let has_all = |list: &[KeyMatcher]| list.iter().any(KeyMatcher::matches_all);
    match (&**allow, &**block) {
        _ if !overrides.is_empty() => None,
        (allow, []) if has_all(allow) => {
            Some(("allow", "lets every key pass uncounted: remove `*`, or write `enabled: false`"))
        }
        ([], block) if has_all(block) => {
            Some(("block", "denies every key: remove `*`, or add keys that may pass to `allow`"))
        }
        _ => None,
    }
}

/// Returns a warning about a blocked address where requests may have a key without one.
pub(super) fn of_blocked(entry: &KeyMatcher, key: &KeyExpression) -> Option<String> {
    let has_address = |components: &[KeyComponent]| components.contains(&KeyComponent::Ip);
    // If no key has an address, the entry never matches; another warning covers that.
    if entry.as_range().is_none() || !key.alternatives().any(has_address) {
        return None;
    }
    let without = key.alternatives().find(|components| !has_address(components))?;
    let named: Vec<String> = without.iter().map(ToString::to_string).collect();
    let named = named.join("+");
    Some(format!(
        "passes with the key `{named}`, which has no address: block addresses in a limit with `key: ip`"
    ))
}

/// Returns a warning about an address that matches many clients, because fewer of its bits count than by default.
pub(super) fn of_wide_client(written: &str, entry: &KeyMatcher) -> Option<String> {
    let written: Cidr = written.parse().ok()?;
    let network = entry.as_range().filter(|network| *network != written)?;
    let usual = if network.address().is_ipv4() { 32 } else { 64 };
    let bits = network.len();
    (bits < usual).then(|| {
        format!("stands for {network}, because only the first {bits} bits of an address count")
    })
}

/// Returns a warning about an override; `is_alone` if no wider entry of its limit has it as an exception.
pub(super) fn of_override(made: &Override, base: &Limit, is_alone: bool) -> Option<&'static str> {
    if made.key().matches_all() {
        return Some("is for every key: change the numbers of the limit instead");
    }
    let (own, base) = (made.limit().members(), base.members());
    let is_equal = || own.iter().map(Member::policy).eq(base.iter().map(Member::policy));
    (is_alone && is_equal()).then_some("changes nothing: remove it, or change its numbers")
}

/// Returns a warning about a store in which the log of some key is full before its limit is used.
pub(super) fn of_max_bytes(max_bytes: NonZeroUsize, limits: &[Arc<LimitConfig>]) -> Option<String> {
    let largest = limits
        .iter()
        .flat_map(|limit| limit.limit.members().iter().map(move |member| (limit, member)))
        .filter_map(|(limit, member)| Some((most_bytes(member.policy().rule())?, limit, member)))
        .max_by_key(|(bytes, ..)| *bytes)?;
    let (bytes, limit, member) = largest;
    (bytes > max_bytes.get() as u64).then(|| {
        format!(
            "is less than the {bytes} bytes that one key may need under policy `{}` of limit `{}`: without free memory, its requests are denied",
            member.name(),
            limit.limit.name()
        )
    })
}

/// Returns the bytes of the entries that one key's log or ring may have.
fn most_bytes(rule: &Rule) -> Option<u64> {
    /// A timestamp and a total.
    const ENTRY: u64 = 16;
    let Rule::Log(log) = rule else {
        return None;
    };
    let most = log.tiers().iter().map(|tier| tier.limit).max()?;
    // A ring has one for each slice and for the slice that is leaving.
    let slices = if log.is_ring() { log.horizon() / log.quantum() + 1 } else { u64::MAX };
    Some(most.min(slices) * ENTRY)
}

/// Returns a warning about the prefix of keys in Redis.
pub(super) fn of_prefix(prefix: &str) -> Option<&'static str> {
    /// The default under the project's former name.
    const FORMER: &str = "tg";
    (prefix == FORMER).then_some(
        "`tg` was the default under the project's former name: keep it only for states from then; \
         to discard them, omit it",
    )
}

/// Returns warnings about tiers that never refuse anything, because another one refuses first.
fn redundant_tiers(tiers: &[LogTier]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, tier) in tiers.iter().enumerate() {
        let tighter = tiers.iter().enumerate().find(|(other_index, other)| {
            let equal = implies(tier, other) && implies(other, tier);
            // The later one of two equal tiers is redundant.
            *other_index != index && implies(other, tier) && (!equal || *other_index < index)
        });
        if let Some((_, tighter)) = tighter {
            let (shown, tighter) = (spelled(tier), spelled(tighter));
            warnings.push(format!(
                "the tier `{shown}` never refuses what `{tighter}` admits: remove it, or lower its limit"
            ));
        }
    }
    warnings
}

/// Returns whether `loose` admits everything that `tight` admits: the windows of `tight` that cover one
/// window of `loose` hold no more than `loose` allows.
fn implies(tight: &LogTier, loose: &LogTier) -> bool {
    if tight.window.is_zero() {
        return false;
    }
    let windows = loose.window.as_micros().div_ceil(tight.window.as_micros());
    u128::from(tight.limit) * windows <= u128::from(loose.limit)
}

fn spelled(tier: &LogTier) -> String {
    let LogTier { limit, window } = tier;
    Rate::new(*limit, *window)
        .map_or_else(|_| format!("{limit} in {}", Span::from(*window)), |rate| rate.to_string())
}
