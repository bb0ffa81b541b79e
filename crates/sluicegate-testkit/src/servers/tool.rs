//! Programs that `cargo xtask setup` installs.

use std::env;
use std::path::PathBuf;

use super::binary::tools_folder;
use super::error::ServerError;

/// Returns the program of this name that `cargo xtask setup` installed, or one on `PATH`.
///
/// # Errors
/// Returns an error if there is none.
pub fn find_tool(name: &str) -> Result<PathBuf, ServerError> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = [tools_folder()].into_iter().chain(env::split_paths(&path));
    let found = folders.map(|folder| folder.join(name)).find(|program| program.is_file());
    found.ok_or_else(|| ServerError::Start {
        why: format!("there is no {name}, which `cargo xtask setup` installs"),
        log: String::new(),
    })
}
