//! Settling what is held, and holding it for longer.

use std::future::Future;

use arc_swap::Guard;
use sluicegate_core::{Decision, Error, HoldToken, Receipt, Span};

use super::Gate;
use crate::limiter::{renewal, settlement, would_block};
use crate::usage::Usage;

impl Gate {
    /// Settles what a request [holds](Gate::hold) for what was really used, like
    /// [`Limiter::settle`](crate::Limiter::settle).
    ///
    /// The limits that were charged settle it, with the numbers that they have for the key now. It
    /// doesn't matter whether they are on, or whether a list has the key by now. A policy that the
    /// usage names may be one of a limit that wasn't asked.
    ///
    /// ```
    /// use sluicegate::{Ask, Config, Registry, Span, Switch, Usage};
    ///
    /// let config = "limits: {llm: {policies: [fixed_window 9000/h as tokens]}}";
    /// let registry = Registry::open(&Config::parse(config, "limits.yaml")?)?;
    /// let llm = registry.gate("llm");
    /// let token = llm.hold_now(Ask::new("acme").cost(1_000), Span::MINUTE)?.into_token().unwrap();
    /// registry.switch(Switch::Off);
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let settled = llm.settle(&token, Usage::of("tokens", 412)).await?;
    /// assert_eq!(settled.remaining(), Some(8_588));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Like [`Limiter::settle`](crate::Limiter::settle);
    /// [`RequestErrorKind::UnknownLimit`](crate::RequestErrorKind::UnknownLimit) if one of the token's limits is
    /// gone, whatever `unknown_limits` says, and then nothing is settled.
    pub async fn settle(&self, token: &HoldToken, usage: Usage<'_>) -> Result<Decision, Error> {
        self.settle_unless(token, &usage, |_, _| false).await
    }

    /// [`Gate::settle`] without waiting.
    ///
    /// # Errors
    /// Like [`Gate::settle`] and [`Gate::check_now`].
    #[expect(clippy::needless_pass_by_value, reason = "as the one that waits")]
    pub fn settle_now(&self, token: &HoldToken, usage: Usage<'_>) -> Result<Decision, Error> {
        self.settle_now_unless(token, &usage, |_, _| false)
    }

    /// Lets what a request [holds](Gate::hold) live on for `lasts` from now, like
    /// [`Limiter::renew`](crate::Limiter::renew).
    ///
    /// ```
    /// use sluicegate::{Config, Registry, Span};
    ///
    /// let demo = Registry::open(&Config::default())?.gate("demo");
    /// let grant = demo.hold_now("alice", Span::SECOND)?;
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let renewed = demo.renew(grant.token().unwrap(), Span::MINUTE).await?;
    /// assert_eq!(renewed.hold().map(|hold| hold.lasts), Some(Span::MINUTE));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Like [`Gate::settle`] and [`Limiter::renew`](crate::Limiter::renew).
    pub fn renew<'a>(
        &'a self,
        token: &'a HoldToken,
        lasts: impl Into<Span>,
    ) -> impl Future<Output = Result<Decision, Error>> + Send + 'a {
        let lasts = lasts.into();
        async move {
            let resolved = Guard::into_inner(self.resolved());
            let charged = resolved.charged(&self.shared, &self.cell, token)?;
            charged.limiter.go_by_record(renewal(token, &charged.subjects, lasts)).await
        }
    }

    /// [`Gate::renew`] without waiting.
    ///
    /// # Errors
    /// Like [`Gate::renew`] and [`Gate::check_now`].
    pub fn renew_now(&self, token: &HoldToken, lasts: impl Into<Span>) -> Result<Decision, Error> {
        let resolved = self.resolved();
        let charged = resolved.charged(&self.shared, &self.cell, token)?;
        let request = renewal(token, &charged.subjects, lasts.into());
        let answer = charged.limiter.go_by_record_at_once(request);
        answer.unwrap_or_else(|| Err(would_block(format_args!("`{}`", self.name()))))
    }

    /// Cancels a reservation of the limits and subjects that `names` has.
    pub(crate) async fn cancel_by(
        &self,
        names: &HoldToken,
        receipt: &Receipt,
    ) -> Result<bool, Error> {
        let resolved = Guard::into_inner(self.resolved());
        resolved.charged(&self.shared, &self.cell, names)?.limiter.cancel(receipt).await
    }

    /// Settles, passing over policies that the gate or `knows` says another limit has.
    pub(crate) async fn settle_unless(
        &self,
        token: &HoldToken,
        usage: &Usage<'_>,
        knows: impl Fn(Option<&str>, &str) -> bool,
    ) -> Result<Decision, Error> {
        let resolved = Guard::into_inner(self.resolved());
        let charged = resolved.charged(&self.shared, &self.cell, token)?;
        let units = usage.units(charged.limiter.limit(), |limit, policy| {
            resolved.has_policy(limit, policy) || knows(limit, policy)
        })?;
        let request = settlement(token, &charged.subjects, &units).at(usage.time());
        charged.limiter.go_by_record(request).await
    }

    /// The same without waiting.
    pub(crate) fn settle_now_unless(
        &self,
        token: &HoldToken,
        usage: &Usage<'_>,
        knows: impl Fn(Option<&str>, &str) -> bool,
    ) -> Result<Decision, Error> {
        let answer = self.settle_at_once_unless(token, usage, knows);
        answer.unwrap_or_else(|| Err(would_block(format_args!("`{}`", self.name()))))
    }

    /// The same if the store can answer immediately; `None` otherwise, and then nothing was asked.
    pub(crate) fn settle_at_once_unless(
        &self,
        token: &HoldToken,
        usage: &Usage<'_>,
        knows: impl Fn(Option<&str>, &str) -> bool,
    ) -> Option<Result<Decision, Error>> {
        let settle = || {
            let resolved = self.resolved();
            let charged = resolved.charged(&self.shared, &self.cell, token)?;
            let units = usage.units(charged.limiter.limit(), |limit, policy| {
                resolved.has_policy(limit, policy) || knows(limit, policy)
            })?;
            let request = settlement(token, &charged.subjects, &units).at(usage.time());
            charged.limiter.go_by_record_at_once(request).transpose()
        };
        settle().transpose()
    }
}
