//! The files that a configuration names, which a watch follows too.

use std::path::PathBuf;

use crate::config_file::ConfigCaps;
use crate::config_file::tree::{self, Node, Value};

/// The fields of a limit that name a file.
const OF_LIMITS: [&str; 3] = ["allow_file", "block_file", "overrides_file"];
/// The fields of a client that name a file.
const OF_CLIENTS: [&str; 1] = ["token_file"];

/// Returns the files that a configuration names, each once.
pub(in crate::config_file) fn named(text: &str, caps: ConfigCaps) -> Vec<PathBuf> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Ok((root, _)) = tree::read(text, caps.max_values) else { return Vec::new() };
    let mut files: Vec<PathBuf> = Vec::new();
    for (key, node) in root.entries() {
        match (key.name.as_str(), &node.value) {
            ("limits", Value::Map(limits)) => {
                limits.iter().for_each(|(_, limit)| add(limit, &OF_LIMITS, &mut files));
            }
            ("clients", Value::List(clients)) => {
                clients.iter().for_each(|client| add(client, &OF_CLIENTS, &mut files));
            }
            _ => {}
        }
    }
    files.sort();
    files.dedup();
    files
}

/// Adds the files that the fields of a map name.
fn add(map: &Node, fields: &[&str], files: &mut Vec<PathBuf>) {
    for (_, file) in map.entries().iter().filter(|(key, _)| fields.contains(&key.name.as_str())) {
        if let Value::Text(path) = &file.value {
            files.push(path.into());
        }
    }
}
