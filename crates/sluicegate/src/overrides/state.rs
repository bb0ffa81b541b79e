//! The state that all handles of a registry's overrides share.

use std::sync::Mutex;

use sluicegate_core::{Error, Timestamp};
use tokio::sync::Mutex as Turn;

use super::mirror::Mirror;
use crate::layers::SuspendAwareClock;
use crate::seldom::Seldom;

/// The beginning of the latest query of the store, and its outcome.
pub(super) type Read = (Timestamp, Result<(), Error>);

/// The state of the overrides of a registry.
#[derive(Debug, Default)]
pub(crate) struct OverridesState {
    /// One caller at a time reads the store.
    pub(super) turn: Turn<Option<Read>>,
    pub(super) mirror: Mutex<Mirror>,
    pub(super) clock: SuspendAwareClock,
    pub(super) unread: Seldom,
    /// Why the latest query failed.
    pub(super) failure: Mutex<Option<String>>,
}
