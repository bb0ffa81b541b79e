//! Draws the results of each policy under a burst, into a folder. `cargo xtask plots` updates the
//! plots of `docs/policies` with this program.

#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/guide/burst.rs"]
mod burst;

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

#[expect(clippy::print_stderr, reason = "says what it does")]
fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(env::args_os().nth(1).ok_or("name the folder to draw into")?);
    for (name, picture) in burst::pictures(&burst::report()?) {
        let path = folder.join(name);
        fs::write(&path, picture).map_err(|error| format!("{}: {error}", path.display()))?;
        eprintln!("wrote {}", path.display());
    }
    Ok(())
}
