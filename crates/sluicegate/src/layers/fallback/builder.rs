//! Configures a fallback.

use std::fmt;
use std::sync::Arc;

use sluicegate_core::{Clock, Span, Store};
use sluicegate_memory::{MemoryStore, Overflow};

use super::absence::Absences;
use super::census::Census;
use super::debts::Debts;
use super::event::{FallbackEvent, OnChange};
use super::shared::{Counts, Shared};
use super::{Fallback, Processes};
use crate::layers::SuspendAwareClock;

/// Configures and builds a [`Fallback`].
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

    /// How many keys may owe the store something at once, each at about 150 bytes; beyond that,
    /// requests about other keys fail as the store does. Default: 1,000,000.
    pub const fn most(mut self, most: usize) -> Self {
        self.most = most;
        self
    }

    /// How often processes that are [counted](Processes::Counted) say that they are there. Default:
    /// 10 s. One that ends is counted three times as long.
    pub fn interval(mut self, interval: impl Into<Span>) -> Self {
        self.interval = interval.into();
        self
    }

    /// Returns the store of the local limiter. Default: one with the caps that an embedded store has, which
    /// denies new keys beyond them.
    pub fn local(mut self, local: MemoryStore) -> Self {
        self.local = Some(local);
        self
    }

    /// Returns whether it stands in for limits that are opened without a word about it
    /// ([`FallsBack`](crate::layers::FallsBack)). Default: yes.
    pub const fn by_default(mut self, serves: bool) -> Self {
        self.serves = serves;
        self
    }

    /// Sets one clock for tests, which measures absences and by which the default local limiter decides. By default
    /// absences are measured by a [`SuspendAwareClock`], and the local limiter decides by the wall clock
    /// ([`SystemClock`](crate::testing::SystemClock)), as every embedded store does.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Is called whenever the store begins to be stood in for, and when it is back, on the thread of
    /// the request that saw it. Changes are logged in any case.
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
