//! The table of origins: each of its rows names tests that exist.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use crate::servers::workspace_root;

/// How many items each of the five designs has.
const ITEMS: [usize; 5] = [18, 12, 11, 17, 11];

#[test]
fn every_origin_has_its_row_and_every_row_a_test_that_exists() {
    let table = fs::read_to_string(workspace_root().join("docs/origins.md")).unwrap();
    let mut tests = HashSet::new();
    for folder in ["crates", "examples", "xtask"] {
        collect(&workspace_root().join(folder), &mut tests);
    }
    let mut rows = table.lines().filter(|line| line.starts_with("| S"));
    for (design, items) in ITEMS.iter().enumerate() {
        for item in 1..=*items {
            let row = rows.next().unwrap_or_default();
            let cells: Vec<&str> = row.split(" | ").collect();
            assert_eq!(cells[0], format!("| S{design}.{item}"), "{row}");
            let named: Vec<&str> = cells[3].split('`').skip(1).step_by(2).collect();
            assert!(!named.is_empty(), "{row}");
            for name in named {
                assert!(tests.contains(name), "there is no test called {name}: {row}");
            }
        }
    }
    assert_eq!(rows.next(), None);
}

/// The names of the functions below an attribute that makes them tests.
fn collect(folder: &Path, tests: &mut HashSet<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, tests);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let mut is_test = false;
            for line in text.lines().map(str::trim) {
                if line.starts_with("#[") {
                    is_test |= line.contains("test]") || line.contains("test(");
                } else if let Some((_, rest)) = line.split_once("fn ").filter(|_| is_test) {
                    tests.insert(rest.split(['(', '<']).next().unwrap_or_default().to_owned());
                    is_test = false;
                }
            }
        }
    }
}
