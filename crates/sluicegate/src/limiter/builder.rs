//! What a limiter can be told before it is made.

use std::fmt;
use std::sync::Arc;

use sluicegate_core::{Limit, Store, TimeSource};

use super::Limiter;
use crate::config::OnStoreFailure;
use crate::observe::{Observer, Observers};

/// Makes a [`Limiter`].
#[must_use]
pub struct LimiterBuilder<S: Store> {
    store: Arc<S>,
    limit: Arc<Limit>,
    time: TimeSource,
    on_store_failure: OnStoreFailure,
    observers: Observers,
}

impl<S: Store> LimiterBuilder<S> {
    pub(super) fn new(store: Arc<S>, limit: Limit) -> Self {
        Self {
            store,
            limit: Arc::new(limit),
            time: TimeSource::Store,
            on_store_failure: OnStoreFailure::Error,
            observers: Observers::default(),
        }
    }

    /// Tells somebody of every answer; may be called several times.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    pub(crate) fn observers(mut self, observers: Observers) -> Self {
        self.observers = observers;
        self
    }

    /// What is answered when the store is slow, down or wrong; an error unless told.
    pub const fn on_store_failure(mut self, answer: OnStoreFailure) -> Self {
        self.on_store_failure = answer;
        self
    }

    /// Whose time requests are judged by; the store's unless told. With
    /// [`TimeSource::Injected`] every request has to carry its time ([`Ask::at`](crate::Ask::at)).
    pub fn time(mut self, time: TimeSource) -> Self {
        self.time = time;
        self
    }

    /// The limiter.
    #[must_use]
    pub fn build(self) -> Limiter<S> {
        let handle = Arc::new(self.store.open(Arc::clone(&self.limit), self.time));
        Limiter {
            store: self.store,
            handle,
            limit: self.limit,
            on_store_failure: self.on_store_failure,
            observers: self.observers,
        }
    }
}

impl<S: Store> fmt::Debug for LimiterBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimiterBuilder")
            .field("limit", &self.limit)
            .field("time", &self.time)
            .field("on_store_failure", &self.on_store_failure)
            .finish_non_exhaustive()
    }
}
