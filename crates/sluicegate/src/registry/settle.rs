//! Settling what any limit of a registry holds.

use std::future::Future;
use std::sync::Arc;

use sluicegate_core::{Decision, Error, HoldId, HoldToken, Receipt, RequestError, Span};

use super::token_routing::has_policy;
use super::{Gate, Registry};
use crate::usage::Usage;

impl Registry {
    /// Settles what a request holds, like [`Gate::settle`], whatever gate it was asked at: the token
    /// names the limits. That takes limits that the registry knows by name. One of [`Registry::keyed`] is
    /// known as long as its gate is cached, under the name of the limit and the key that was charged.
    ///
    /// ```
    /// use sluicegate::{Ask, Config, Registry, RequestErrorKind, Span, Usage};
    ///
    /// let of = |text: &str| Config::parse(text, "limits.yaml");
    /// let registry = Registry::open(&of("limits: {llm: {policies: [fixed_window 9000/h as tokens]}}")?)?;
    /// let llm = registry.gate("llm");
    /// let hold = || Ok::<_, sluicegate::Error>(llm.hold_now(Ask::new("acme").cost(1_000), Span::MINUTE)?.into_token());
    /// let (first, second) = (hold()?.unwrap(), hold()?.unwrap());
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// assert_eq!(registry.settle(&first, Usage::of("tokens", 412)).await?.remaining(), Some(7_588));
    ///
    /// registry.replace(&of("limits: {search: {policies: [gcra 9/s]}}")?)?;
    /// let gone = registry.settle(&second, Usage::nothing()).await.unwrap_err();
    /// assert_eq!(gone.as_request().map(|error| error.kind()), Some(RequestErrorKind::UnknownLimit));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Like [`Gate::settle`].
    pub async fn settle(&self, token: &HoldToken, usage: Usage<'_>) -> Result<Decision, Error> {
        let token = &self.with_counted_keys(token);
        let gate = self.gate_of(token)?;
        gate.settle_unless(token, &usage, |limit, policy| self.has_policy(limit, policy)).await
    }

    /// [`Registry::settle`] without waiting.
    ///
    /// # Errors
    /// Like [`Registry::settle`] and [`Gate::check_now`].
    #[expect(clippy::needless_pass_by_value, reason = "as the one that waits")]
    pub fn settle_now(&self, token: &HoldToken, usage: Usage<'_>) -> Result<Decision, Error> {
        let has_policy = |limit: Option<&str>, policy: &str| self.has_policy(limit, policy);
        let token = &self.with_counted_keys(token);
        self.gate_of(token)?.settle_now_unless(token, &usage, has_policy)
    }

    /// Lets what a request holds live on, like [`Gate::renew`], whatever gate it was asked at.
    ///
    /// ```
    /// use sluicegate::{Config, Registry, Span};
    ///
    /// let registry = Registry::open(&Config::default())?;
    /// let grant = registry.gate("demo").hold_now("alice", Span::SECOND)?;
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let renewed = registry.renew(grant.token().unwrap(), Span::MINUTE).await?;
    /// assert_eq!(renewed.hold().map(|hold| hold.lasts), Some(Span::MINUTE));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Like [`Gate::renew`].
    pub fn renew<'a>(
        &'a self,
        token: &'a HoldToken,
        lasts: impl Into<Span>,
    ) -> impl Future<Output = Result<Decision, Error>> + Send + 'a {
        let lasts = lasts.into();
        async move {
            let token = &self.with_counted_keys(token);
            self.gate_of(token)?.renew(token, lasts).await
        }
    }

    /// [`Registry::renew`] without waiting.
    ///
    /// # Errors
    /// Like [`Registry::renew`] and [`Gate::check_now`].
    pub fn renew_now(&self, token: &HoldToken, lasts: impl Into<Span>) -> Result<Decision, Error> {
        let token = &self.with_counted_keys(token);
        self.gate_of(token)?.renew_now(token, lasts)
    }

    /// Cancels a reservation by its receipt, like [`Limiter::cancel`](crate::Limiter::cancel), whatever
    /// gate it was made at: the receipt names the limits. Returns whether the units were given back.
    ///
    /// ```
    /// use sluicegate::{Config, Registry, Span};
    ///
    /// let registry = Registry::open(&Config::default())?;
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let reservation = registry.gate("demo").reserve("alice", Span::SECOND).await?;
    /// let receipt = reservation.receipt().unwrap();
    /// assert!(registry.cancel(receipt).await?);
    /// assert!(!registry.cancel(receipt).await?, "it is cancelled");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`RequestErrorKind::UnknownLimit`](crate::RequestErrorKind::UnknownLimit) if one of the limits is
    /// gone. Also if the store fails; then the units count as used.
    pub async fn cancel(&self, receipt: &Receipt) -> Result<bool, Error> {
        // What finds the limits of a token finds those of a receipt.
        let parts = receipt.parts().iter().map(|part| (part.limit.clone(), &*part.subject));
        let names = HoldToken::new(HoldId::from_bytes([0; HoldId::BYTES]), parts)
            .map_err(RequestError::from)?;
        let gate = self.gate_of(&names)?;
        gate.cancel_by(&names, receipt).await
    }

    /// The gate of a token's limits, if they are there.
    fn gate_of(&self, token: &HoldToken) -> Result<Gate, Error> {
        if let Some(cell) = self.shared.keyed.cell(token) {
            return Ok(Gate::new(Arc::clone(&self.shared), cell));
        }
        let current = self.shared.current();
        if let Some(gone) = token.limits().find(|name| current.entry(name.as_str()).is_none()) {
            return Err(self.shared.gone(gone.as_str()));
        }
        let mut limits = token.limits();
        let cell =
            match (limits.next().and_then(|name| current.entry(name.as_str())), limits.next()) {
                (Some(entry), None) => Arc::clone(&entry.cell),
                _ => self.shared.joined.cell(token),
            };
        Ok(Gate::new(Arc::clone(&self.shared), cell))
    }

    /// Whether a limit that is named has a policy, be it a limit that wasn't charged.
    fn has_policy(&self, limit: Option<&str>, policy: &str) -> bool {
        let known = limit.and_then(|limit| self.limit(limit));
        known.is_some_and(|known| has_policy(&known.limit, policy))
    }
}
