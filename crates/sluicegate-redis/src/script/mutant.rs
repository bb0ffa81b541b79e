//! Deliberately changed scripts, to check that a test notices the change. Only `cargo xtask soak` builds
//! this.

use std::{env, fs};

/// Returns the text to use for a Lua file. The file named by `SLUICEGATE_LUA_MUTANT` has the original text, a
/// zero byte, and the changed text.
pub(super) fn in_place_of(text: &'static str) -> &'static str {
    let mutant = env::var_os("SLUICEGATE_LUA_MUTANT").map(fs::read_to_string);
    let Some(Ok(pair)) = mutant else { return text };
    match pair.split_once('\0') {
        Some((original, changed)) if original == text => changed.to_owned().leak(),
        _ => text,
    }
}
