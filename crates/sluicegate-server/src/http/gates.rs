//! The gates of limits, alone and together.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use axum::http::StatusCode;
use sluicegate::{Gate, Registry};

use super::asked::{Asked, shown};
use super::error::ApiError;

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
    /// Returns an error if a limit doesn't exist.
    pub(super) fn find(&self, asked: &Asked) -> Result<Gate, ApiError> {
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
}

pub(super) fn unknown(name: &str) -> ApiError {
    ApiError::new(
        StatusCode::NOT_FOUND,
        "unknown_limit",
        format!("there is no limit called `{}`: GET /v1/limits lists them", shown(name)),
    )
}
