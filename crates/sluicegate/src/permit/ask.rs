//! Asking for a permit.

use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;

use sluicegate_core::{BoxFuture, Error, Span};
use tokio::time::sleep_until;

use super::{Keeper, Pauses, Permit, Terms};
use crate::ask::Ask;
use crate::limiter::end_of;

/// A request for a [`Permit`]: await it, or call [`now`](Self::now).
///
/// ```
/// use sluicegate::{Limiter, MemoryStore, Span};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?.block_on(async {
/// let limit = sluicegate::limit("export", ["concurrency 1 hold 30s"])?;
/// let limiter = Limiter::new(MemoryStore::new(), limit);
/// let first = limiter.permit("acme").max_life(Span::MINUTE).await?;
/// let work = tokio::spawn(async move {
///     tokio::time::sleep(std::time::Duration::from_secs(2)).await;
///     drop(first);
/// });
/// let second = limiter.permit("acme").within(Span::MINUTE).await?;
/// assert!(second.is_allowed() && work.is_finished());
/// assert!(limiter.permit("acme").now()?.is_denied());
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is asked until it is awaited, or `now` is called"]
pub struct PermitAsk<'a> {
    keeper: Arc<dyn Keeper>,
    ask: Ask<'a>,
    terms: Terms,
    within: Option<Span>,
}

impl<'a> PermitAsk<'a> {
    pub(crate) fn new(keeper: impl Keeper, ask: Ask<'a>) -> Self {
        Self { keeper: Arc::new(keeper), ask, terms: Terms::default(), within: None }
    }

    /// Sets how long the units stay in flight when nobody renews or releases them, because the
    /// process has died or can't reach the store: 1 ms to what the limit says (`hold 30s`), which is the default;
    /// without a policy `concurrency` to a day, by default 30 s.
    pub fn lasts(mut self, lasts: impl Into<Span>) -> Self {
        self.terms.lasts = Some(lasts.into());
        self
    }

    /// Sets how long the permit is renewed at most, counted from when it was asked for; then it is
    /// [lost](Permit::lost). So work that hangs doesn't hold its place for ever. Default: 1 h.
    pub fn max_life(mut self, longest: impl Into<Span>) -> Self {
        self.terms.max_life = longest.into();
        self
    }

    /// Waits for a permit, at most this long in total. In the limit's queue if it has one, like
    /// [`wait_for_permit`](crate::Limiter::wait_for_permit); without one, for several limits together and for an ask
    /// with an [id](Ask::request_id) it is asked for again after pauses of 10 ms to 0.5 s, and a last time at the
    /// end, so who asks first when one comes free gets it. A wait that can't end in time, because of other policies,
    /// a ban, a full queue or because the cost is above the limit, is denied immediately. Needs a tokio runtime with time enabled.
    pub fn within(mut self, longest: impl Into<Span>) -> Self {
        self.within = Some(longest.into());
        self
    }

    /// Asks without waiting.
    ///
    /// # Errors
    /// Like awaiting it; [`RequestErrorKind::WouldBlock`](crate::RequestErrorKind::WouldBlock) if the
    /// store can't answer immediately, and then nothing was asked.
    pub fn now(self) -> Result<Permit, Error> {
        self.keeper.take_now(&self.keeper, &self.ask, self.terms)
    }

    async fn permit(self) -> Result<Permit, Error> {
        let Self { keeper, ask, terms, within } = self;
        let end = within.map(end_of);
        let mut pauses = end.map(Pauses::until);
        loop {
            let taken = keeper.take(&keeper, &ask, terms, end).await;
            let next = pauses.as_mut().and_then(|pauses| match &taken {
                Ok(permit) => pauses.after(permit),
                Err(error) => pauses.after_error(error),
            });
            match next {
                Some(next) => sleep_until(next).await,
                None => return taken,
            }
        }
    }
}

/// # Errors
/// Like [`Limiter::hold`](crate::Limiter::hold), and at a gate like [`Gate::check`](crate::Gate::check). A call
/// of which no answer came, and one whose future is dropped, is cancelled in the background.
impl<'a> IntoFuture for PermitAsk<'a> {
    type Output = Result<Permit, Error>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.permit())
    }
}

impl fmt::Debug for PermitAsk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PermitAsk")
            .field("ask", &self.ask)
            .field("terms", &self.terms)
            .field("within", &self.within)
            .finish_non_exhaustive()
    }
}
