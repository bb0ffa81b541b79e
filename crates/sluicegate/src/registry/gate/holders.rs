//! What is in flight, listed and ended by whoever looks after a service.

use std::future::Future;

use arc_swap::Guard;
use sluicegate_core::{Decision, Error, HoldId, Holders, Page};

use super::Gate;
use crate::ask::Ask;

impl Gate {
    /// A page of those who have something in flight of a key, like
    /// [`Limiter::holders`](crate::Limiter::holders). Neither lists nor switches matter.
    ///
    /// ```
    /// use sluicegate::{Config, Page, Registry};
    ///
    /// let config = "limits: {jobs: {policies: [concurrency 9 hold 30s]}}";
    /// let jobs = Registry::open(&Config::parse(config, "limits.yaml")?)?.gate("jobs");
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let permit = jobs.permit("acme").await?;
    /// assert_eq!(jobs.holders("acme", Page::first()).await?.holders().len(), 1);
    /// # drop(permit);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Like [`Limiter::holders`](crate::Limiter::holders);
    /// [`RequestErrorKind::UnknownLimit`](crate::RequestErrorKind::UnknownLimit) if there is no such limit,
    /// whatever `unknown_limits` says.
    pub fn holders<'a>(
        &'a self,
        ask: impl Into<Ask<'a>>,
        page: Page<'a>,
    ) -> impl Future<Output = Result<Holders, Error>> + Send + 'a {
        let ask = ask.into();
        async move {
            let resolved = Guard::into_inner(self.resolved());
            let (limiter, ask) = resolved.holding(&self.shared, &self.cell, ask)?;
            limiter.list_holders(&ask, page).await
        }
    }

    /// Ends what a request holds of a key, by its id and without its token, like
    /// [`Limiter::end`](crate::Limiter::end). Neither lists nor switches matter.
    ///
    /// ```
    /// use sluicegate::{Config, Page, Registry};
    ///
    /// let config = "limits: {jobs: {policies: [concurrency 1 hold 30s]}}";
    /// let jobs = Registry::open(&Config::parse(config, "limits.yaml")?)?.gate("jobs");
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let stuck = jobs.permit("acme").await?;
    /// let id = jobs.holders("acme", Page::first()).await?.holders()[0].id();
    /// assert!(jobs.end("acme", id).await?.is_allowed());
    /// assert!(jobs.end("acme", id).await?.is_denied(), "it has ended");
    /// # drop(stuck);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Like [`Limiter::end`](crate::Limiter::end) and [`Gate::holders`].
    pub fn end<'a>(
        &'a self,
        ask: impl Into<Ask<'a>>,
        id: HoldId,
    ) -> impl Future<Output = Result<Decision, Error>> + Send + 'a {
        let ask = ask.into();
        async move {
            let resolved = Guard::into_inner(self.resolved());
            let (limiter, ask) = resolved.holding(&self.shared, &self.cell, ask)?;
            limiter.end_by(&ask, id).await
        }
    }
}
