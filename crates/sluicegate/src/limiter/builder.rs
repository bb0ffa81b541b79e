//! Configures a limiter.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{Acknowledgement, Limit, OpenOptions, Store, TimeSource};

use super::namesake::Namesake;
use super::{Inner, Limiter};
use crate::layers::FallsBack;
use crate::numbers_cache::NumbersCache;
use crate::observe::{Observer, Observers};
use crate::on_store_failure::OnStoreFailure;

/// A builder of a [`Limiter`].
#[must_use]
pub struct LimiterBuilder<S: Store> {
    store: S,
    limit: Limit,
    options: OpenOptions,
    on_store_failure: OnStoreFailure,
    observers: Observers,
}

impl<S: Store> LimiterBuilder<S> {
    pub(super) fn new(store: S, limit: Limit) -> Self {
        Self {
            store,
            limit,
            options: OpenOptions::default(),
            on_store_failure: OnStoreFailure::Error,
            observers: Observers::default(),
        }
    }

    /// Adds an observer of every answer.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    pub(crate) fn observers(mut self, observers: Observers) -> Self {
        self.observers = observers;
        self
    }

    /// Sets the answer when the store is slow, down or wrong. Default: an error. Regardless of the answer, the log has
    /// one line when the store begins to fail, and one when it answers again.
    pub fn on_store_failure(mut self, answer: OnStoreFailure) -> Self {
        self.on_store_failure = answer;
        if matches!(answer, OnStoreFailure::Local) {
            self.options = self.options.layer(FallsBack(true));
        }
        self
    }

    /// Sets the clock that evaluates requests. Default: the store's. With [`TimeSource::Injected`] every request has to
    /// carry its time ([`Ask::at`](crate::Ask::at)).
    pub fn time(mut self, time: TimeSource) -> Self {
        self.options = self.options.time(time);
        self
    }

    /// Sets how long the store may take for one answer. Default: the store's own deadline.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.options = self.options.deadline(deadline);
        self
    }

    /// Sets how many replicas must acknowledge a decision before it counts. Default: none. A store without
    /// replicas ignores it.
    pub fn acknowledged(mut self, by: Acknowledgement) -> Self {
        self.options = self.options.acknowledged(by);
        self
    }

    pub(crate) fn options(mut self, options: OpenOptions) -> Self {
        self.options = options;
        self
    }

    /// Returns the limiter. The log has a line if another limiter of this name and store has only other algorithms,
    /// because their requests count apart.
    #[must_use]
    pub fn build(self) -> Limiter<S> {
        let namesake = Namesake::of(&self.store, &self.limit);
        self.open(Some(namesake))
    }

    /// Returns a limiter of a registry, which has each name once at a time.
    pub(crate) fn build_for_registry(self) -> Limiter<S> {
        self.open(None)
    }

    fn open(self, namesake: Option<Namesake>) -> Limiter<S> {
        let Self { store, limit, options, on_store_failure, observers } = self;
        let opened = store.open(limit, options.clone());
        let (store, by_numbers) = (Arc::new(store), NumbersCache::default());
        let inner = Inner {
            opened,
            store,
            options,
            on_store_failure,
            observers,
            by_numbers,
            _namesake: namesake,
        };
        Limiter { inner: Arc::new(inner) }
    }
}

impl<S: Store> fmt::Debug for LimiterBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimiterBuilder")
            .field("limit", &self.limit)
            .field("options", &self.options)
            .field("on_store_failure", &self.on_store_failure)
            .finish_non_exhaustive()
    }
}
