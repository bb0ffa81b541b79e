//! The gates of limits, alone and together.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use axum::http::StatusCode;
use sluicegate::{Gate, Registry};

use super::asked::{Asked, shown};
use super::error::ApiError;

/// Finds the gates that requests ask.
///
/// A gate of several limits is kept, because a new one has to open the limits in the store. Clients
/// choose what is asked together, so their number is bounded.
#[derive(Debug)]
pub(super) struct Gates {
    registry: Registry,
    /// By the names of the limits.
    together: Mutex<HashMap<String, Gate>>,
}

impl Gates {
    /// The most gates of several limits that are kept. Beyond it the table starts over.
    const MOST: usize = 256;

    pub(super) fn new(registry: Registry) -> Self {
        Self { registry, together: Mutex::default() }
    }

    /// The gate of the limits that a request names.
    ///
    /// # Errors
    /// If there is no limit of such a name.
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
        // No name of a limit holds a space.
        let names: Vec<&str> = asked.names().collect();
        let names = names.join(" ");
        let mut together = self.together.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = together.get(&names) {
            return Ok(gate.clone());
        }
        let joined = gates.into_iter().map(Ok).reduce(|one, two| one?.and(two?));
        // The names differ, and all gates are of one registry.
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
