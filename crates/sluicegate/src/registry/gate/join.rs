//! Joining gates, so that their limits are decided together.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use sluicegate_core::{Store as _, StoreId, printable};

use super::Gate;
use crate::registry::gate_cache::GateCache;
use crate::registry::shared::Shared;
use crate::registry::target::Target;

impl Gate {
    /// Joins this gate and `other`: their limits are decided all or nothing, each about its own key
    /// ([`Ask::and`](crate::Ask::and)).
    ///
    /// ```
    /// use sluicegate::{Config, Registry};
    ///
    /// let config = "limits: {address: {policies: [gcra 10/s]}, account: {policies: [gcra 1/min]}}";
    /// let open = || Registry::open(&Config::parse(config, "limits.yaml").unwrap()).unwrap();
    /// let (one, two) = (open(), open());
    /// assert_eq!(one.gate("address").and(one.gate("account"))?.name(), "address + account");
    /// assert!(one.gate("address").and(one.gate("address")).is_err());
    /// assert!(one.gate("address").and(two.gate("account")).is_err(), "another store");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the gates have a limit of the same name, or if their stores differ. Also returns an error if
    /// both name limits of a registry and the registries differ.
    #[expect(clippy::needless_pass_by_value, reason = "both become one, and read as such")]
    pub fn and(self, other: Self) -> Result<Self, JoinError> {
        let own = || self.cell.targets().iter().map(|target| (target, &self.shared));
        let others = || other.cell.targets().iter().map(|target| (target, &other.shared));
        for (one, shared) in own() {
            for (two, their) in others() {
                compatible(one, &store_of(one, shared), two, &store_of(two, their))?;
            }
        }
        let is_named = |(target, _): &(&Target, &Arc<Shared>)| !matches!(target, Target::Inline(_));
        let shared = match (own().find(is_named), others().find(is_named)) {
            (Some((one, ours)), Some((two, theirs))) if !Arc::ptr_eq(ours, theirs) => {
                return Err(JoinError(format!(
                    "limits `{}` and `{}` are of two registries: take both gates from one",
                    one.name(),
                    two.name()
                )));
            }
            (None, Some((_, theirs))) => theirs,
            _ => &self.shared,
        };
        Ok(Self { shared: Arc::clone(shared), ..self.with(&other) })
    }

    /// Joins gates of one registry, unchecked. If two limits have one name, every call returns an error.
    pub(crate) fn with(&self, other: &Self) -> Self {
        let targets = self.cell.targets().iter().chain(other.cell.targets());
        let targets: Vec<Target> = targets.cloned().collect();
        Self { shared: Arc::clone(&self.shared), cell: Arc::new(GateCache::new(targets)) }
    }
}

/// The reason why gates can't be joined. The message says what to change.
#[derive(Clone, Eq, PartialEq)]
pub struct JoinError(String);

impl JoinError {
    /// Makes the error of a limit that is named twice.
    pub(crate) fn of_twice(name: &str) -> Self {
        Self(format!(
            "limit `{}` is named twice: join limits with different names",
            printable(name)
        ))
    }

    /// Makes the error of no limit.
    pub(crate) fn of_nothing() -> Self {
        Self("there is no limit to join: name at least one".to_owned())
    }

    /// Makes the error of a gate that can't be joined, because a function chooses the other gate for each request.
    pub(crate) fn of_chosen(gate: &Gate) -> Self {
        Self(format!(
            "limit `{}` can't be joined to a gate that a function chooses: join it to each gate that the function returns",
            gate.name()
        ))
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for JoinError {}

fn store_of(target: &Target, shared: &Shared) -> StoreId {
    match target {
        Target::Inline(opened) | Target::Keyed(opened) => opened.store().id(),
        Target::Named(_) => shared.write().store.id(),
    }
}

fn compatible(
    one: &Target,
    one_store: &StoreId,
    two: &Target,
    two_store: &StoreId,
) -> Result<(), JoinError> {
    let (name, other) = (one.name(), two.name());
    if name == other {
        return Err(JoinError(format!(
            "limit `{name}` is in both gates: join limits with different names"
        )));
    }
    if one_store != two_store {
        return Err(JoinError(format!(
            "limits `{name}` and `{other}` have different stores ({one_store} and {two_store}): what is decided together is counted in one"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ask, Config, Limiter, MemoryStore, Registry};

    fn of_limiter(store: &MemoryStore, name: &str) -> Gate {
        let limit = crate::Limit::new(name, ["gcra 1/min"]).unwrap();
        Gate::from(Limiter::new(store.clone(), limit))
    }

    fn registry() -> Registry {
        let config = "limits: {a: {policies: [gcra 1/min]}, b: {policies: [gcra 1/min]}}";
        Registry::open(&Config::parse(config, "limits.yaml").unwrap()).unwrap()
    }

    fn problem(one: Gate, two: Gate) -> String {
        one.and(two).unwrap_err().to_string()
    }

    #[test]
    fn limiters_of_one_store_are_decided_together_and_those_of_two_never() {
        let (store, other) = (MemoryStore::new(), MemoryStore::new());
        let both = of_limiter(&store, "address").and(of_limiter(&store, "account")).unwrap();
        let ask = || Ask::new("192.0.2.7").and(Ask::new("alice"));
        assert!(both.check(ask()).now().unwrap().is_allowed());
        assert!(of_limiter(&store, "account").check("alice").now().unwrap().is_denied());
        let problem = problem(both, of_limiter(&other, "day"));
        assert!(
            problem.starts_with("limits `address` and `day` have different stores ("),
            "{problem}"
        );
        assert!(problem.ends_with("): what is decided together is counted in one"), "{problem}");
    }

    #[test]
    #[cfg(feature = "redis")]
    fn two_servers_are_two_stores_and_two_ways_to_one_are_one() {
        let gate = |url: &str, name: &str| {
            let store = crate::RedisStore::builder(url).unwrap().build();
            Gate::from(Limiter::new(store, crate::Limit::new(name, ["gcra 1/min"]).unwrap()))
        };
        let (one, other) = ("redis://127.0.0.1:1", "redis://127.0.0.1:2");
        let problem = problem(gate(one, "address"), gate(other, "account"));
        assert!(problem.contains("different stores"), "{problem}");
        assert!(gate(one, "address").and(gate(one, "account")).is_ok());
    }

    #[test]
    fn a_name_stands_for_one_limit_of_one_registry() {
        let (one, two) = (registry(), registry());
        assert_eq!(
            problem(one.gate("a"), one.gate("b").and(one.gate("a")).unwrap()),
            "limit `a` is in both gates: join limits with different names"
        );
        assert!(problem(one.gate("a"), two.gate("b")).contains("different stores"));
        let store = MemoryStore::new();
        let of = || Registry::builder(store.clone()).build();
        assert_eq!(
            problem(of().gate("a"), of().gate("b")),
            "limits `a` and `b` are of two registries: take both gates from one"
        );
    }

    /// A limit given in code follows the registry of the other, regardless of their order.
    #[test]
    fn a_limiter_joins_a_registry_on_its_store() {
        let store = MemoryStore::new();
        let limit = crate::Limit::new("a", ["gcra 1/min"]).unwrap();
        let registry = Registry::builder(store.clone()).limit(limit).build();
        for gate in [
            of_limiter(&store, "b").and(registry.gate("a")).unwrap(),
            registry.gate("a").and(of_limiter(&store, "b")).unwrap(),
        ] {
            assert_eq!(gate.limit().unwrap().parts().len(), 2, "both are known");
        }
    }
}
