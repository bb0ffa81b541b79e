//! The files that a configuration names, which a watch follows too.

use std::path::PathBuf;

use crate::config_file::ConfigCaps;
use crate::config_file::tree::{self, Value};

/// The fields of a limit that name a file.
const FIELDS: [&str; 3] = ["allow_file", "block_file", "overrides_file"];

/// Returns the files that a configuration names, each once.
pub(in crate::config_file) fn named(text: &str, caps: ConfigCaps) -> Vec<PathBuf> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Ok((root, _)) = tree::read(text, caps.max_values) else { return Vec::new() };
    let mut files: Vec<PathBuf> = Vec::new();
    for (_, limits) in root.entries().iter().filter(|(key, _)| key.name == "limits") {
        let fields = limits.entries().iter().flat_map(|(_, limit)| limit.entries());
        for (_, file) in fields.filter(|(key, _)| FIELDS.contains(&key.name.as_str())) {
            if let Value::Text(path) = &file.value {
                files.push(path.into());
            }
        }
    }
    files.sort();
    files.dedup();
    files
}
