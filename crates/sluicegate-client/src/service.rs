//! The connection settings that a store and its limits share.

use std::sync::Arc;

use hyper::header::HeaderValue;
use sluicegate_core::{Span, StoreId};

use crate::connections::Connections;

/// A running service: its connections and request settings.
pub(crate) struct Service {
    pub(crate) connections: Arc<Connections>,
    pub(crate) token: Option<HeaderValue>,
    /// Whether requests give the policies of their limits.
    pub(crate) sends_policies: bool,
    /// Deadline of a request whose limit has no deadline of its own.
    pub(crate) deadline: Span,
}

impl Service {
    /// Returns the URL.
    pub(crate) fn id(&self) -> StoreId {
        StoreId::new(&self.connections.url().to_string())
    }
}
