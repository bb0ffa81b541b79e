//! Which keys are banned.

use arc_swap::Guard;
use sluicegate_core::{BannedKeys, Error, Page};

use super::Gate;

impl Gate {
    /// A page of the keys that the limit bans, like [`Limiter::bans`](crate::Limiter::bans). Switches don't
    /// matter.
    ///
    /// ```
    /// use sluicegate::{Config, Page, Registry, Span};
    ///
    /// let config = "limits: {login: {policies: [gcra 1/s], ban: 5/min for 15min}}";
    /// let login = Registry::open(&Config::parse(config, "limits.yaml")?)?.gate("login");
    /// login.ban_now("mallory", Span::HOUR)?;
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let page = login.bans(Page::first()).await?;
    /// assert!(page.keys().iter().any(|banned| banned.key().is(b"mallory")));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Like [`Limiter::bans`](crate::Limiter::bans);
    /// [`RequestErrorKind::UnknownLimit`](crate::RequestErrorKind::UnknownLimit) if there is no such limit,
    /// whatever `unknown_limits` says.
    pub async fn bans(&self, page: Page<'_>) -> Result<BannedKeys, Error> {
        let resolved = Guard::into_inner(self.resolved());
        resolved.listing(&self.shared, &self.cell)?.bans(page).await
    }
}
