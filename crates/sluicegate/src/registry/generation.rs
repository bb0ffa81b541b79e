//! A configuration as it is in force, from one replacement to the next.

use std::collections::HashMap;
use std::sync::Arc;

use super::opened::Opened;
use super::switch::{Switch, UnknownLimit};
use crate::config::HttpConfig;

/// A configuration as it is in force. It never changes: the next one takes its place.
#[derive(Debug)]
pub(super) struct Generation {
    pub(super) number: u64,
    /// Whether any limit is in force.
    pub(super) switch: Switch,
    pub(super) unknown: UnknownLimit,
    pub(super) http: Arc<HttpConfig>,
    /// In the order of the file, then those of code alone.
    pub(super) limits: Vec<Entry>,
    pub(super) by_name: HashMap<Box<str>, usize>,
}

/// A limit that is there.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) opened: Arc<Opened>,
    pub(super) origin: Origin,
    /// What the file says, or whoever switched it at run time.
    pub(super) switch: Switch,
    /// What gates on this limit alone share.
    pub(super) cell: Arc<super::cell::Cell>,
}

/// Who gave a limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Origin {
    Config,
    Code,
}

impl Generation {
    pub(super) fn entry(&self, name: &str) -> Option<&Entry> {
        self.limits.get(*self.by_name.get(name)?)
    }
}
