//! A key as its limit counts it, for protocols whose clients get a share of the limit.

use std::fmt;

use sluicegate_core::for_stores::{DecisionForStores as _, Lease, Leasing, Post, Posted};
use sluicegate_core::{
    Costs, Error, Limit, Operation, Purpose, Request, Source, StoreError, StoreErrorKind,
};

use super::super::route::Route;
use super::Gate;
use crate::ask::Ask;
use crate::limiter::Limiter;

/// The way in which a limit counts a key.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Counted {
    /// The key isn't counted: it is on an allow list, or the limit is off.
    Never,
    /// The key is on a block list.
    Blocked,
    /// The key is counted with these numbers.
    By(CountedKey),
}

/// A key with the numbers by which its limit counts it now.
#[derive(Clone)]
pub struct CountedKey {
    limiter: Limiter,
    key: Box<[u8]>,
}

/// The outcome of a request for a share of a limit's rate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Leased {
    /// The share is booked until the end of the lease.
    Granted(Lease),
    /// Nothing is booked and nothing was charged: too little is free, or the lease to carry on has ended.
    Nothing,
}

impl Gate {
    /// Returns the way in which the limit counts a key: its lists, and its numbers including overrides.
    ///
    /// ```
    /// use sluicegate::store::Counted;
    /// use sluicegate::{Config, Registry};
    ///
    /// let config = "\
    /// limits:
    ///   fleet:
    ///     policies: [gcra 100/s]
    ///     block: [mallory]
    ///     overrides: [{key: acme, times: 10}]
    /// ";
    /// let fleet = Registry::open(&Config::parse(config, "limits.yaml")?)?.gate("fleet");
    /// assert!(matches!(fleet.counted("mallory")?, Counted::Blocked));
    /// let Counted::By(acme) = fleet.counted("acme")? else { panic!("it is on no list") };
    /// assert_eq!(acme.limit().members()[0].policy().to_string(), "gcra 1000/s");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error for a key that doesn't fit the limit, for several limits, or for an unknown limit.
    pub fn counted<K: AsRef<[u8]> + ?Sized>(&self, key: &K) -> Result<Counted, Error> {
        let ask = Ask::new(key);
        let resolved = self.resolved();
        Ok(match resolved.route(&self.shared, &self.cell, &ask, Purpose::Admit)? {
            Route::Bypass(bypass) if bypass.is_allowed() => Counted::Never,
            Route::Bypass(_) => Counted::Blocked,
            Route::Ask(limiter, changed) => Counted::By(CountedKey {
                limiter: limiter.into_owned(),
                key: changed.as_ref().unwrap_or(&ask).key().into(),
            }),
        })
    }
}

impl CountedKey {
    /// Returns the limit with the numbers for this key.
    #[must_use]
    pub fn limit(&self) -> &Limit {
        self.limiter.limit()
    }

    /// Returns the key in the form in which the limit counts it.
    #[must_use]
    pub const fn key(&self) -> &[u8] {
        &self.key
    }

    /// Requests a lease with a [share](sluicegate_core::for_stores::Pace) of the rate. Observers don't see it.
    ///
    /// ```
    /// use sluicegate::store::{Counted, Leased, Leasing, Pace, Span};
    /// use sluicegate::{Config, Registry};
    ///
    /// let config = "limits: {fleet: {policies: [token_bucket 3600/h burst 1000]}}";
    /// let fleet = Registry::open(&Config::parse(config, "limits.yaml")?)?.gate("fleet");
    /// let Counted::By(edge) = fleet.counted("edge")? else { panic!("it is on no list") };
    /// let pace = Some(Pace { share: 250_000, least: 1, most: Pace::MOST, carried: None });
    /// let width = Span::from_millis(2_750)?;
    /// let leasing = Leasing { want: 60, width, tag: 77, reports: &[], pace };
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let Leased::Granted(lease) = edge.lease(&leasing).await? else { panic!("the whole rate is free") };
    /// assert_eq!((lease.times, lease.share), (60, 250_000));
    /// assert_eq!(fleet.peek("edge").await?.remaining(), Some(940));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the store fails, even if another answer is configured for that case. Also returns an error for
    /// a limit whose rate [can't be shared](Limit::can_pace).
    pub async fn lease(&self, leasing: &Leasing<'_>) -> Result<Leased, Error> {
        let request = Request::check(&self.key).costs(Costs::Each(&[0])).leasing(leasing);
        let decision = self.limiter.ask_unseen(request).await?;
        Ok(match decision.lease() {
            // A booking of a local fallback isn't known to other processes.
            _ if decision.source() == Source::Fallback => return Err(fallback().into()),
            Some(lease) => Leased::Granted(lease),
            None => Leased::Nothing,
        })
    }

    /// Returns whether the key is banned or paused, which a lease doesn't heed. Observers don't see it.
    ///
    /// # Errors
    /// Returns an error if the store fails, even if another answer is configured for that case.
    pub async fn is_refused(&self) -> Result<bool, Error> {
        let decision = self.limiter.ask_unseen(Request::new(Operation::Peek, &self.key)).await?;
        Ok(decision.pause().is_some() || decision.ban().is_some())
    }

    /// Puts an entry on the key's [board](sluicegate_core::for_stores::Post), if there is one, and returns the entries of
    /// all processes.
    ///
    /// # Errors
    /// Returns an error if the store fails or has no boards.
    pub async fn exchange(&self, post: Option<Post<'_>>) -> Result<Vec<Posted>, Error> {
        self.limiter.exchange(&self.key, post).await
    }

    /// Counts decisions that a client made by itself, in the metrics of the limit.
    pub fn report(&self, allowed: u64, denied: u64) {
        self.limiter.observers().tell_reported(self.limit(), allowed, denied);
    }
}

#[cold]
fn fallback() -> StoreError {
    StoreError::new(
        StoreErrorKind::Unavailable,
        "the store failed, so no share of the rate is booked",
    )
}

impl fmt::Debug for CountedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountedKey").field("limit", self.limit()).finish_non_exhaustive()
    }
}
