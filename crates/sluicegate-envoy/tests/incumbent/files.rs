//! Files give the recorded rules, or are refused.

use serde_json::Value;
use sluicegate_envoy::incumbent::{LoadOptions, Rules};

use crate::recorded::{cases, files};

/// Cases that differ from the recorded ones, with the reason.
const DIFFERENT: [(&str, &str); 0] = [];

#[test]
fn files_give_the_recorded_rules() {
    let mut failures = Vec::new();
    let cases = cases(include_str!("../recorded/files.jsonl"));
    for case in &cases {
        let name = case["case"].as_str().expect("a name");
        let found = found(case);
        let recorded = recorded(case);
        let reason = DIFFERENT.iter().find(|(different, _)| *different == name);
        match reason {
            None if found != recorded => {
                failures.push(format!("{name}: {recorded:?}, but {found:?}"));
            }
            Some((_, reason)) if found == recorded => {
                failures.push(format!("{name} is equal: {reason}"));
            }
            Some((_, reason)) if found.is_some() && recorded.is_some() => {
                failures.push(format!("{name} has other rules: {reason}"));
            }
            _ => {}
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(DIFFERENT.len() * 100 <= cases.len());
}

/// Returns the sorted lines of the rules, or `None` if the files are refused.
fn found(case: &Value) -> Option<Vec<String>> {
    let options = LoadOptions { merge_domains: case["merge"] == true, strict: true };
    match Rules::load(files(case), options) {
        Ok(rules) => {
            let mut lines: Vec<String> = rules.lines().collect();
            lines.sort();
            Some(lines)
        }
        Err(errors) => {
            assert!(!errors.problems().is_empty());
            for problem in errors.problems() {
                assert!(!problem.message().contains(['\n', '\r', '\t']), "{problem}");
            }
            None
        }
    }
}

fn recorded(case: &Value) -> Option<Vec<String>> {
    let rules = case["rules"].as_array()?;
    Some(rules.iter().map(|rule| line(rule[0].as_str().expect("a path"), &rule[1])).collect())
}

fn line(path: &str, limit: &Value) -> String {
    let mut words = limit.as_str().expect("a limit").split(' ');
    let (number, unit) =
        words.next().and_then(|limit| limit.split_once('/')).expect("a number and a unit");
    let modes: Vec<&str> = words.collect();
    let (shadow, quota) = (modes.contains(&"shadow"), modes.contains(&"quota"));
    format!(
        "{path}: unit={unit} requests_per_unit={number}, shadow_mode: {shadow}, quota_mode: {quota}"
    )
}
