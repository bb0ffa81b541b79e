//! A gate from a limiter without a registry.

use std::sync::Arc;

use sluicegate_core::Store;

use super::super::Registry;
use super::Gate;
use crate::config::LimitConfig;
use crate::limiter::Limiter;

/// A gate for the same limit in the same store, mostly for middleware. The store's clock judges
/// its requests.
///
/// ```
/// use sluicegate::{Gate, Limiter, MemoryStore};
///
/// let limit = sluicegate::limit("login", ["gcra 1/min burst 2"])?;
/// let limiter = Limiter::new(MemoryStore::new(), limit);
/// assert!(limiter.check_now("alice")?.is_allowed());
/// let gate = Gate::from(limiter);
/// assert!(gate.check_now("alice")?.is_allowed());
/// assert!(gate.check_now("alice")?.is_denied());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<S: Store> From<Limiter<S>> for Gate {
    fn from(limiter: Limiter<S>) -> Self {
        let mut config = LimitConfig::new(limiter.limit().clone());
        config.on_store_failure = limiter.on_store_failure();
        config.deadline = limiter.options().deadline;
        let registry = Registry::builder(Arc::clone(limiter.store()))
            .observers(limiter.observers().clone())
            .build();
        // The gate holds the limit itself, not its name: a gate of another registry can be joined.
        registry.inline(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ask, Limit, MemoryStore};

    #[test]
    fn limits_together_keep_a_key_each() {
        let limit = |name: &str| crate::limit(name, ["gcra 1/min"]).unwrap();
        let login = Limit::together([limit("address"), limit("account")]).unwrap();
        let limiter = Limiter::new(MemoryStore::new(), login);
        let ask = || Ask::new("192.0.2.7").and(Ask::new("alice"));
        assert!(limiter.check_now(ask()).unwrap().is_allowed());
        let gate = Gate::from(limiter);
        assert_eq!(gate.name(), "address + account");
        assert!(gate.check_now(ask()).unwrap().is_denied());
        let other = Ask::new("192.0.2.8").and(Ask::new("bob"));
        assert!(gate.check_now(other).unwrap().is_allowed());
    }

    #[test]
    fn limiters_of_one_store_are_decided_together_and_those_of_two_never() {
        let store = MemoryStore::new();
        let gate = |store: &MemoryStore, name: &str| {
            let limit = crate::limit(name, ["gcra 1/min"]).unwrap();
            Gate::from(Limiter::new(store.clone(), limit))
        };
        let both = gate(&store, "address").and(gate(&store, "account"));
        let ask = || Ask::new("192.0.2.7").and(Ask::new("alice"));
        assert!(both.check_now(ask()).unwrap().is_allowed());
        assert!(gate(&store, "account").check_now("alice").unwrap().is_denied());

        let other = MemoryStore::new();
        let apart = gate(&store, "address").and(gate(&other, "account"));
        let error = apart.check_now(ask()).unwrap_err().to_string();
        assert!(
            error.starts_with("limits `address` and `account` have different stores ("),
            "{error}"
        );
        assert!(error.ends_with("): what is decided together is counted in one"), "{error}");
    }

    #[test]
    #[cfg(feature = "redis")]
    fn two_servers_are_two_stores_and_two_ways_to_one_are_one() {
        let gate = |url: &str, name: &str| {
            let store = crate::RedisStore::builder(url).unwrap().build();
            Gate::from(Limiter::new(store, crate::limit(name, ["gcra 1/min"]).unwrap()))
        };
        let ask = || Ask::new("a").and("b");
        let (one, other) = ("redis://127.0.0.1:1", "redis://127.0.0.1:2");
        let apart = gate(one, "address").and(gate(other, "account"));
        let error = apart.check_now(ask()).unwrap_err().to_string();
        assert!(error.contains("different stores"), "{error}");
        let together = gate(one, "address").and(gate(one, "account"));
        let error = together.check_now(ask()).unwrap_err();
        assert_eq!(error.as_request().unwrap().kind(), crate::RequestErrorKind::WouldBlock);
    }
}
