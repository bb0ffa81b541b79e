//! The stores of a registry.

use std::sync::Arc;

use sluicegate_core::Span;

use crate::any_store::{AnyStore, OpenError, StoreOptions};
use crate::config::{Config, StoreUrl};

/// The stores of a registry, at least one.
///
/// A store has one deadline for all its calls: limits with the same one share a store. The embedded
/// store never waits, and its state is its own: there is one.
#[derive(Debug)]
pub(super) struct Stores {
    /// Where they come from; `None` where the registry was given its store.
    source: Option<(StoreUrl, StoreOptions)>,
    first: (Span, Arc<AnyStore>),
    others: Vec<(Span, Arc<AnyStore>)>,
}

impl Stores {
    pub(super) fn given(store: AnyStore) -> Self {
        Self { source: None, first: (Config::DEADLINE, Arc::new(store)), others: Vec::new() }
    }

    pub(super) fn of(config: &Config) -> Result<Self, OpenError> {
        let options = StoreOptions::from(config);
        let deadline = config.limits.first().map_or(Config::DEADLINE, |limit| limit.deadline);
        let first = open(&config.store, &options, deadline)?;
        let source = Some((config.store.clone(), options));
        Ok(Self { source, first: (deadline, first), others: Vec::new() })
    }

    pub(super) const fn are_given(&self) -> bool {
        self.source.is_none()
    }

    /// The store of limits with this deadline. Connects to nothing.
    pub(super) fn with_deadline(&mut self, deadline: Span) -> Result<Arc<AnyStore>, OpenError> {
        let Some((url @ StoreUrl::Redis(_), options)) = &self.source else {
            return Ok(Arc::clone(&self.first.1));
        };
        let mut known = std::iter::once(&self.first).chain(&self.others);
        if let Some((_, store)) = known.find(|(known, _)| *known == deadline) {
            return Ok(Arc::clone(store));
        }
        let store = open(url, options, deadline)?;
        self.others.push((deadline, Arc::clone(&store)));
        Ok(store)
    }

    /// The same, or another store where there can't be one of its own.
    pub(super) fn near_deadline(&mut self, deadline: Span) -> Arc<AnyStore> {
        self.with_deadline(deadline).unwrap_or_else(|_| Arc::clone(&self.first.1))
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<AnyStore> {
        let known = std::iter::once(&self.first).chain(&self.others);
        known.map(|(_, store)| store.as_ref().clone()).collect()
    }

    /// Lets go of the stores that no limit has.
    pub(super) fn forget_unused(&mut self) {
        let is_used = |store: &(Span, Arc<AnyStore>)| Arc::strong_count(&store.1) > 1;
        self.others.retain(is_used);
        if !is_used(&self.first) && !self.others.is_empty() {
            self.first = self.others.swap_remove(0);
        }
    }
}

fn open(
    url: &StoreUrl,
    options: &StoreOptions,
    deadline: Span,
) -> Result<Arc<AnyStore>, OpenError> {
    let options = StoreOptions { deadline: deadline.into(), ..options.clone() };
    AnyStore::open(url, &options).map(Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stores(url: &str) -> Stores {
        let text = format!("store: \"{url}\"\nlimits: {{a: {{policies: [gcra 1/s]}}}}");
        Stores::of(&Config::parse(&text, "c.yaml").unwrap()).unwrap()
    }

    #[test]
    fn the_embedded_store_is_one_whatever_the_deadline() {
        let mut stores = stores("memory:");
        let one = stores.with_deadline(Span::SECOND).unwrap();
        assert!(Arc::ptr_eq(&one, &stores.with_deadline(Span::MINUTE).unwrap()));
        drop(one);
        stores.forget_unused();
        assert_eq!(stores.all().len(), 1);
    }

    #[test]
    #[cfg(feature = "redis")]
    fn each_deadline_has_a_store_as_long_as_somebody_uses_it() {
        let mut stores = stores("redis://127.0.0.1:1");
        let (one, other) = (
            stores.with_deadline(Span::SECOND).unwrap(),
            stores.with_deadline(Span::MINUTE).unwrap(),
        );
        assert!(!Arc::ptr_eq(&one, &other));
        assert!(Arc::ptr_eq(&one, &stores.with_deadline(Span::SECOND).unwrap()));
        assert_eq!(stores.all().len(), 3);
        stores.forget_unused();
        assert_eq!(stores.all().len(), 2, "that of 50 ms is nobody's");
        drop((one, other));
        stores.forget_unused();
        assert_eq!(stores.all().len(), 1);
    }
}
