//! A limiter that is no registry's, as a gate.

use std::sync::Arc;

use sluicegate_core::Store;
use sluicegate_memory::MemoryStore;
#[cfg(feature = "redis")]
use sluicegate_redis::RedisStore;

use super::super::Registry;
use super::Gate;
use crate::any_store::AnyStore;
use crate::config::LimitConfig;
use crate::limiter::Limiter;

/// The same limit in the same store, for what asks gates: middleware, mostly. Requests are judged
/// by the store's time.
///
/// ```
/// use sluicegate::{Gate, Limiter, MemoryStore};
///
/// let limit = sluicegate::limit("login", ["gcra 1/min burst 2"])?;
/// let limiter = Limiter::new(MemoryStore::builder().build(), limit);
/// assert!(limiter.try_check("alice")?.is_allowed());
/// let gate = Gate::from(limiter);
/// assert!(gate.check_at_once("alice").unwrap()?.is_allowed());
/// assert!(gate.check_at_once("alice").unwrap()?.is_denied());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl From<Limiter<AnyStore>> for Gate {
    fn from(limiter: Limiter<AnyStore>) -> Self {
        gate(limiter.store().as_ref().clone(), &limiter)
    }
}

/// Like that of a limiter in [`AnyStore`].
impl From<Limiter<MemoryStore>> for Gate {
    fn from(limiter: Limiter<MemoryStore>) -> Self {
        gate(AnyStore::Memory(Arc::clone(limiter.store())), &limiter)
    }
}

/// Like that of a limiter in [`AnyStore`].
#[cfg(feature = "redis")]
impl From<Limiter<RedisStore>> for Gate {
    fn from(limiter: Limiter<RedisStore>) -> Self {
        gate(AnyStore::Redis(limiter.store().as_ref().clone()), &limiter)
    }
}

fn gate<S: Store>(store: AnyStore, limiter: &Limiter<S>) -> Gate {
    let mut config = LimitConfig::new(limiter.limit().clone());
    config.on_store_failure = limiter.on_store_failure();
    let registry = Registry::builder(store).observers(limiter.observers().clone()).build();
    // The gate holds the limit itself, not its name: a gate of another registry can be joined.
    registry.inline(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ask, Limit};

    #[test]
    fn limits_together_keep_a_key_each() {
        let limit = |name: &str| crate::limit(name, ["gcra 1/min"]).unwrap();
        let login = Limit::together([limit("address"), limit("account")]).unwrap();
        let limiter = Limiter::new(MemoryStore::builder().build(), login);
        let ask = || Ask::new("192.0.2.7").and(Ask::new("alice"));
        assert!(limiter.try_check(ask()).unwrap().is_allowed());
        let gate = Gate::from(limiter);
        assert_eq!(gate.name(), "address + account");
        assert!(gate.check_at_once(ask()).unwrap().unwrap().is_denied());
        let other = Ask::new("192.0.2.8").and(Ask::new("bob"));
        assert!(gate.check_at_once(other).unwrap().unwrap().is_allowed());
    }

    #[test]
    fn limiters_of_one_store_are_decided_together_and_those_of_two_never() {
        let store = Arc::new(MemoryStore::builder().build());
        let gate = |store: &Arc<MemoryStore>, name: &str| {
            let limit = crate::limit(name, ["gcra 1/min"]).unwrap();
            Gate::from(Limiter::shared(Arc::clone(store), limit).build())
        };
        let both = gate(&store, "address").and(gate(&store, "account"));
        let ask = || Ask::new("192.0.2.7").and(Ask::new("alice"));
        assert!(both.check_at_once(ask()).unwrap().unwrap().is_allowed());
        assert!(gate(&store, "account").check_at_once("alice").unwrap().unwrap().is_denied());

        let other = Arc::new(MemoryStore::builder().build());
        let apart = gate(&store, "address").and(gate(&other, "account"));
        let error = apart.check_at_once(ask()).unwrap().unwrap_err();
        assert_eq!(
            error.to_string(),
            "limits `address` and `account` have different stores: what is decided together is counted in one"
        );
    }
}
