//! The service's JSON answers, which this crate and the command line also read.

mod answer;
mod explanation;
mod instant;
mod key;
mod listed;
mod overrides;

pub use answer::{
    Answer, BanAnswer, HoldAnswer, PAUSED, PauseAnswer, PolicyAnswer, STORE_FULL, WaitEnded,
};
pub use explanation::{Because, Explanation, NumberOrigin};
pub use instant::Rfc3339;
pub use key::{KeyEntry, key_fields};
pub use listed::{BanEntry, BanList, HolderEntry, HolderList, KeyList};
pub use overrides::{AuditEntry, AuditList, OverrideEntry, OverrideList, OverrideTo};
