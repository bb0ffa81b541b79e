//! Many requests at once: one reading of the clock, and keys hashed ahead of their decisions.

use smallvec::SmallVec;

use tollgate_core::{Decision, Request, StoreError};

use crate::fingerprint::Fingerprint;
use crate::handle::Handle;
use crate::store::MemoryStore;

impl MemoryStore {
    /// Answers many requests against one limit, in their order, by one reading of the clock.
    ///
    /// `answer` is called with the index of each request and its answer. The requests are
    /// decided one by one: other threads may come in between.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate_core::{Limit, Request, Store, TimeSource};
    /// use tollgate_memory::MemoryStore;
    ///
    /// let limit = Limit::new("api".parse()?, vec!["gcra 1/s".parse()?])?;
    /// let store = MemoryStore::new();
    /// let api = store.open(Arc::new(limit), TimeSource::Store);
    /// let mut allowed = Vec::new();
    /// let requests = ["a", "b", "a"].map(|key| Request::check(key.as_bytes()));
    /// store.decide_many(&api, requests, |_, answer| {
    ///     allowed.push(answer.is_ok_and(|decision| decision.is_allowed()));
    /// });
    /// assert_eq!(allowed, [true, true, false]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn decide_many<'k>(
        &self,
        handle: &Handle,
        requests: impl IntoIterator<Item = Request<'k>>,
        mut answer: impl FnMut(usize, Result<Decision, StoreError>),
    ) {
        let now = self.now();
        let mut requests = requests.into_iter();
        let mut index = 0;
        loop {
            // The misses that reading the keys costs overlap.
            let ahead: SmallVec<[(Request<'k>, Fingerprint); AHEAD]> = requests
                .by_ref()
                .take(AHEAD)
                .map(|request| (request, self.fingerprint(request.key)))
                .collect();
            if ahead.is_empty() {
                return;
            }
            for (request, fingerprint) in &ahead {
                answer(index, Self::decide_known(handle, request, *fingerprint, now));
                index += 1;
            }
        }
    }
}

/// How many keys are hashed before the first of them is decided.
const AHEAD: usize = 16;
