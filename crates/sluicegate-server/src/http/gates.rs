//! The gates of limits, alone and together.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use axum::http::StatusCode;
use sluicegate::{Gate, Registry};

use super::asked::{Asked, shown};
use super::error::ApiError;
use crate::access::{Call, Caller};

/// Finds the gates for requests.
///
/// A gate of several limits is cached, because a new one must open the limits in the store. Clients
/// choose the combinations, so the number of cached gates is bounded.
#[derive(Debug)]
pub(super) struct Gates {
    registry: Registry,
    /// Gates by the names of their limits.
    together: Mutex<HashMap<String, Gate>>,
}

impl Gates {
    /// Maximum number of cached gates of several limits. Beyond it, the cache is cleared.
    const MOST: usize = 256;

    pub(super) fn new(registry: Registry) -> Self {
        Self { registry, together: Mutex::default() }
    }

    /// Returns the gate of the limits that a request names.
    ///
    /// # Errors
    /// Returns an error if the caller lacks the right for one of the limits, or if one doesn't exist.
    pub(super) fn find(&self, asked: &Asked) -> Result<Gate, ApiError> {
        for name in asked.names() {
            self.permit(&asked.caller, asked.call, name)?;
        }
        let mut gates = Vec::with_capacity(asked.names().len());
        for name in asked.names() {
            gates.push(self.registry.find(name).ok_or_else(|| unknown(name))?);
        }
        if gates.len() == 1
            && let Some(gate) = gates.pop()
        {
            return Ok(gate);
        }
        // Names of limits contain no spaces.
        let names: Vec<&str> = asked.names().collect();
        let names = names.join(" ");
        let mut together = self.together.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = together.get(&names) {
            return Ok(gate.clone());
        }
        let joined = gates.into_iter().map(Ok).reduce(|one, two| one?.and(two?));
        // The names differ, and all gates belong to one registry.
        let gate = joined
            .unwrap_or_else(|| Ok(self.registry.gate(&names)))
            .map_err(|error| ApiError::malformed(error.to_string()))?;
        if together.len() >= Self::MOST {
            together.clear();
        }
        together.insert(names, gate.clone());
        Ok(gate)
    }

    /// Returns the gate of one limit.
    ///
    /// # Errors
    /// Returns an error if the caller lacks the right for the limit, or if it doesn't exist.
    pub(super) fn one(&self, caller: &Caller, call: Call, name: &str) -> Result<Gate, ApiError> {
        self.permit(caller, call, name)?;
        self.registry.find(name).ok_or_else(|| unknown(name))
    }

    /// Returns an error unless the caller may make this call for a limit.
    ///
    /// A limit with permits always holds what it gives out, so taking from it needs the right to hold.
    fn permit(&self, caller: &Caller, call: Call, name: &str) -> Result<(), ApiError> {
        let holds = || self.registry.limit(name).is_some_and(|limit| limit.limit.has_permits());
        let call = match call {
            Call::Take if !caller.can(Call::Hold) && holds() => Call::Hold,
            call => call,
        };
        Ok(caller.may(call, name)?)
    }
}

fn unknown(name: &str) -> ApiError {
    ApiError::new(
        StatusCode::NOT_FOUND,
        "unknown_limit",
        format!("there is no limit called `{}`: GET /v1/limits lists them", shown(name)),
    )
}
