//! What is in flight, listed and ended by whoever looks after a service.

use std::future::Future;

use sluicegate_core::{
    Decision, Error, HoldId, Holders, OpenedLimit as _, Page, Request, Store, Used,
};

use super::Limiter;
use crate::ask::Ask;

impl<S: Store> Limiter<S> {
    /// A page of those who have something in flight of a key, in the order of their ends, which the store
    /// reads as of now: only a limit with a `concurrency` policy has such a list. It is for whoever looks
    /// after a service: no request needs it.
    ///
    /// ```
    /// use sluicegate::{Limiter, MemoryStore, Page};
    ///
    /// let limiter = Limiter::new(MemoryStore::new(), sluicegate::limit("jobs", ["concurrency 9 hold 30s"])?);
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let permits = [limiter.permit("acme").await?, limiter.permit("acme").await?];
    /// let first = limiter.holders("acme", Page::of(1)?).await?;
    /// let next = first.next().expect("there is one more");
    /// let rest = limiter.holders("acme", Page::of(1)?.after(next)).await?;
    /// assert_eq!(first.holders()[0].units_of("concurrency"), 1);
    /// assert_eq!((rest.holders().len(), rest.next()), (1, None));
    /// # drop(permits);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`RequestErrorKind::Unsupported`](crate::RequestErrorKind::Unsupported) for a limit that counts
    /// nothing in flight, for several limits that are decided together, and for a store that has no such
    /// list; `Invalid` for a page that begins where no page of such a list ended. Also if the store failed:
    /// `on_store_failure` doesn't apply.
    pub fn holders<'a>(
        &'a self,
        ask: impl Into<Ask<'a>>,
        page: Page<'a>,
    ) -> impl Future<Output = Result<Holders, Error>> + Send + 'a {
        let ask = ask.into();
        async move { self.list_holders(&ask, page).await }
    }

    pub(crate) async fn list_holders(
        &self,
        ask: &Ask<'_>,
        page: Page<'_>,
    ) -> Result<Holders, Error> {
        let page = page.at(ask.time().or(page.time()));
        self.noted(self.inner.opened.holders(ask.key(), page).await)
    }

    /// Ends what a request holds of a key, by the id that [a list](Limiter::holders) shows and without its
    /// token: for whoever looks after a service. What is in flight no longer is, and the rest stays charged.
    /// Its holder is told when it next renews or settles it, for then nothing is held.
    ///
    /// The decision is like that of [`Limiter::settle`]; it is denied if there was nothing of that id.
    ///
    /// ```
    /// use sluicegate::{HoldFound, Limiter, MemoryStore, Page};
    ///
    /// let limiter = Limiter::new(MemoryStore::new(), sluicegate::limit("jobs", ["concurrency 1 hold 30s"])?);
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let stuck = limiter.permit("acme").await?;
    /// assert!(limiter.permit("acme").await?.is_denied());
    /// let id = limiter.holders("acme", Page::first()).await?.holders()[0].id();
    /// let ended = limiter.end("acme", id).await?;
    /// assert_eq!(ended.hold_found(), Some(HoldFound::Live));
    /// assert!(limiter.permit("acme").await?.is_allowed());
    /// # drop(stuck);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`RequestErrorKind::Invalid`](crate::RequestErrorKind::Invalid) if there isn't one key per limit.
    /// Also if the store failed: `on_store_failure` doesn't apply.
    pub fn end<'a>(
        &'a self,
        ask: impl Into<Ask<'a>>,
        id: HoldId,
    ) -> impl Future<Output = Result<Decision, Error>> + Send + 'a {
        let ask = ask.into();
        async move { self.end_by(&ask, id).await }
    }

    pub(crate) async fn end_by(&self, ask: &Ask<'_>, id: HoldId) -> Result<Decision, Error> {
        let also = ask.also();
        // As a release: who ends it doesn't know what was used.
        let release = Request::settle(ask.key(), id, Used::AsCharged);
        self.go_by_record(release.also(&also).at(ask.time())).await
    }

    /// What a store has listed; it is noted if it failed.
    pub(super) fn noted<T>(&self, listed: Result<T, Error>) -> Result<T, Error> {
        if let Err(Error::Store(error)) = &listed {
            self.note_failure(error);
        }
        listed
    }
}
