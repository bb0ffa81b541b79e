//! A limit in a store, for tests of responses.

use std::sync::Arc;

use sluicegate_core::{
    Clock as _, Costs, Decision, Limit, ManualClock, OpenOptions, Request, Span, Store as _,
    Timestamp,
};
use sluicegate_memory::{MemoryLimit, MemoryStore};

pub(crate) struct TestLimit {
    pub(crate) limit: Limit,
    opened: MemoryLimit,
    clock: Arc<ManualClock>,
}

pub(crate) fn limit(name: &str, policies: &[&str]) -> Limit {
    Limit::new(name, policies).unwrap()
}

impl TestLimit {
    pub(crate) fn new(policies: &[&str]) -> Self {
        Self::of(limit("l", policies))
    }

    pub(crate) fn of(limit: Limit) -> Self {
        let clock = Arc::new(ManualClock::default());
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let opened = store.open(limit.clone(), OpenOptions::default());
        Self { limit, opened, clock }
    }

    pub(crate) fn advance(&self, span: Span) {
        self.clock.advance(span.into());
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn check(&self, cost: u64) -> Decision {
        self.check_each(&vec![cost; self.limit.members().len()])
    }

    pub(crate) fn check_each(&self, costs: &[u64]) -> Decision {
        let further = vec![&b"k"[..]; self.limit.parts().len() - 1];
        let request = Request::check(b"k").costs(Costs::Each(costs)).also(&further);
        self.opened.decide(request).unwrap()
    }
}
