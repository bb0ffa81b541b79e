//! A gate from a limiter without a registry.

use std::sync::Arc;

use sluicegate_core::Store;

use super::super::Registry;
use super::Gate;
use crate::config_file::LimitConfig;
use crate::limiter::Limiter;

/// A gate for a limiter's limit in its store, such as for middleware. Requests are evaluated by the store's clock.
///
/// ```
/// use sluicegate::{Gate, Limiter, MemoryStore};
///
/// let limit = sluicegate::Limit::new("login", ["gcra 1/min burst 2"])?;
/// let limiter = Limiter::new(MemoryStore::new(), limit);
/// assert!(limiter.check("alice").now()?.is_allowed());
/// let gate = Gate::from(limiter);
/// assert!(gate.check("alice").now()?.is_allowed());
/// assert!(gate.check("alice").now()?.is_denied());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<S: Store> From<Limiter<S>> for Gate {
    fn from(limiter: Limiter<S>) -> Self {
        let mut config = LimitConfig::new(limiter.limit().clone());
        config.on_store_failure = limiter.on_store_failure();
        config.deadline = limiter.deadline();
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
        let limit = |name: &str| Limit::new(name, ["gcra 1/min"]).unwrap();
        let login = Limit::together([limit("address"), limit("account")]).unwrap();
        let limiter = Limiter::new(MemoryStore::new(), login);
        let ask = || Ask::new("192.0.2.7").and(Ask::new("alice"));
        assert!(limiter.check(ask()).now().unwrap().is_allowed());
        let gate = Gate::from(limiter);
        assert_eq!(gate.name(), "address + account");
        assert!(gate.check(ask()).now().unwrap().is_denied());
        let other = Ask::new("192.0.2.8").and(Ask::new("bob"));
        assert!(gate.check(other).now().unwrap().is_allowed());
    }
}
