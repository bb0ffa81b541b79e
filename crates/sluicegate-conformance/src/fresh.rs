//! Names that nothing else has.

use std::hash::{BuildHasher as _, RandomState};

/// A name that begins with `label` and that nobody else uses, on whatever store.
pub(crate) fn fresh(label: &str) -> String {
    let random = || RandomState::new().hash_one(std::process::id());
    format!("{label}-{:016x}{:016x}", random(), random())
}
