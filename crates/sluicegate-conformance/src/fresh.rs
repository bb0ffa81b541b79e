//! Unique names.

use std::hash::{BuildHasher as _, RandomState};

/// Returns a unique name that begins with `label`.
pub(crate) fn fresh(label: &str) -> String {
    let random = || RandomState::new().hash_one(std::process::id());
    format!("{label}-{:016x}{:016x}", random(), random())
}
