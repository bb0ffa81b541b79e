//! A running service, as a store and its limits share it.

use hyper::header::HeaderValue;
use sluicegate_core::{Span, StoreId};

use crate::connections::Connections;

/// A running service: connections to it, and how it is asked.
pub(crate) struct Service {
    pub(crate) connections: Connections,
    pub(crate) admin_token: Option<HeaderValue>,
    /// The deadline of a request whose limit has none of its own.
    pub(crate) deadline: Span,
}

impl Service {
    /// The URL.
    pub(crate) fn id(&self) -> StoreId {
        StoreId::new(&self.connections.url().to_string())
    }
}
