//! Malicious and broken files are refused or read, in bounded time and memory.

use proptest::prelude::*;
use sluicegate_envoy::incumbent::{LoadErrors, LoadOptions, Rules};

const FILE: &str = "\
%YAML 1.1
---
domain: &d \"shop\"   # a comment
descriptors:
  - key: plan
    value: 'gold*'
    rate_limit: &limit {unit: hour, requests_per_unit: 0x10, replaces: [{name: \"\\u00e9\"}]}
    metadata: {a: [1, 2.5, ~], *d : !!binary aGk=}
    share_threshold: yes
    descriptors:
    - {key: |-
        path, value: >-
        text}
    - key: path
      rate_limit:
        <<: [*limit, {name: own}]
        unit: day
      x_sluicegate: {a: {b: [c]}}
";

fn load(text: &[u8]) -> Result<Rules, LoadErrors> {
    Rules::load([("f.yaml", text)], LoadOptions::default())
}

/// Returns the first problem of a file that is refused.
fn problem(text: &str) -> String {
    load(text.as_bytes()).expect_err("the file is refused").to_string()
}

#[test]
fn every_prefix_of_a_file_is_read_or_refused() {
    for end in 0..=FILE.len() {
        for tail in ["", "\n", "\"", "}", "]", ":", "\n\t", "*limit", "\u{7}"] {
            let text = [FILE.get(..end).unwrap_or_default(), tail].concat();
            let _ = load(text.as_bytes()).map(|rules| rules.lines().count());
        }
    }
}

#[test]
fn nesting_is_bounded() {
    for (open, close) in [("[", "]"), ("{a: ", "}"), ("- ", ""), ("? ", ""), ("[{a: ", "}]")] {
        for count in [199, 201, 5_000, 100_000] {
            let text = [open.repeat(count), close.repeat(count)].concat();
            let _ = problem(&text);
        }
    }
    let deep = "{\"key\": \"k\", \"descriptors\": [".repeat(90);
    let text = format!("{{\"domain\": \"d\", \"descriptors\": [{deep}{}]}}", "]}".repeat(90));
    assert!(load(text.as_bytes()).is_ok());
    let deep = "{\"key\": \"k\", \"descriptors\": [".repeat(150);
    let text = format!("{{\"domain\": \"d\", \"descriptors\": [{deep}{}]}}", "]}".repeat(150));
    assert!(problem(&text).contains("levels deep"), "{}", problem(&text));
}

#[test]
fn aliases_stand_for_a_bounded_number_of_values() {
    let mut text = "domain: d\nmetadata:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..30 {
        let before = format!("*a{}, ", level - 1).repeat(10);
        text.push_str(&format!("  a{level}: &a{level} [{before}]\n"));
    }
    assert!(problem(&text).contains("stand for too much"), "{}", problem(&text));
    let mut text = "domain: d\nmetadata:\n  a0: &a0 {x: x}\n".to_owned();
    for level in 1..40 {
        let before = level - 1;
        text.push_str(&format!(
            "  a{level}: &a{level} {{<<: [*a{before}, *a{before}, *a{before}]}}\n"
        ));
    }
    assert!(problem(&text).contains("stand for too much"), "{}", problem(&text));
    let mut text = "domain: d\nmetadata:\n  a0: &a0 [x]\n".to_owned();
    for level in 1..500 {
        text.push_str(&format!("  a{level}: &a{level} [*a{}]\n", level - 1));
    }
    assert!(problem(&text).contains("levels deep"), "{}", problem(&text));
}

#[test]
fn an_alias_must_not_hold_itself() {
    for text in ["domain: &a [*a, *a]\n", "domain: d\nmetadata: &a {b: *a}\n", "&a {<<: *a}\n"] {
        assert!(problem(text).contains("stands for a value that holds it"), "{}", problem(text));
    }
}

#[test]
fn long_values_are_read_or_refused() {
    let digits = "9".repeat(100_000);
    for value in [
        digits.clone(),
        format!("0x{digits}"),
        format!("1.{digits}"),
        format!("-{digits}e{digits}"),
    ] {
        let text = format!(
            "domain: d\ndescriptors:\n  - key: k\n    rate_limit: {{unit: hour, requests_per_unit: {value}}}\n"
        );
        let message = problem(&text);
        assert!(message.len() < 500, "{message}");
    }
    let big = vec![b' '; Rules::MAX_BYTES + 1];
    assert!(load(&big).is_err());
}

#[test]
fn many_problems_are_counted() {
    let keys: String = (0..5_000).map(|index| format!("  - {{k{index}: 1}}\n")).collect();
    let errors =
        load(format!("domain: d\ndescriptors:\n{keys}").as_bytes()).expect_err("all are wrong");
    assert_eq!(errors.problems().len(), 101);
    assert!(errors.problems()[100].message().starts_with("4900 more"));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = load(&bytes);
    }

    #[test]
    fn any_tokens_are_read_or_refused(
        tokens in proptest::collection::vec(
            prop::sample::select(vec![
                "domain: d\n", "descriptors:\n", "  ", "- ", "? ", ": ", "{", "}", "[", "]", ",", "&a ", "*a",
                "!!int ", "!", "|\n", ">\n", "'", "\"", "<<: ", "\n", "\t", "#", "---\n", "...\n", "%TAG ! x\n",
                "key: k\n", "rate_limit: ", "{unit: day}", "metadata: ", "x_sluicegate: ", "1", "1.5", "~",
            ]),
            0..60,
        )
    ) {
        let _ = load(tokens.concat().as_bytes());
    }

    #[test]
    fn a_changed_file_is_read_or_refused(at in 0..FILE.len(), byte in any::<u8>(), removed in 0..4_usize) {
        let mut bytes = FILE.as_bytes().to_vec();
        let end = (at + removed).min(bytes.len());
        bytes.splice(at..end, [byte]);
        let _ = load(&bytes);
    }
}
