//! The share of a limit's capacity that its key with the highest use takes, in all processes of the fleet.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use sluicegate::config::LimitConfig;
use sluicegate::policy::{Algorithm, Enforcement, Member};

use super::service::Service;
use crate::decisions::{FewKeys, TopKey};
use crate::fleet::{Entry, UsedShare};

/// Maximum number of shares that a process tells the others. An entry of the fleet has at most 16 KiB.
const MOST_TOLD: usize = 10;

/// The shares that the other processes told.
pub(super) struct UsedCapacity(HashMap<String, Vec<(u64, u64)>>);

impl UsedCapacity {
    pub(super) fn of(others: Vec<Entry>) -> Self {
        let mut shares: HashMap<String, Vec<(u64, u64)>> = HashMap::new();
        for UsedShare { limit, key, permille } in others.into_iter().flat_map(|entry| entry.used) {
            shares.entry(limit).or_default().push((key, permille));
        }
        Self(shares)
    }

    /// Returns what the key with the highest use took in all processes, in thousandths of what it could take under the
    /// fullest policy. `None` if no key took anything, or only permits, which it releases.
    pub(super) fn permille(&self, config: &LimitConfig, own: &FewKeys) -> Option<u64> {
        let others = self.0.get(config.limit.name().as_str());
        let mut keys: HashMap<u64, u64> = HashMap::new();
        for (key, permille) in others.into_iter().flatten().copied().chain(in_process(config, own))
        {
            let sum = keys.entry(key).or_default();
            *sum = sum.saturating_add(permille);
        }
        keys.into_values().max().map(|permille| permille.min(1_000))
    }
}

/// Returns what this process tells the others: the highest shares.
pub(super) fn told(service: &Service) -> Vec<UsedShare> {
    let share = |config: &LimitConfig| {
        let limit = config.limit.name().as_str();
        let (key, permille) = in_process(config, &service.top_keys.few(limit, 1))?;
        (permille > 0).then(|| UsedShare { limit: limit.to_owned(), key, permille })
    };
    let mut shares: Vec<UsedShare> =
        service.registry.limits().iter().filter_map(|config| share(config)).collect();
    shares.sort_by_key(|it| Reverse(it.permille));
    shares.truncate(MOST_TOLD);
    shares
}

/// Returns the key with the highest use in this process, and its share in thousandths.
fn in_process(config: &LimitConfig, few: &FewKeys) -> Option<(u64, u64)> {
    let first = few.by_use.first()?;
    let used = u128::from(first.count);
    let members = config.limit.members().iter().map(Member::policy);
    let enforced = members.filter(|policy| policy.enforcement() == Enforcement::Enforced);
    let counted = enforced.filter(|it| !matches!(it.algorithm(), Algorithm::Concurrency { .. }));
    let shares = counted.map(|policy| {
        let quota = policy.quota();
        let units = u128::from(quota.units);
        let returned = quota
            .window
            .map_or(0, |window| units * few.covers.as_micros() / window.as_micros().max(1));
        used * 1_000 / (units + returned).max(1)
    });
    let share = shares.max()?;
    Some((hash(first), u64::try_from(share.min(1_000)).unwrap_or(1_000)))
}

/// Returns the same number in each process. If processes are compiled with a Rust that hashes otherwise, their shares aren't
/// added.
fn hash(key: &TopKey) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&key.key, &key.key_bytes).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn used(key: &str, count: u64) -> FewKeys {
        let key = Some(key.to_owned());
        FewKeys {
            by_use: vec![TopKey { key, key_bytes: None, count, at_most_over: 0 }],
            covers: Duration::from_secs(60),
            ..FewKeys::default()
        }
    }

    fn entry(key: &TopKey, permille: u64) -> Entry {
        let used = vec![UsedShare { limit: "demo".to_owned(), key: hash(key), permille }];
        Entry { used, ..Entry::default() }
    }

    #[test]
    fn shares_of_one_key_are_added_over_the_processes() {
        let text = "limits: {demo: {policies: [fixed_window 10/h]}}";
        let config = sluicegate::Config::parse(text, "limits.yaml").unwrap();
        let config = config.limit("demo").unwrap();
        let (own, [alice, bob]) = (used("alice", 2), ["alice", "bob"].map(|key| used(key, 1)));
        let share =
            |others: Vec<Entry>, own: &FewKeys| UsedCapacity::of(others).permille(config, own);
        assert_eq!(share(vec![], &FewKeys::default()), None);
        assert_eq!(share(vec![], &own), Some(200));
        let [alice, bob] = [alice, bob].map(|few| few.by_use[0].clone());
        let others = || vec![entry(&alice, 300), entry(&bob, 450)];
        assert_eq!(share(others(), &own), Some(500));
        assert_eq!(share(others(), &FewKeys::default()), Some(450));
        assert_eq!(share(vec![entry(&alice, 900)], &own), Some(1_000));
    }
}
