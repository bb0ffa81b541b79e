//! Follows a control plane.

use std::sync::Arc;

use sluicegate_envoy::service::{RateLimits, XdsClient, XdsEvent};

use super::loads::Loads;

/// Keeps the rules as a control plane pushes them, and never returns. The log says what changes, and why not.
pub(super) async fn follow(client: XdsClient, limits: RateLimits, loads: Arc<Loads>) {
    client
        .follow(limits, |event| match event {
            XdsEvent::Applied { .. } => {
                loads.succeeded();
                tracing::info!("{event}");
            }
            XdsEvent::Refused { .. } => {
                loads.failed();
                tracing::error!("{event}");
            }
            _ => tracing::warn!("{event}"),
        })
        .await;
}
