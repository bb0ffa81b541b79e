//! Tells when limiters of one name count apart.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use sluicegate_core::for_stores::Identity;
use sluicegate_core::{Limit, LimitName, Member, Store, StoreId};

/// The names of this process' limiters, each in its store.
static NAMES: LazyLock<Mutex<HashMap<(StoreId, LimitName), Known>>> = LazyLock::new(Mutex::default);

/// The place of one limiter among those of its name. Dropping it frees the place.
///
/// Limiters of one name share their consumption only under an equal algorithm. A customer may move to a plan with
/// another algorithm, so nothing fails, and the log has a line. Limiters of a registry have no place, because it has each
/// name once at a time.
pub(super) struct Namesake(StoreId, LimitName);

/// The limiters of one name in one store.
struct Known {
    limiters: usize,
    /// The policies of the first one.
    policies: Policies,
    is_told: bool,
}

/// The identities and the algorithms of a limit's policies.
type Policies = Vec<(Identity, &'static str)>;

impl Namesake {
    /// Adds a limiter, and logs once if it shares no algorithm with the first one of its name.
    pub(super) fn of(store: &impl Store, limit: &Limit) -> Self {
        let of = |member: &Member| (member.identity(), member.policy().algorithm().keyword());
        let policies: Policies = limit.members().iter().map(of).collect();
        // The log is written after the lock is free, because a subscriber may make a limiter.
        if let Some(first) = join(store.id(), limit.name(), &policies) {
            tracing::warn!(
                limit = limit.name().as_str(),
                "two limiters of this name count apart: one has {}, the other {}. Give them the same algorithm if their \
                 requests should count together, or different names if not",
                in_words(&first),
                in_words(&policies),
            );
        }
        Self(store.id(), limit.name().clone())
    }
}

impl Drop for Namesake {
    fn drop(&mut self) {
        let Self(store, name) = self;
        let mut names = names();
        let Entry::Occupied(mut known) = names.entry((store.clone(), name.clone())) else { return };
        known.get_mut().limiters -= 1;
        if known.get().limiters == 0 {
            known.remove();
        }
    }
}

/// Adds a limiter. Returns the policies of the first one if they count apart, once for each name.
fn join(store: StoreId, name: &LimitName, policies: &Policies) -> Option<Policies> {
    let mut names = names();
    let new = || Known { limiters: 0, policies: policies.clone(), is_told: false };
    let known = names.entry((store, name.clone())).or_insert_with(new);
    known.limiters += 1;
    // An equal algorithm with another window is intended: users have a month of their own zone.
    let is_alike = |(identity, algorithm): &(Identity, &str)| {
        known.policies.iter().any(|it| it.0 == *identity || it.1 == *algorithm)
    };
    if known.is_told || policies.iter().any(is_alike) {
        return None;
    }
    known.is_told = true;
    Some(known.policies.clone())
}

fn in_words(policies: &Policies) -> String {
    let words: Vec<_> = policies.iter().map(|(_, algorithm)| format!("`{algorithm}`")).collect();
    words.join(" and ")
}

fn names() -> MutexGuard<'static, HashMap<(StoreId, LimitName), Known>> {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}
