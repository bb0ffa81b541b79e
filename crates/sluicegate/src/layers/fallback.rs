//! A fallback: while a store fails, a local limiter with a share of each limit answers.

mod absence;
mod asking;
mod builder;
mod census;
mod debts;
mod event;
mod local;
mod opened;
mod settle;
mod share;
mod shared;

use std::num::NonZeroU16;
use std::sync::Arc;

use sluicegate_core::{
    BoxFuture, Limit, Measure, OpenOptions, Store, StoreError, StoreId, TimeSource,
};

use super::layer::show_briefly;
use super::options::FallsBack;
use local::Local;
use shared::Shared;

pub use builder::FallbackBuilder;
pub use event::{FallbackChange, FallbackEvent};
pub use opened::FallbackLimit;

/// The number of processes that share the limits of a [`Fallback`].
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Processes {
    /// A fixed number of processes. If more run, together they admit more than the limit.
    Number(NonZeroU16),
    /// The number of running processes. Each keeps an entry in the store, at two calls in ten seconds. A process that
    /// starts while the store is down doesn't know the number, so its requests fail.
    Counted,
}

/// A store with a local limiter next to it.
///
/// While the store fails, requests are decided in this process with its share of each limit. When the store has
/// recovered, the units that were admitted are charged, for each key before the next answer about it.
///
/// The share of n processes is 1/n of every rate, burst, capacity, queue and limit, rounded down. A number that admits
/// one request at the policy's own cost still does. Decisions have the source
/// [`Source::Fallback`](crate::decision::Source::Fallback), and are about a limit with these numbers.
///
/// Checks, peeks, takes and reservations are decided locally. Charges, refunds and everything about a limit
/// under injected time fail like the store. A request with a cost above the share fails too. Reservations that were
/// made locally can't be cancelled.
///
/// Any failure of the store counts, even `Overloaded`. An overloaded store still admits other requests, so in total up
/// to the limit plus the shares pass.
///
/// ```
/// use std::num::NonZeroU16;
/// use sluicegate::layers::{Breaker, Fallback, Processes};
/// use sluicegate::{Limiter, RedisStore};
///
/// let redis = RedisStore::builder("redis://127.0.0.1:6379")?.build();
/// let four = Processes::Number(NonZeroU16::new(4).unwrap());
/// let store = Fallback::new(Breaker::new(redis), four);
/// let limiter = Limiter::new(store, sluicegate::Limit::new("login", ["gcra 20/min"])?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Fallback<S: Store> {
    store: Arc<S>,
    shared: Arc<Shared<S::Opened>>,
    serves: bool,
}

impl<S: Store> Fallback<S> {
    /// Makes a store with a local limiter that has the share of one of `processes`.
    pub fn new(store: S, processes: Processes) -> Self {
        Self::builder(store, processes).build()
    }

    /// Configures a fallback.
    pub fn builder(store: S, processes: Processes) -> FallbackBuilder<S> {
        FallbackBuilder::new(store, processes)
    }
}

impl<S: Store> Store for Fallback<S> {
    type Opened = FallbackLimit<S::Opened>;

    fn inner(&self) -> Option<&dyn Store> {
        Some(&*self.store)
    }

    fn id(&self) -> StoreId {
        self.store.id()
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> Self::Opened {
        let wanted = options.for_layer::<FallsBack>();
        let serves = wanted.map_or(self.serves, |wanted| wanted.0)
            && matches!(options.time, TimeSource::Store);
        let local = serves.then(|| Local::new(self.shared.memory.clone(), limit.clone()));
        let is_joint = limit.parts().len() > 1;
        let parts = if is_joint && serves { local::parts_of(&limit) } else { Vec::new() };
        let parts: Vec<_> = parts
            .into_iter()
            .map(|part| Arc::new(self.store.open(part, options.clone())))
            .collect();
        let opened = Arc::new(self.store.open(limit, options));
        if let (true, Some(census)) = (serves, &self.shared.census) {
            census.keep();
        }
        FallbackLimit {
            parts: if is_joint { parts.into() } else { Box::new([Arc::clone(&opened)]) },
            opened,
            shared: Arc::clone(&self.shared),
            local,
        }
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.store.ping()
    }

    fn measures(&self) -> Vec<Measure> {
        self.store.measures().into_iter().chain(self.shared.measures()).collect()
    }

    fn maintain(&self) {
        self.store.maintain();
        self.shared.memory.sweep_some();
    }
}

impl<S: Store> Clone for Fallback<S> {
    fn clone(&self) -> Self {
        let Self { store, shared, serves } = self;
        Self { store: Arc::clone(store), shared: Arc::clone(shared), serves: *serves }
    }
}

show_briefly!(Fallback, FallbackLimit);
