//! Logs every decision, if the log is configured for it.

use sluicegate::admin::{Answered, Observer};
use sluicegate::policy::{LimitName, PolicyName};
use tracing::Level;

use super::row::{Row, RowPart};
use crate::logging::DECISIONS;

/// Logs a line for each limit of a decision, at level DEBUG with a separate target.
#[derive(Debug, Default)]
pub(super) struct DecisionLines;

impl Observer for DecisionLines {
    fn answered(&self, answered: &Answered<'_>) {
        if !tracing::enabled!(target: DECISIONS, Level::DEBUG) {
            return;
        }
        for part in RowPart::all_of(answered) {
            let row = Row::new(&part, None);
            let together = row.together().collect::<Vec<_>>().join(",");
            tracing::debug!(
                target: DECISIONS,
                limit = row.limit.as_str(),
                // Escaped, because a client chooses it.
                key = row.key,
                source = row.source.as_str(),
                binding = row.binding.as_ref().map(PolicyName::as_str),
                binding_limit = row.binding_limit.as_ref().map(LimitName::as_str),
                together = Some(together.as_str()).filter(|others| !others.is_empty()),
                client = row.client.as_deref(),
                "{}",
                if row.allowed { "allowed" } else { "denied" }
            );
        }
    }
}
