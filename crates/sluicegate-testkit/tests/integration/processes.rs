//! Tests of second processes: the words that they get and say, and that none fails silently.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use sluicegate_testkit::processes::{Process, say, told};

#[test]
#[ignore = "a process of the tests below"]
fn process_that_divides() {
    let [dividend, divisor] = told();
    say("dividing");
    say(dividend.parse::<u64>().unwrap() / divisor.parse::<u64>().unwrap());
}

/// Returns the lines that a process said, or the reason why it failed.
fn end_of(test: &str, words: &[&str]) -> Result<Vec<String>, String> {
    let process = Process::start(test, words);
    let end = catch_unwind(AssertUnwindSafe(|| process.finish()));
    end.map_err(|panic| *panic.downcast::<String>().unwrap())
}

#[test]
fn a_process_is_told_words_and_says_lines() {
    assert_eq!(end_of("processes::process_that_divides", &["42", "7"]).unwrap(), ["dividing", "6"]);
    let mut heard = Process::start("processes::process_that_divides", &["42", "7"]);
    assert_eq!(heard.hear().as_deref(), Some("dividing"));
    assert_eq!(heard.finish(), ["6"]);
}

#[test]
fn a_process_that_fails_or_is_not_there_fails_its_test() {
    let failed = end_of("processes::process_that_divides", &["42", "0"]).unwrap_err();
    assert!(failed.contains("after it said [\"dividing\"]"), "{failed}");
    let of_three = end_of("processes::process_that_divides", &["42", "7", "1"]).unwrap_err();
    assert!(of_three.contains("ended with"), "{of_three}");
    for no_process in
        ["processes::no_such_process", "processes::a_process_is_told_words_and_says_lines"]
    {
        let none = end_of(no_process, &["42", "7"]).unwrap_err();
        assert!(none.contains("no `#[ignore]`d test"), "{none}");
    }
}
