//! The gates that requests made necessary, whose number is bounded.

use std::fmt::{self, Write as _};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use sluicegate::config::LimitConfig;
use sluicegate::{Config, Gate, Limit, Registry};

use super::given::Wanted;

/// Keeps the gates of limits whose policies come with requests, alone and combined. To make one takes longer than to
/// decide.
///
/// Clients choose them, so the number of their limits and policies together is bounded. The least recently used gate
/// leaves. The store keeps the consumed units, so a gate that is made again continues with them.
pub(crate) struct OpenGates<K>(Mutex<Kept<K>>);

struct Kept<K> {
    gates: LruCache<K, (Gate, usize)>,
    /// The sum of the sizes.
    size: usize,
}

impl<K: Eq + Hash> OpenGates<K> {
    /// Maximum sum of the sizes.
    pub(crate) const MOST: usize = 10_000;

    pub(crate) fn new() -> Self {
        Self(Mutex::new(Kept { gates: LruCache::unbounded(), size: 0 }))
    }

    /// Returns the gate of a key, or the one that `make` returns, whose size is the number of its limits and policies.
    ///
    /// # Errors
    /// Returns the error of `make`.
    pub(crate) fn get_or_make<E>(
        &self,
        key: K,
        size: usize,
        make: impl FnOnce() -> Result<Gate, E>,
    ) -> Result<Gate, E> {
        if let Some((gate, _)) = self.kept().gates.get(&key) {
            return Ok(gate.clone());
        }
        // Without the lock. Two requests may make the same gate, and the second one stays.
        let gate = make()?;
        let mut left = Vec::new();
        let mut kept = self.kept();
        let before = kept.gates.push(key, (gate.clone(), size));
        kept.size += size;
        kept.size -= before.as_ref().map_or(0, |(_, (_, size))| *size);
        left.extend(before);
        while kept.size > Self::MOST
            && let Some(oldest) = kept.gates.pop_lru()
        {
            kept.size -= oldest.1.1;
            left.push(oldest);
        }
        // To close limits takes time.
        drop(kept);
        drop(left);
        Ok(gate)
    }

    /// Returns the sum of the sizes.
    #[cfg(test)]
    pub(crate) fn size(&self) -> usize {
        self.kept().size
    }

    fn kept(&self) -> MutexGuard<'_, Kept<K>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenGates<String> {
    /// Returns the gate of these limits, or the one that `make` returns.
    ///
    /// # Errors
    /// Returns the error of `make`.
    pub(super) fn of_wanted<E>(
        &self,
        wanted: &[Wanted<'_>],
        make: impl FnOnce() -> Result<Gate, E>,
    ) -> Result<Gate, E> {
        let given = wanted.iter().filter_map(|limit| limit.given);
        let size = wanted.len() + given.map(|given| given.specs().len()).sum::<usize>();
        self.get_or_make(key_of(wanted), size, make)
    }
}

/// Opens a limit whose policies come with a request. It has the deadline of a limit in a file.
pub(crate) fn open(registry: &Registry, limit: Limit) -> Gate {
    let mut config = LimitConfig::new(limit);
    config.deadline = Some(Config::DEADLINE);
    registry.gate_with_numbers(config)
}

/// Returns a text that only equal limits with equal policies have. Clients choose the parts, so each has its length in
/// front.
fn key_of(wanted: &[Wanted<'_>]) -> String {
    let mut key = String::new();
    for Wanted { name, given } in wanted {
        if given.is_some() {
            key.push('+');
        }
        let specs = given.map_or(&[][..], |given| given.specs());
        for text in std::iter::once(*name).chain(specs.iter().map(String::as_str)) {
            // Writing into text never fails.
            let _ = write!(key, "{}:{text}", text.len());
        }
        key.push(';');
    }
    key
}

impl<K> fmt::Debug for OpenGates<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenGates").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use sluicegate::MemoryStore;

    use super::*;
    use crate::http::given::Given;

    fn given(specs: &[&str]) -> Given {
        serde_json::from_value(serde_json::json!(specs)).unwrap()
    }

    #[test]
    fn the_least_recently_used_leave_and_the_number_of_policies_is_bounded() {
        let registry = Registry::builder(MemoryStore::new()).build();
        let gates = OpenGates::new();
        let policies = given(&["gcra 1/h as a", "gcra 1/h as b", "gcra 1/h as c"]);
        let is_made = |number: usize| {
            let name = format!("l{number}");
            let wanted = [Wanted { name: &name, given: Some(&policies) }];
            let mut is_made = false;
            let gate = gates.of_wanted::<Infallible>(&wanted, || {
                is_made = true;
                Ok(registry.gate_with_numbers(Limit::new(&name, policies.specs()).unwrap()))
            });
            assert_eq!(gate.unwrap().name(), name);
            is_made
        };
        // Each counts four.
        let most = OpenGates::<String>::MOST / 4;
        for number in 0..most {
            assert!(is_made(number));
        }
        assert!(!is_made(0));
        assert!(is_made(most), "a new one");
        assert!(!is_made(0), "used more recently");
        assert!(is_made(1), "it has left");
        assert!(gates.size() <= OpenGates::<String>::MOST);
    }

    #[test]
    fn no_text_of_a_client_looks_like_other_limits() {
        let one = |specs: &[&str]| {
            let given = given(specs);
            key_of(&[Wanted { name: "a", given: Some(&given) }])
        };
        let two = key_of(&[Wanted { name: "a", given: None }, Wanted { name: "b", given: None }]);
        let keys = [
            key_of(&[Wanted { name: "a", given: None }]),
            one(&[]),
            one(&["b"]),
            one(&["b", "c"]),
            one(&["b1:c"]),
            one(&["bc"]),
            one(&[";1:b"]),
            one(&["b\n"]),
            two,
        ];
        for (index, key) in keys.iter().enumerate() {
            assert!(!keys[..index].contains(key), "{key}");
        }
    }
}
