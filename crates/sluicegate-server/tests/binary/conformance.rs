//! Tests the runner of case files.

use std::fs;
use std::path::PathBuf;

use crate::support::{File, sluicegate};

fn samples() -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../sluicegate-conformance/data/conformance-samples.jsonl");
    path.to_str().unwrap().to_owned()
}

/// Returns the samples `count` times, each under a different name.
pub(crate) fn samples_times(count: usize) -> String {
    let samples = fs::read_to_string(samples()).unwrap();
    let again = |number: usize| samples.replace("{\"id\":\"", &format!("{{\"id\":\"{number} "));
    (0..count).map(again).collect()
}

/// Returns the number of cases in the samples.
pub(crate) fn cases() -> usize {
    fs::read_to_string(samples()).unwrap().lines().filter(|line| !line.trim().is_empty()).count()
}

pub(crate) fn run(args: &[&str]) -> crate::support::Done {
    sluicegate(&[&["conformance", &samples()], args].concat())
}

#[test]
fn the_samples_pass_in_the_embedded_store() {
    let done = run(&[]);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{done:?}");
    assert_eq!(done.stdout, format!("{} passed, 0 failed\n", cases()));
    let json = run(&["--json", "--store", "memory"]);
    assert_eq!(json.json()["passed"], cases());
    assert_eq!(json.json()["failures"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_wrong_answer_is_named_by_case_event_and_field() {
    let case = r#"{"id":"wrong","algorithm":"token_bucket","params":{"capacity":4,"refill":3,"per_ms":1000},"events":[{"t_ms":0,"cost":4,"expect":"allow","remaining":1},{"t_ms":0,"cost":1,"expect":"deny","retry_after_ms":334}]}"#;
    let right = case.replace("wrong", "right").replace("\"remaining\":1", "\"remaining\":0");
    let file = File::new("cases.jsonl", &format!("{case}\n{right}\n"));
    let done = sluicegate(&["conformance", file.path()]);
    assert_eq!(done.status, 1);
    assert_eq!(done.stdout, "wrong: event 0: remaining: expected 1, got 0\n1 passed, 1 failed\n");
    let json = sluicegate(&["conformance", file.path(), "--json"]);
    assert_eq!(json.status, 1);
    assert_eq!(json.json()["failures"][0]["field"], "remaining");
}

#[test]
fn a_file_that_is_none_is_exit_2_with_its_line() {
    let file = File::new("cases.jsonl", "\n{\"id\":1}\n");
    let done = sluicegate(&["conformance", file.path()]);
    assert_eq!((done.status, done.stdout.as_str()), (2, ""));
    assert!(done.stderr.starts_with(&format!("error: {}: line 2", file.path())), "{}", done.stderr);
    assert_eq!(sluicegate(&["conformance", "/no/such.jsonl"]).status, 2);
    for text in ["", "\n \n", "\u{feff}"] {
        let none = File::new("cases.jsonl", text);
        let done = sluicegate(&["conformance", none.path()]);
        assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{text:?}");
        assert_eq!(done.stderr, format!("error: {} holds no case\n", none.path()));
    }
}

#[test]
fn a_case_can_do_nothing_to_the_terminal() {
    let case = r#"{"id":"\u001b[2J","algorithm":"sliding_log","params":{"limit":1,"window_ms":5},"events":[{"t_ms":0,"cost":1,"expect":"deny"}]}"#;
    let file = File::new("cases.jsonl", case);
    let done = sluicegate(&["conformance", file.path()]);
    assert_eq!(
        done.stdout,
        "\\u{1b}[2J: event 0: expect: expected deny, got allow\n0 passed, 1 failed\n"
    );
    let file = File::new("cases.jsonl", &case.replace("limit\"", "\\u0007\""));
    let done = sluicegate(&["conformance", file.path()]);
    assert_eq!(done.status, 2);
    assert!(!done.stderr.contains(['\u{1b}', '\u{7}']), "{:?}", done.stderr);
}

#[test]
fn a_store_that_is_down_is_exit_3_and_says_nothing_of_charges() {
    // A free port could be given to the server of another test meanwhile.
    let store = "redis://127.0.0.1:1";
    let done = run(&["--store", store, "--deadline", "200ms"]);
    assert_eq!((done.status, done.stdout.as_str()), (3, ""));
    assert!(done.stderr.contains(store) && !done.stderr.contains("charged"), "{}", done.stderr);
}
