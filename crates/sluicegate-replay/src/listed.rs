//! The numbers that the listed keys need, found by playing the keys.

use std::collections::HashSet;

use sluicegate_core::{Error, Limit, Member, OpenedLimit, Policy, Store};

use crate::decide::{at_once, decide, fresh_run, on_every_core};
use crate::need::{self, Needs};
use crate::plan::{Plan, alone, played};
use crate::recording::Recording;
use crate::requests::OfKey;
use crate::tally::LimitTally;

/// A policy, and an opened limit for each part of its [widest](need::widest) form.
type Widest<O> = (Policy, Vec<O>);

/// The keys that a limit's tally lists, and its policies. Opened once, because each opened limit
/// has its own tables.
struct Listed<O> {
    keys: HashSet<u32>,
    policies: Vec<Widest<O>>,
}

impl<O: OpenedLimit> Listed<O> {
    fn open<S: Store<Opened = O>>(store: &S, limit: &Limit, tally: &LimitTally) -> Self {
        let open = |part: Policy| store.open(played(&alone(1, part)), fresh_run());
        let widest = |member: &Member| {
            let policy = member.policy();
            (policy.clone(), need::widest(policy).into_iter().map(open).collect())
        };
        Self {
            keys: tally.listed().collect(),
            policies: limit.members().iter().map(widest).collect(),
        }
    }

    /// Returns the policies with numbers that admit every request of a key.
    async fn needs(&self, key: &[u8], requests: OfKey<'_>) -> Result<Vec<Option<Policy>>, Error> {
        let mut policies = Vec::with_capacity(self.policies.len());
        for (policy, parts) in &self.policies {
            let mut numbers = Some(Vec::with_capacity(parts.len()));
            for opened in parts {
                let number = used_of_widest(opened, key, requests).await?;
                numbers =
                    numbers.zip(number).map(|(numbers, number)| [numbers, vec![number]].concat());
            }
            policies.push(numbers.and_then(|numbers| need::raised(policy, &numbers)));
        }
        Ok(policies)
    }
}

/// Returns, for each limit, the policies that the listed keys would have needed. The store must
/// answer immediately.
pub(crate) fn needs_now<S: Store>(
    store: &S,
    plan: &Plan,
    tallies: &[LimitTally],
    recording: &Recording,
) -> Result<Vec<Needs>, Error> {
    let mut needs = Vec::with_capacity(tallies.len());
    for (limit, tally) in plan.limits.iter().zip(tallies) {
        if tally.listed().next().is_none() {
            needs.push(Needs::new());
            continue;
        }
        let listed = Listed::open(store, limit, tally);
        let mut of_limit = Needs::new();
        for part in recording.parts() {
            let part = part?;
            let keys = part.by_key().filter(|requests| listed.keys.contains(&requests.key));
            let found = on_every_core(&keys.collect::<Vec<_>>(), Vec::new, |found, requests| {
                let key = recording.keys.get(requests.key);
                found.push((requests.key, at_once(listed.needs(key, *requests))?));
                Ok(())
            })?;
            of_limit.extend(found.into_iter().flatten());
        }
        needs.push(of_limit);
    }
    Ok(needs)
}

/// Returns, for each limit, the policies that the listed keys would have needed, in any store.
pub(crate) async fn needs<S: Store>(
    store: &S,
    plan: &Plan,
    tallies: &[LimitTally],
    recording: &Recording,
) -> Result<Vec<Needs>, Error> {
    let mut needs = Vec::with_capacity(tallies.len());
    for (limit, tally) in plan.limits.iter().zip(tallies) {
        if tally.listed().next().is_none() {
            needs.push(Needs::new());
            continue;
        }
        let listed = Listed::open(store, limit, tally);
        let mut of_limit = Needs::new();
        for part in recording.parts() {
            let part = part?;
            for requests in part.by_key().filter(|requests| listed.keys.contains(&requests.key)) {
                let key = recording.keys.get(requests.key);
                of_limit.insert(requests.key, listed.needs(key, requests).await?);
            }
        }
        needs.push(of_limit);
    }
    Ok(needs)
}

/// Returns the maximum that a key has used of a limit of one policy in its [widest](need::widest)
/// form.
///
/// Returns `None` if even that form denies a request. Requests whose cost no state can hold don't
/// count.
pub(crate) async fn used_of_widest(
    opened: &impl OpenedLimit,
    key: &[u8],
    requests: OfKey<'_>,
) -> Result<Option<u64>, Error> {
    let mut used = Some(0);
    decide(opened, key, requests, |answer, _| {
        let Ok(decision) = answer else { return };
        let numbers = decision.policies().next().and_then(|outcome| {
            outcome.is_admitted().then_some(())?;
            outcome.limit()?.checked_sub(outcome.remaining()?)
        });
        used = used.zip(numbers).map(|(most, number)| most.max(number));
    })
    .await?;
    Ok(used)
}
