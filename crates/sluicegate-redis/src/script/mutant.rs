//! Scripts that are changed on purpose, to see that some test notices. Only `cargo xtask soak`
//! builds this.

use std::{env, fs};

/// What takes the place of a Lua file: the file that `SLUICEGATE_LUA_MUTANT` names has one as it is,
/// a zero byte, and the same as changed.
pub(super) fn in_place_of(text: &'static str) -> &'static str {
    let mutant = env::var_os("SLUICEGATE_LUA_MUTANT").map(fs::read_to_string);
    let Some(Ok(pair)) = mutant else { return text };
    match pair.split_once('\0') {
        Some((original, changed)) if original == text => changed.to_owned().leak(),
        _ => text,
    }
}
