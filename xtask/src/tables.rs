//! Checks tables of the documentation whose rows name tests. Every row must exist, and its tests too.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use crate::servers::workspace_root;

/// The number of items of each of the five designs.
const ITEMS: [usize; 5] = [18, 12, 11, 17, 11];

#[test]
fn every_origin_has_its_row_and_every_row_a_test_that_exists() {
    let items = ITEMS.iter().enumerate();
    let numbers =
        items.flat_map(|(design, items)| (1..=*items).map(move |item| format!("S{design}.{item}")));
    let rows = rows("docs/origins.md", 'S');
    assert_eq!(
        rows.iter().map(|row| row.number.clone()).collect::<Vec<_>>(),
        numbers.collect::<Vec<_>>()
    );
}

#[test]
fn every_promise_of_the_readme_has_its_row_and_every_row_a_test_that_exists() {
    let rows = rows("docs/invariants.md", 'P');
    let readme = words(&read("README.md"));
    for (index, row) in rows.iter().enumerate() {
        assert_eq!(row.number, format!("P{}", index + 1));
        assert!(readme.contains(&words(&row.what)), "the README doesn't say: {}", row.what);
    }
    // Each guarantee begins with bold text, which is the promise of some row.
    let (_, guarantees) = readme.split_once("## What it guarantees").unwrap();
    let guarantees = guarantees.split("##").next().unwrap();
    let bold: Vec<&str> = guarantees.split("**").skip(1).step_by(2).collect();
    assert!(bold.len() > 1);
    for promise in bold {
        let is_there = rows.iter().any(|row| words(&row.what).contains(promise));
        assert!(is_there, "docs/invariants.md has no row for: {promise}");
    }
}

/// A row: its number, its subject, and more cells. The last cell names tests.
struct Row {
    number: String,
    what: String,
}

/// Returns the rows whose number begins with that letter.
fn rows(document: &str, letter: char) -> Vec<Row> {
    let tests = tests_of_the_workspace();
    let text = read(document);
    let rows = text.lines().filter(|line| line.starts_with(&format!("| {letter}")));
    let rows = rows.map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [number, what, _, shown_by] = cells[..] else { panic!("not four cells: {line}") };
        let named: Vec<&str> = shown_by.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "no test is named: {line}");
        for name in named {
            assert!(tests.contains(name), "no test called {name} is run: {line}");
        }
        Row { number: number.to_owned(), what: what.to_owned() }
    });
    rows.collect()
}

/// Joins the words of a text, without its line breaks.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn read(path: &str) -> String {
    fs::read_to_string(workspace_root().join(path)).unwrap()
}

fn tests_of_the_workspace() -> HashSet<String> {
    let mut tests = HashSet::new();
    for folder in ["crates", "examples", "xtask"] {
        collect(&workspace_root().join(folder), &mut tests);
    }
    tests
}

/// Gathers the tests of all files in a folder.
fn collect(folder: &Path, tests: &mut HashSet<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, tests);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            tests.extend(tests_in(&text));
            if path.ends_with("sluicegate-conformance/src/suite.rs") {
                tests.extend(tests_of_the_suite(&text));
            }
        }
    }
}

/// Returns the names of the functions that the test command runs. An attribute makes them tests, and
/// no attribute ignores them.
fn tests_in(text: &str) -> Vec<String> {
    let (mut tests, mut is_test, mut is_ignored) = (Vec::new(), false, false);
    for line in text.lines().map(str::trim) {
        if let Some(attribute) = line.strip_prefix("#[") {
            let path = attribute.split(['(', ']', '=']).next().unwrap_or_default().trim();
            is_test |= path == "test" || path.ends_with("::test");
            is_ignored |= path == "ignore" || attribute.contains("ignore)");
        } else if let Some((_, rest)) = line.split_once("fn ").filter(|_| !line.starts_with("//")) {
            if is_test && !is_ignored {
                tests.push(rest.split(['(', '<']).next().unwrap_or_default().to_owned());
            }
            (is_test, is_ignored) = (false, false);
        }
    }
    tests
}

/// Returns the checks from which `suite!` makes a test for every store under it.
fn tests_of_the_suite(text: &str) -> Vec<String> {
    let (_, list) = text.split_once("@tests [$stores]\n").unwrap();
    let (list, _) = list.split_once(')').unwrap();
    list.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn a_test_is_what_the_test_command_runs() {
    let tests = tests_in(
        r#"
        mod a_module {}
        fn a_helper() {}
        #[cfg(test)]
        fn a_helper_of_tests() {}
        // #[test]
        // fn a_comment() {}
        #[test]
        #[allow(clippy::panic, reason = "it is fn a test")]
        /// fn that doesn't count
        fn plain() {}
        #[tokio::test(start_paused = true)]
        async fn with_a_runtime() {}
        #[test]
        #[ignore = "a process of another"]
        fn ignored() {}
        #[ignore]
        #[test]
        fn ignored_before() {}
        #[test]
        #[cfg_attr(miri, ignore)]
        fn ignored_at_times() {}
        #[test]
        pub(crate) fn last<T>() {}
        "#,
    );
    assert_eq!(tests, ["plain", "with_a_runtime", "last"]);
    let suite = read("crates/sluicegate-conformance/src/suite.rs");
    assert!(tests_of_the_suite(&suite).contains(&"the_case_file_passes".to_owned()));
}
