//! The configuration in force, from one replacement to the next.

use std::collections::HashMap;
use std::sync::Arc;

use super::gate_cache::GateCache;
use super::opened::Opened;
use crate::config_file::{ClientConfig, EnvoyConfig, HttpConfig, LimitConfig, MetricsConfig};
use crate::config_file::{RespConfig, Switch, UnknownLimit};

/// The configuration in force. It is immutable: the next one replaces it.
#[derive(Debug)]
pub(super) struct Generation {
    pub(super) number: u64,
    /// Whether any limit is in force.
    pub(super) switch: Switch,
    pub(super) unknown: UnknownLimit,
    pub(super) http: Arc<HttpConfig>,
    pub(super) metrics: MetricsConfig,
    pub(super) envoy: Arc<EnvoyConfig>,
    /// The clients of the service.
    pub(super) clients: Arc<[ClientConfig]>,
    /// Whether requests to the service may give policies.
    pub(super) limits_in_requests: Switch,
    pub(super) resp: RespConfig,
    /// In the order of the file, then those given only in code.
    pub(super) limits: Vec<Entry>,
    pub(super) by_name: HashMap<Box<str>, usize>,
}

/// A limit in force or switched off.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) opened: Arc<Opened>,
    pub(super) origin: Origin,
    /// From the file, unless switched at run time.
    pub(super) switch: Switch,
    /// Shared by gates on this limit alone.
    pub(super) cell: Arc<GateCache>,
}

/// The origin of a limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Origin {
    Config,
    Code,
}

impl Generation {
    pub(super) fn entry(&self, name: &str) -> Option<&Entry> {
        self.limits.get(*self.by_name.get(name)?)
    }

    /// Returns the limits in their order.
    pub(super) fn configs(&self) -> Vec<Arc<LimitConfig>> {
        self.limits.iter().map(|entry| Arc::clone(&entry.opened.config)).collect()
    }
}
