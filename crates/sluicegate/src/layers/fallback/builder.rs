//! Configures a fallback.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{Clock, Span, Store};
use sluicegate_memory::{MemoryStore, Overflow};

use super::absence::Absences;
use super::census::Census;
use super::debts::Debts;
use super::event::{FallbackEvent, OnChange};
use super::shared::{Counts, Shared};
use super::{Fallback, Processes};
use crate::layers::SuspendAwareClock;

/// A builder of a [`Fallback`].
#[must_use = "a builder does nothing until `build`"]
pub struct FallbackBuilder<S> {
    store: S,
    processes: Processes,
    interval: Span,
    most: usize,
    serves: bool,
    clock: Option<Arc<dyn Clock>>,
    local: Option<MemoryStore>,
    on_change: Option<Arc<OnChange>>,
}

impl<S: Store> FallbackBuilder<S> {
    pub(super) fn new(store: S, processes: Processes) -> Self {
        Self {
            store,
            processes,
            interval: Span::from_millis(10_000).unwrap_or(Span::MINUTE),
            most: 1_000_000,
            serves: true,
            clock: None,
            local: None,
            on_change: None,
        }
    }

    /// Sets the maximum number of keys with pending charges, each at about 150 bytes. Beyond that, requests about other
    /// keys fail like the store. Default: 1,000,000.
    pub const fn most(mut self, most: usize) -> Self {
        self.most = most;
        self
    }

    /// Sets how often [counted](Processes::Counted) processes renew their entries. Default: 10 s. A process that ends
    /// is counted for three more intervals.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval.into();
        self
    }

    /// Sets the store of the local limiter. Default: one with the caps that an embedded store has, which denies new
    /// keys beyond them.
    pub fn local(mut self, local: MemoryStore) -> Self {
        self.local = Some(local);
        self
    }

    /// Sets whether it serves limits that are opened without [`FallsBack`](crate::layers::FallsBack). Default: yes.
    pub const fn by_default(mut self, serves: bool) -> Self {
        self.serves = serves;
        self
    }

    /// Sets one clock for tests, for measuring outages and for the default local limiter. By default outages are
    /// measured by a [`SuspendAwareClock`], and the local limiter uses the wall clock
    /// ([`SystemClock`](crate::testing::SystemClock)), like every embedded store.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Sets a function that is called whenever the local limiter takes over for a store, and when the store has
    /// recovered. It runs on the thread of the request that noticed. Changes are always logged.
    pub fn on_change(mut self, tell: impl Fn(&FallbackEvent) + Send + Sync + 'static) -> Self {
        self.on_change = Some(Arc::new(tell));
        self
    }

    /// Builds the store.
    #[must_use]
    pub fn build(self) -> Fallback<S> {
        let Self { store, processes, interval, most, serves, clock, local, on_change } = self;
        let memory = local.unwrap_or_else(|| {
            let builder = MemoryStore::builder().overflow(Overflow::Deny);
            match &clock {
                Some(clock) => builder.clock(Arc::clone(clock)).build(),
                None => builder.build(),
            }
        });
        let clock = clock.unwrap_or_else(|| Arc::new(SuspendAwareClock::new()));
        let census = match processes {
            Processes::Number(_) => None,
            Processes::Counted => Census::new(&store, interval).map(Arc::new),
        };
        let shared = Shared {
            store: store.id(),
            clock,
            on_change,
            processes,
            census,
            memory,
            debts: Arc::new(Debts::new(most)),
            absences: Absences::default(),
            counts: Counts::default(),
        };
        Fallback { store: Arc::new(store), shared: Arc::new(shared), serves }
    }
}

impl<S: Store> fmt::Debug for FallbackBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FallbackBuilder")
            .field("store", &self.store.id())
            .field("processes", &self.processes)
            .finish_non_exhaustive()
    }
}
