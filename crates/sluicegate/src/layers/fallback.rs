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

/// How many processes share the limits of a [`Fallback`].
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Processes {
    /// So many. More that run admit more.
    Number(NonZeroU16),
    /// As many as there are: each of them keeps an entry in the store while it is there, at two calls
    /// in ten seconds. A process that starts while the store is away doesn't know, and fails.
    Counted,
}

/// A store beside which a local limiter stands: while the store fails, requests are decided in this
/// process with its share of each limit. What was admitted so is charged when the store is back, for
/// each key before anything is answered about it.
///
/// The share of n processes is 1/n of every rate, burst, capacity, queue and limit, rounded down, but
/// what admitted one request at the policy's own cost still does. Its decisions have the source
/// [`Source::Fallback`](crate::decision::Source::Fallback), and are about a limit with these numbers. Checks, peeks, partial grants and
/// reservations are decided; what was used already, or is to be given back, fails as the store does,
/// and so does everything about a limit under injected time. Reservations that were made here can't be
/// cancelled. A cost above the share fails too.
///
/// Any failure of the store counts, also that it has too much to do: such a store still admits others,
/// so that up to the limit and the shares pass together.
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
    /// Returns a store beside which a limiter with the share of one of `processes` stands.
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
