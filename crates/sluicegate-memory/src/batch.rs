//! Many requests at once, by one reading of the clock, which takes as long as a decision.

use sluicegate_core::{Decision, Error, Request};

use crate::opened::MemoryLimit;

impl MemoryLimit {
    /// Answers many requests in their order, by one reading of the clock.
    ///
    /// What is late by more than [`Builder::max_clock_back`](crate::Builder::max_clock_back) is
    /// judged as [`MemoryLimit::decide_at`] says.
    ///
    /// `answer` is called with the index of each request and its answer. The requests are decided
    /// one by one: those of other threads may come in between.
    ///
    /// ```
    /// use sluicegate_core::{Decision, Limit, OpenOptions, Request, Store};
    /// use sluicegate_memory::MemoryStore;
    ///
    /// let limit = Limit::new("api".parse()?, vec!["gcra 1/s".parse()?])?;
    /// let api = MemoryStore::new().open(limit, OpenOptions::default());
    /// let mut allowed = Vec::new();
    /// let requests = ["a", "b", "a"].map(|key| Request::check(key.as_bytes()));
    /// api.decide_many(requests, |_, answer| {
    ///     allowed.push(answer.is_ok_and(Decision::is_allowed));
    /// });
    /// assert_eq!(allowed, [true, true, false]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn decide_many<'k>(
        &self,
        requests: impl IntoIterator<Item = Request<'k>>,
        mut answer: impl FnMut(usize, Result<&Decision, &Error>),
    ) {
        let now = self.store().now();
        for (index, request) in requests.into_iter().enumerate() {
            answer(index, self.decide_at(request, now).as_ref());
        }
    }
}
