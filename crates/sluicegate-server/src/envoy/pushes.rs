//! Follows a control plane.

use std::sync::Arc;

use sluicegate_envoy::service::{RateLimits, XdsClient, XdsEvent};

use super::plane::Plane;

/// Keeps the rules as a control plane pushes them, and never returns. The log says what changes, and why not.
pub(super) async fn follow(client: XdsClient, limits: RateLimits, plane: Arc<Plane>) {
    client
        .follow(limits, |event| {
            plane.note(event);
            match event {
                XdsEvent::Connected | XdsEvent::Applied { .. } => tracing::info!("{event}"),
                XdsEvent::Refused { .. } => tracing::error!("{event}"),
                _ => tracing::warn!("{event}"),
            }
        })
        .await;
}
