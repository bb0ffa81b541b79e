//! Style rules for every Lua file, which keep the files readable.

use std::fs;
use std::path::Path;

use sluicegate_testkit::lua::check_syntax;

use super::constants;
use super::token::{is_capital, tokens};
use crate::constant::Constant;

/// The longest line, in characters.
const LINE: usize = 120;
/// The longest function, in lines, without functions inside it.
const FUNCTION: usize = 80;
/// Maximum number of values of one `unpack`.
const VALUES: usize = 10;

/// Returns the name and the text of each file.
fn files() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lua");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn every_file_is_lua() {
    for (name, text) in files() {
        check_syntax(&text).map_err(|error| format!("{name}: {error}")).unwrap();
    }
}

#[test]
fn every_file_says_what_it_is() {
    for (name, text) in files() {
        assert!(text.starts_with("-- "), "{name}");
    }
}

#[test]
fn no_line_is_long() {
    for (name, text) in files() {
        for (index, line) in text.lines().enumerate() {
            assert!(line.chars().count() <= LINE, "{name}:{}", index + 1);
        }
    }
}

/// Returns the first line of each function, and the number of its own lines.
fn functions(text: &str) -> Vec<(usize, usize)> {
    let mut functions = Vec::new();
    // For each open block of a function: its first line, and the number of lines of inner functions.
    let mut blocks: Vec<Option<(usize, usize)>> = Vec::new();
    let mut line = 1;
    for token in tokens(text) {
        match token {
            "function" => blocks.push(Some((line, 0))),
            "do" | "if" | "repeat" => blocks.push(None),
            "end" | "until" => {
                if let Some((start, others)) = blocks.pop().expect("a block ends that is open") {
                    let all = line + 1 - start;
                    functions.push((start, all - others));
                    if let Some(outer) = blocks.iter_mut().rev().find_map(Option::as_mut) {
                        outer.1 += all;
                    }
                }
            }
            _ => line += token.matches('\n').count(),
        }
    }
    functions
}

#[test]
fn no_function_is_long() {
    for (name, text) in files() {
        for (line, lines) in functions(&text) {
            assert!(lines <= FUNCTION, "{name}:{line}: {lines} lines");
        }
    }
}

#[test]
fn functions_are_counted_without_those_in_them() {
    let text = "function A()\n  if x then\n    y = function()\n      z()\n    end\n  end\nend\n";
    assert_eq!(functions(text), [(3, 3), (1, 4)]);
}

#[test]
fn no_unpack_gives_many_values() {
    for (name, text) in files() {
        let mut before = ["", ""];
        for token in tokens(&text) {
            if before == ["unpack", "("] && is_capital(token) {
                let Some(Constant::Format(format)) = constants::find(token) else {
                    // An entry of a kernel has at most the numbers of a state.
                    continue;
                };
                assert!(format.values() <= VALUES, "{name}: {token}");
            }
            before = [before[1], token];
        }
    }
}
