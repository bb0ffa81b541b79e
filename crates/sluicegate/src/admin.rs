//! For operators: lists of holders and banned keys, and observers of every decision.

pub use sluicegate_core::{BannedKey, Cursor, Holder, ListedKey, Listing, NodeId, Page};

pub use crate::observe::{Answered, Configured, Observer, Settled};
