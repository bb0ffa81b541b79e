//! Settling what any limit of a registry holds.

use std::sync::Arc;

use sluicegate_core::{Error, HoldToken, Receipt, SharedStore, Span};

use super::token_routing::{has_policy, names_of};
use super::{Gate, Registry};
use crate::limiter::Limiter;
use crate::question::{Charged, Question, Settles, ToCancel, ToRenew, ToSettle};
use crate::usage::Usage;

impl Registry {
    /// Settles what a request holds, like [`Gate::settle`], whatever gate it was asked at: the token
    /// names the limits.
    ///
    /// The registry has to know them by name. One of [`Registry::keyed`] is known as long as its gate is cached,
    /// under the name of the limit and the key that was charged.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sluicegate::{Config, Registry, RequestErrorKind, Usage};
    ///
    /// let of = |text: &str| Config::parse(text, "limits.yaml");
    /// let registry = Registry::open(&of("limits: {llm: {policies: [fixed_window 9000/h as tokens]}}")?)?;
    /// let llm = registry.gate("llm");
    /// let first = llm.check("acme").cost(1_000).hold(Duration::from_secs(60)).now()?;
    /// let second = llm.check("acme").cost(1_000).hold(Duration::from_secs(60)).now()?;
    /// let settled = registry.settle(first.token().unwrap(), Usage::of("tokens", 412)).now()?;
    /// assert_eq!(settled.remaining(), Some(7_588));
    ///
    /// registry.replace(&of("limits: {search: {policies: [gcra 9/s]}}")?)?;
    /// let gone = registry.settle(second.token().unwrap(), Usage::nothing()).now().unwrap_err();
    /// assert_eq!(gone.as_request().map(|error| error.kind()), Some(RequestErrorKind::UnknownLimit));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Like [`Gate::settle`].
    pub fn settle<'t, 'u>(
        &self,
        token: &'t HoldToken,
        usage: Usage<'u>,
    ) -> Question<'_, Self, ToSettle<'t, 'u>> {
        Question::new(self, ToSettle { token, usage })
    }

    /// Lets what a request holds live on, like [`Gate::renew`], whatever gate it was asked at.
    ///
    /// ```
    /// use sluicegate::{Config, Registry, Span};
    ///
    /// let registry = Registry::open(&Config::default())?;
    /// let grant = registry.gate("demo").check("alice").hold(Span::SECOND).now()?;
    /// let renewed = registry.renew(grant.token().unwrap(), Span::MINUTE).now()?;
    /// assert_eq!(renewed.hold().map(|hold| hold.lasts), Some(Span::MINUTE));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Like [`Gate::renew`].
    pub fn renew<'t>(
        &self,
        token: &'t HoldToken,
        lasts: impl Into<Span>,
    ) -> Question<'_, Self, ToRenew<'t>> {
        Question::new(self, ToRenew { token, lasts: lasts.into() })
    }

    /// Cancels a reservation by its receipt, like [`Limiter::cancel`](crate::Limiter::cancel), whatever
    /// gate it was made at: the receipt names the limits. The answer is whether the units were given back.
    ///
    /// ```
    /// use sluicegate::{Config, Registry, Span};
    ///
    /// let registry = Registry::open(&Config::default())?;
    /// let reservation = registry.gate("demo").reserve("alice", Span::SECOND).now()?;
    /// let receipt = reservation.receipt().unwrap();
    /// assert!(registry.cancel(receipt).now()?);
    /// assert!(!registry.cancel(receipt).now()?, "it is cancelled");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`RequestErrorKind::UnknownLimit`](crate::RequestErrorKind::UnknownLimit) if one of the limits is
    /// gone. Also if the store fails; then the units count as used.
    pub fn cancel<'r>(&self, receipt: &'r Receipt) -> Question<'_, Self, ToCancel<'r>> {
        Question::new(self, ToCancel(receipt))
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
}

impl Settles for Registry {
    type Store = SharedStore;

    fn charged<'t>(&self, token: &'t HoldToken) -> Result<Charged<'t, SharedStore>, Error> {
        let token = self.with_counted_keys(token);
        let Charged { limiter, order, .. } = self.gate_of(&token)?.charged(&token)?;
        Ok(Charged { limiter, token, order })
    }

    fn booked(&self, receipt: &Receipt) -> Result<Limiter, Error> {
        self.gate_of(&names_of(receipt)?)?.booked(receipt)
    }

    fn knows(&self, limit: Option<&str>, policy: &str) -> bool {
        let known = limit.and_then(|limit| self.limit(limit));
        known.is_some_and(|known| has_policy(&known.limit, policy))
    }
}
