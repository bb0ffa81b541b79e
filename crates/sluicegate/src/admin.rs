//! For operators: lists of holders and banned keys, and observers of every decision.

pub use sluicegate_core::{BannedKey, Cursor, Holder, ListedKey, Listing, NodeId, Page};

#[cfg(feature = "config")]
pub use crate::observe::Configured;
pub use crate::observe::{Answered, Observer, Settled};
#[cfg(feature = "config")]
pub use crate::overrides::{
    AuditEntry, NewOverride, OverrideEntry, OverrideTo, Overrides, OverridesError,
};
#[cfg(feature = "config")]
pub use crate::registry::{Hypothetical, KeyTreatment, Standing, Treatment};
