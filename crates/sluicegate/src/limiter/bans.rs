//! Which keys are banned.

use sluicegate_core::{BannedKeys, Error, OpenedLimit as _, Page, Store};

use super::Limiter;

impl<S: Store> Limiter<S> {
    /// A page of the keys that the limit bans, for whoever looks after a service; [`Limiter::lift_ban`] lifts a
    /// ban. On a server all its keys are looked through, so many at a time: a page may be short, or empty, and
    /// only the one without a [next](BannedKeys::next) is the last.
    ///
    /// Of keys of more than 64 bytes stores know a hash alone: [`ListedKey::is`](crate::ListedKey::is) says
    /// whether a key is it.
    ///
    /// ```
    /// use sluicegate::{Ban, Limiter, MemoryStore, Page, Span};
    ///
    /// let ban: Ban = "5/min for 15min".parse()?;
    /// let limit = sluicegate::limit("login", ["gcra 1/s"])?.banning(ban);
    /// let limiter = Limiter::new(MemoryStore::new(), limit);
    /// limiter.ban_now("mallory", Span::HOUR)?;
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let mut banned = Vec::new();
    /// let mut page = limiter.bans(Page::first()).await?;
    /// loop {
    ///     banned.extend(page.keys().iter().map(|banned| banned.key().to_string()));
    ///     let Some(next) = page.next() else { break };
    ///     page = limiter.bans(Page::first().after(next)).await?;
    /// }
    /// assert_eq!(banned, ["mallory"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`RequestErrorKind::Unsupported`](crate::RequestErrorKind::Unsupported) for a limit without a
    /// [`Ban`](crate::Ban), for several limits that are decided together, and for a store that has no such
    /// list; `Invalid` for a page that begins where no page of such a list ended. Also if the store failed:
    /// `on_store_failure` doesn't apply.
    pub async fn bans(&self, page: Page<'_>) -> Result<BannedKeys, Error> {
        self.noted(self.inner.opened.bans(page).await)
    }
}
