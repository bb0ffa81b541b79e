//! Logs every decision, if the log is configured for it.

use sluicegate::admin::{Answered, Observer};
use sluicegate::policy::LimitName;
use tracing::Level;

use super::row::{Seen, shown};
use crate::access::Caller;
use crate::logging::DECISIONS;

/// Logs a line for each limit of a decision, at level DEBUG with a separate target.
#[derive(Debug, Default)]
pub(crate) struct DebugLines;

impl Observer for DebugLines {
    fn answered(&self, answered: &Answered<'_>) {
        if !tracing::enabled!(target: DECISIONS, Level::DEBUG) {
            return;
        }
        let Some(seen) = Seen::of(answered).filter(Seen::is_admission) else { return };
        let client = Caller::name_in_decision();
        for row in seen.rows() {
            let together = row.together().map(LimitName::as_str).collect::<Vec<_>>().join(",");
            tracing::debug!(
                target: DECISIONS,
                limit = row.limit.as_str(),
                // Escaped, because a client chooses it.
                key = shown(row.key),
                source = row.source().as_str(),
                binding = seen.decision.binding().map(|binding| binding.name().as_str()),
                binding_limit = row.binding_limit().map(LimitName::as_str),
                together = Some(together.as_str()).filter(|others| !others.is_empty()),
                client = client.as_deref(),
                "{}",
                if seen.decision.is_allowed() { "allowed" } else { "denied" }
            );
        }
    }
}
