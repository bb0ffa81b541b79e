//! The Lua script of all decisions: [`Script`] combines the Lua ports of the kernels with their shared parts.

mod constants;
#[cfg(test)]
mod form;
mod fragment;
#[cfg(lua_mutants)]
mod mutant;
mod source;
mod template;
mod token;

use std::sync::LazyLock;

use sha1::{Digest as _, Sha1};

use crate::twin::MODULES;

use fragment::{FragmentError, Fragments};
use source::Source;
use template::Template;

macro_rules! lua {
    ($($name:literal),* $(,)?) => {
        [$(Template { file: $name, text: include_str!(concat!("lua/", $name, ".lua")) }),*]
    };
}

/// The main file of the script, without the fragments.
const SCRIPT: Template = Template { file: "script", text: include_str!("lua/script.lua") };
/// The fragments, except for those of the kernels.
const FRAGMENTS: [Template; 26] = lua![
    "auxiliary",
    "ban",
    "bucket_lane",
    "bucket_rules",
    "decide",
    "entries",
    "express_lane",
    "general",
    "group_rules",
    "hold",
    "id_rules",
    "in_flight",
    "inline_read",
    "inline_write",
    "kernels",
    "lease",
    "life_rules",
    "once",
    "pause",
    "permit_lane",
    "queue",
    "reservations",
    "settle",
    "slot_rules",
    "tally",
    "window_rules",
];

/// The script, with the digest by which a server knows it. All limits share one script, so calls of any of
/// them can be batched.
#[derive(Debug)]
pub struct Script {
    source: Source,
    digest: String,
}

impl Script {
    /// Returns the script.
    #[must_use]
    pub fn get() -> &'static Self {
        static SCRIPT: LazyLock<Script> = LazyLock::new(|| {
            // A test makes the script, so errors only occur with changed files. The server then reports them.
            let source = make().unwrap_or_else(|error| Source::of(&format!("return {error}")));
            let digest = format!("{:x}", Sha1::digest(source.text()));
            Script { source, digest }
        });
        &SCRIPT
    }

    /// Returns the source.
    #[must_use]
    pub fn text(&self) -> &str {
        self.source.text()
    }

    /// Returns the SHA-1 of the source, in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the file and the line that a line of the source is from, as `file.lua:LINE`.
    #[must_use]
    pub fn place(&self, line: usize) -> Option<String> {
        Some(self.source.place(line)?.to_string())
    }
}

fn make() -> Result<Source, FragmentError> {
    let mut fragments = Fragments::default();
    let kernels = MODULES.iter().map(|module| Template { file: module.name, text: module.text });
    FRAGMENTS.into_iter().chain(kernels).try_for_each(|file| file.add_to(&mut fragments))?;
    SCRIPT.script(&fragments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fragment_fits_where_it_is_used() {
        make().map_err(|error| error.to_string()).unwrap();
    }

    #[test]
    fn a_line_of_the_script_tells_its_file() {
        let script = Script::get();
        assert_eq!(script.place(1).as_deref(), Some("script.lua:1"));
        let last = script.text().lines().count();
        assert!(script.place(last).unwrap().starts_with("script.lua:"));
        assert_eq!(script.place(last + 1), None);
    }
}
