//! Many requests at once, by one reading of the clock, which takes as long as a decision.

use sluicegate_core::{Decision, Request, StoreError};

use crate::handle::Handle;
use crate::store::MemoryStore;

impl MemoryStore {
    /// Answers many requests against one limit, in their order, by one reading of the clock.
    ///
    /// What is late by more than [`Builder::max_clock_back`](crate::Builder::max_clock_back) is
    /// judged as [`MemoryStore::decide_at`] says.
    ///
    /// `answer` is called with the index of each request and its answer. The requests are decided
    /// one by one: those of other threads may come in between.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use sluicegate_core::{Decision, Limit, Request, Store, TimeSource};
    /// use sluicegate_memory::MemoryStore;
    ///
    /// let limit = Limit::new("api".parse()?, vec!["gcra 1/s".parse()?])?;
    /// let store = MemoryStore::new();
    /// let api = store.open(Arc::new(limit), TimeSource::Store);
    /// let mut allowed = Vec::new();
    /// let requests = ["a", "b", "a"].map(|key| Request::check(key.as_bytes()));
    /// store.decide_many(&api, requests, |_, answer| {
    ///     allowed.push(answer.is_ok_and(Decision::is_allowed));
    /// });
    /// assert_eq!(allowed, [true, true, false]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn decide_many<'k>(
        &self,
        handle: &Handle,
        requests: impl IntoIterator<Item = Request<'k>>,
        mut answer: impl FnMut(usize, Result<&Decision, &StoreError>),
    ) {
        let now = self.now();
        for (index, request) in requests.into_iter().enumerate() {
            answer(index, self.decide_at(handle, request, now).as_ref());
        }
    }
}
