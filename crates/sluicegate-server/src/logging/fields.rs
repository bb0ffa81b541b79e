//! Tests that `docs/operation.md` lists the fields of all events.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The fields that every event has.
const OF_ALL: [&str; 4] = ["timestamp", "level", "target", "message"];

#[test]
fn the_guide_lists_the_fields_of_all_events() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut used: BTreeSet<String> = OF_ALL.map(str::to_owned).into();
    let mut files = Vec::new();
    for krate in fs::read_dir(root.join("crates")).unwrap() {
        add_sources(&krate.unwrap().path().join("src"), &mut files);
    }
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let text: String = text
            .lines()
            .filter(|line| !line.trim().starts_with("//"))
            .collect::<Vec<_>>()
            .join("\n");
        for level in ["error", "warn", "info", "debug", "trace"] {
            for (at, name) in text.match_indices(&format!("tracing::{level}!(")) {
                used.extend(fields(&text[at + name.len()..]));
            }
        }
    }
    let guide = fs::read_to_string(root.join("docs/operation.md")).unwrap();
    let (_, table) =
        guide.split_once("| field of an event | meaning |\n").expect("the table of fields");
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    let listed = rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2));
    assert_eq!(listed.map(str::to_owned).collect::<BTreeSet<_>>(), used);
}

#[test]
fn fields_are_found_in_the_arguments_of_a_macro() {
    let arguments = r#"target: "x", limit = limit.as_str(), %error, ?kind, count = f("a, b", c), key, "said {x}", y)"#;
    assert_eq!(fields(arguments), ["limit", "error", "kind", "count", "key"]);
    assert_eq!(fields(r#""{line}")"#), [""; 0]);
}

/// Adds the source files of a folder, except for files of tests.
fn add_sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            add_sources(&path, files);
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            files.push(path);
        }
    }
}

/// Returns the names of the fields in the arguments of a macro, before its message.
fn fields(arguments: &str) -> Vec<String> {
    let (mut fields, mut argument) = (Vec::new(), String::new());
    let (mut depth, mut is_text) = (0_u32, false);
    let mut characters = arguments.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => is_text = !is_text,
            '\\' if is_text => drop(characters.next()),
            '(' | '[' | '{' if !is_text => depth += 1,
            ')' | ']' | '}' if !is_text && depth > 0 => depth -= 1,
            ',' | ')' if !is_text && depth == 0 => {
                let whole = std::mem::take(&mut argument);
                let name = whole.split('=').next().unwrap().trim();
                if name.starts_with('"') {
                    break;
                }
                if !name.starts_with("target:") && !name.is_empty() {
                    fields.push(name.trim_start_matches(['%', '?']).to_owned());
                }
                if character == ')' {
                    break;
                }
                continue;
            }
            _ => {}
        }
        argument.push(character);
    }
    fields
}
