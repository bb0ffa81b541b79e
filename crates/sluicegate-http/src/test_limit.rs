//! A limit in a store, for tests of responses.

use std::sync::Arc;

use sluicegate_core::{
    Costs, Decision, EmbeddedStore, Limit, ManualClock, Operation, Request, Span, Store, TimeSource,
};
use sluicegate_memory::MemoryStore;

pub(crate) struct TestLimit {
    pub(crate) limit: Limit,
    store: MemoryStore,
    handle: <MemoryStore as Store>::Handle,
    clock: Arc<ManualClock>,
}

pub(crate) fn limit(name: &str, policies: &[&str]) -> Limit {
    let policies = policies.iter().map(|spec| spec.parse().unwrap()).collect();
    Limit::new(name.parse().unwrap(), policies).unwrap()
}

impl TestLimit {
    pub(crate) fn new(policies: &[&str]) -> Self {
        Self::of(limit("l", policies))
    }

    pub(crate) fn of(limit: Limit) -> Self {
        let clock = Arc::new(ManualClock::default());
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let handle = store.open(Arc::new(limit.clone()), TimeSource::Store);
        Self { limit, store, handle, clock }
    }

    pub(crate) fn advance(&self, span: Span) {
        self.clock.advance(span);
    }

    pub(crate) fn check(&self, cost: u64) -> Decision {
        self.check_each(&vec![cost; self.limit.members().len()])
    }

    pub(crate) fn check_each(&self, costs: &[u64]) -> Decision {
        let request = Request {
            operation: Operation::Check,
            costs: Costs::Each(costs),
            also: &vec![&b"k"[..]; self.limit.parts().len() - 1],
            ..Request::check(b"k")
        };
        self.store.decide_now(&self.handle, request).unwrap()
    }
}
