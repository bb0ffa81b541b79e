//! Observing every answer.

use std::borrow::Cow;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sluicegate_core::{Costs, Decision, Error, Limit, LimitName, Operation, StoreError};
use tokio::time::Instant;

#[cfg(feature = "config")]
use crate::config_file::{LimitConfig, MetricsConfig};
use crate::store_health::StoreHealth;
use crate::store_room::StoreRoom;

/// A callback that sees every answer of the limiters it is added to.
///
/// A request that waits has one answer, which its caller gets, regardless of how often it called the store until then.
///
/// It can't change a decision: it runs after the answer is final, and its panics are caught. It runs on the caller's
/// thread, so move slow work to another thread.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use sluicegate::{Limiter, MemoryStore};
/// use sluicegate::admin::{Answered, Observer};
///
/// #[derive(Default)]
/// struct Denials(AtomicU64);
///
/// impl Observer for Denials {
///     fn answered(&self, answered: &Answered<'_>) {
///         if answered.outcome.is_ok_and(|decision| decision.is_denied()) {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
///
/// let denials = Arc::new(Denials::default());
/// let limit = sluicegate::Limit::new("login", ["gcra 1/s burst 1"])?;
/// let limiter = Limiter::builder(MemoryStore::new(), limit)
///     .observer(denials.clone())
///     .build();
/// for _ in 0..3 {
///     let _ = limiter.check("alice").now()?;
/// }
/// assert_eq!(denials.0.load(Ordering::Relaxed), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Observer: Send + Sync + 'static {
    /// Called after every answer.
    fn answered(&self, answered: &Answered<'_>);

    /// Called after every attempt to settle or renew a hold, or to cancel a reservation. Does nothing by default.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use std::time::Duration;
    /// use sluicegate::{Ask, Limiter, MemoryStore, Outcome, Usage};
    /// use sluicegate::admin::{Answered, Observer, Settled};
    ///
    /// #[derive(Default)]
    /// struct GivenBack(AtomicU64);
    ///
    /// impl Observer for GivenBack {
    ///     fn answered(&self, _: &Answered<'_>) {}
    ///
    ///     fn settled(&self, settled: &Settled<'_>) {
    ///         let policies = settled.outcome.iter().flat_map(|decision| decision.policies());
    ///         let units = policies.filter_map(|policy: Outcome<'_>| policy.given_back()).sum();
    ///         self.0.fetch_add(units, Ordering::Relaxed);
    ///     }
    /// }
    ///
    /// let observer = Arc::new(GivenBack::default());
    /// let limit = sluicegate::Limit::new("llm", ["fixed_window 9000/h as tokens"])?;
    /// let limiter = Limiter::builder(MemoryStore::new(), limit).observer(observer.clone()).build();
    /// let grant = limiter.check(Ask::new("acme").cost(1_000)).hold(Duration::from_secs(60)).now()?;
    /// limiter.settle(grant.token().unwrap(), Usage::of("tokens", 412)).now()?;
    /// assert_eq!(observer.0.load(Ordering::Relaxed), 588);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn settled(&self, settled: &Settled<'_>) {
        let _ = settled;
    }

    /// Called after a client has reported decisions that it made by itself, with a share of the limit's rate. Does nothing
    /// by default.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use sluicegate::admin::{Answered, Observer};
    /// use sluicegate::store::Counted;
    /// use sluicegate::{Limit, MemoryStore, Registry};
    ///
    /// #[derive(Default)]
    /// struct Admitted(AtomicU64);
    ///
    /// impl Observer for Admitted {
    ///     fn answered(&self, _: &Answered<'_>) {}
    ///
    ///     fn reported(&self, _: &Limit, allowed: u64, _: u64) {
    ///         self.0.fetch_add(allowed, Ordering::Relaxed);
    ///     }
    /// }
    ///
    /// let admitted = Arc::new(Admitted::default());
    /// let registry = Registry::builder(MemoryStore::new())
    ///     .limit(Limit::new("fleet", ["gcra 100/s"])?)
    ///     .observer(admitted.clone())
    ///     .build();
    /// let Counted::By(edge) = registry.gate("fleet").counted("edge")? else { panic!("it is on no list") };
    /// edge.report(90, 3);
    /// assert_eq!(admitted.0.load(Ordering::Relaxed), 90);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn reported(&self, limit: &Limit, allowed: u64, denied: u64) {
        let _ = (limit, allowed, denied);
    }

    /// Called when a request that could [wait](crate::question::Question::within) has its answer, after
    /// [`Observer::answered`]. It took this time, most of which it may have waited. Does nothing by default.
    ///
    /// A caller that stops waiting gets no answer, and isn't reported.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use std::time::Duration;
    /// use sluicegate::{Limit, Limiter, MemoryStore};
    /// use sluicegate::admin::{Answered, Observer};
    ///
    /// #[derive(Default)]
    /// struct LongWaits(AtomicU64);
    ///
    /// impl Observer for LongWaits {
    ///     fn answered(&self, _: &Answered<'_>) {}
    ///
    ///     fn waited(&self, _: &Limit, took: Duration) {
    ///         self.0.fetch_add(u64::from(took > Duration::from_millis(500)), Ordering::Relaxed);
    ///     }
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?.block_on(async {
    /// let observer = Arc::new(LongWaits::default());
    /// let limit = Limit::new("mail", ["gcra 1/s"])?;
    /// let limiter = Limiter::builder(MemoryStore::new(), limit).observer(observer.clone()).build();
    /// for _ in 0..2 {
    ///     assert!(limiter.check("smtp").within(Duration::from_secs(5)).await?.is_allowed());
    /// }
    /// assert_eq!(observer.0.load(Ordering::Relaxed), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn waited(&self, limit: &Limit, took: Duration) {
        let _ = (limit, took);
    }

    /// Called when the limits of a [`Registry`](crate::Registry) change, before the change takes effect: first while
    /// the registry is built, then for each new configuration. Does nothing by default.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use sluicegate::{MemoryStore, Registry};
    /// use sluicegate::admin::{Answered, Configured, Observer};
    ///
    /// #[derive(Default)]
    /// struct Names(Mutex<Vec<String>>);
    ///
    /// impl Observer for Names {
    ///     fn answered(&self, _: &Answered<'_>) {}
    ///
    ///     fn configured(&self, configured: &Configured<'_>) {
    ///         let names = configured.limits.iter().map(|config| config.limit.name().to_string());
    ///         *self.0.lock().unwrap() = names.collect();
    ///     }
    /// }
    ///
    /// let names = Arc::new(Names::default());
    /// let registry = Registry::builder(MemoryStore::new())
    ///     .limit(sluicegate::Limit::new("login", ["gcra 5/min"])?)
    ///     .observer(names.clone())
    ///     .build();
    /// assert_eq!(*names.0.lock().unwrap(), ["login"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "config")]
    fn configured(&self, configured: &Configured<'_>) {
        let _ = configured;
    }
}

/// An answer, for an [`Observer`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Answered<'a> {
    /// The limit that was asked. For several that were decided together, the limit that joins them: its name
    /// depends on the caller, so take the names from [`Answered::parts`].
    pub limit: &'a Limit,
    /// The keys, one for each of [`Limit::parts`].
    pub keys: &'a [&'a [u8]],
    /// The limits that the caller also named and that weren't asked, each with its key. They are off, or the key is on
    /// their allow list.
    pub unasked: &'a [(LimitName, Cow<'a, [u8]>)],
    /// The operation.
    pub operation: Operation<'a>,
    /// The costs of the request under the policies of `limit`.
    pub costs: Costs<'a>,
    /// The answer that the caller gets.
    pub outcome: Result<&'a Decision, &'a Error>,
    /// The store's failure, even if `on_store_failure` turned it into a decision.
    pub failure: Option<&'a StoreError>,
    /// The instant of the answer.
    pub at: std::time::Instant,
    /// The time that the store took to answer.
    pub took: Duration,
}

impl<'a> Answered<'a> {
    /// Returns the limits that were decided together, each with its own key; usually one.
    ///
    /// The configuration chooses the names, and clients choose the keys. So never use a key as the label of
    /// a metric. [`Decision::binding_limit`], [`Decision::binding_of`] and [`Decision::is_refused_by`] tell
    /// which of the limits refused.
    #[must_use]
    pub fn parts(
        &self,
    ) -> impl ExactSizeIterator<Item = (&'a LimitName, &'a [u8])> + Clone + use<'a> {
        self.limit.parts().iter().zip(self.keys.iter().copied())
    }

    /// Returns whether the request asked for admission: a check, a reservation, or a grant of up to a number of units.
    #[must_use]
    pub const fn is_admission(&self) -> bool {
        matches!(self.operation, Operation::Check | Operation::Reserve { .. } | Operation::Take)
    }
}

/// The limits of a registry, for an [`Observer`].
#[cfg(feature = "config")]
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Configured<'a> {
    /// The limits up to now; empty while the registry is built.
    pub before: &'a [Arc<LimitConfig>],
    /// The limits from now on: those of the configuration in its order, then those given in code.
    pub limits: &'a [Arc<LimitConfig>],
    /// The settings for metrics from now on.
    pub metrics: &'a MetricsConfig,
}

/// An attempt to settle or renew a hold, or to cancel a reservation, for an [`Observer`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Settled<'a> {
    /// The limit that was asked; for several that were decided together, the limit that joins them.
    pub limit: &'a Limit,
    /// The keys, one for each of [`Limit::parts`].
    pub keys: &'a [&'a [u8]],
    /// [`Operation::Settle`], [`Operation::Renew`] or [`Operation::Cancel`].
    pub operation: Operation<'a>,
    /// The answer that the caller gets.
    pub outcome: Result<&'a Decision, &'a Error>,
    /// The store's failure.
    pub failure: Option<&'a StoreError>,
    /// The instant of the answer.
    pub at: std::time::Instant,
    /// The time that the store took to answer.
    pub took: Duration,
}

/// The observers of a limiter, and our own, which logs whether the store answers. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Observers {
    /// `None` without observers, so that no clock is read.
    added: Option<Arc<[Arc<dyn Observer>]>>,
    store_health: Arc<StoreHealth>,
    panics: Arc<AtomicU64>,
    store_room: Arc<StoreRoom>,
}

impl Observers {
    pub(crate) fn push(&mut self, observer: Arc<dyn Observer>) {
        let known = self.added.iter().flat_map(|known| known.iter().cloned());
        self.added = Some(known.chain([observer]).collect());
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.added.is_none()
    }

    /// Returns the time, if there are observers.
    #[inline]
    pub(crate) fn start(&self) -> Option<Instant> {
        self.added.as_ref().map(|_| Instant::now())
    }

    /// Returns the log of whether the store answers.
    #[inline]
    pub(crate) fn store_health(&self) -> &StoreHealth {
        &self.store_health
    }

    /// Notes whether the embedded store has denied a key for lack of memory.
    #[inline]
    pub(crate) fn note_room(&self, limit: &Limit, decision: &Decision) {
        if decision.is_store_full() {
            self.store_room.is_full(limit.name());
        } else {
            self.store_room.has_room();
        }
    }

    #[cold]
    pub(crate) fn tell(&self, answered: &Answered<'_>) {
        self.tell_each(|observer| observer.answered(answered));
    }

    #[cold]
    pub(crate) fn tell_settled(&self, settled: &Settled<'_>) {
        self.tell_each(|observer| observer.settled(settled));
    }

    /// Notifies observers of the end of a wait that began at `since`.
    pub(crate) fn tell_waited(&self, limit: &Limit, since: Instant) {
        if self.added.is_some() {
            let took = since.elapsed();
            self.tell_each(|observer| observer.waited(limit, took));
        }
    }

    #[cfg(feature = "config")]
    #[cold]
    pub(crate) fn tell_reported(&self, limit: &Limit, allowed: u64, denied: u64) {
        self.tell_each(|observer| observer.reported(limit, allowed, denied));
    }

    #[cfg(feature = "config")]
    #[cold]
    pub(crate) fn tell_configured(&self, configured: &Configured<'_>) {
        self.tell_each(|observer| observer.configured(configured));
    }

    fn tell_each(&self, tell: impl Fn(&dyn Observer)) {
        for observer in self.added.iter().flat_map(|added| added.iter()) {
            if catch_unwind(AssertUnwindSafe(|| tell(&**observer))).is_err() {
                self.panicked();
            }
        }
    }

    /// Logs the 1st, 2nd, 4th, 8th … panic: clients choose what an observer sees, and how often.
    #[cold]
    fn panicked(&self) {
        let count = self.panics.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if count.is_power_of_two() {
            tracing::error!("an observer panicked, {count} times so far; the answer is unchanged");
        }
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.added.as_ref().map_or(0, |added| added.len());
        f.debug_tuple("Observers").field(&count).finish()
    }
}
