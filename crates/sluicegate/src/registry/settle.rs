//! Settles holds of any limit of a registry.

use std::sync::Arc;

use sluicegate_core::{Error, HoldToken, LimitName, Receipt, SharedStore};

use super::token_routing::{has_policy, names_of};
use super::{Gate, Registry};
use crate::limiter::Limiter;
use crate::question::{Charged, Settles};

impl Registry {
    /// Returns the gate of a token's limits, if they exist.
    fn gate_of(&self, token: &HoldToken) -> Result<Gate, Error> {
        let current = self.shared.current();
        if let Some(gone) = token.limits().find(|name| current.entry(name.as_str()).is_none()) {
            return Err(self.shared.gone(gone.as_str()));
        }
        let mut limits = token.limits();
        let cell =
            match (limits.next().and_then(|name| current.entry(name.as_str())), limits.next()) {
                (Some(entry), None) => Arc::clone(&entry.cell),
                _ => self.shared.joined.cell(token.limits().map(LimitName::as_str)),
            };
        Ok(Gate::new(Arc::clone(&self.shared), cell))
    }
}

impl Settles for Registry {
    type Store = SharedStore;

    fn charged<'t>(&self, token: &'t HoldToken) -> Result<Charged<'t, SharedStore>, Error> {
        self.gate_of(token)?.charged(token)
    }

    fn booked(&self, receipt: &Receipt) -> Result<Limiter, Error> {
        self.gate_of(&names_of(receipt)?)?.booked(receipt)
    }

    fn knows(&self, limit: Option<&str>, policy: &str) -> bool {
        let known = limit.and_then(|limit| self.limit(limit));
        known.is_some_and(|known| has_policy(&known.limit, policy))
    }
}
