//! The answers of redis-cell.

use serde_json::Value;

use crate::support::{Connection, command};

const RECORDED: &str = include_str!("../recorded/cl-throttle.jsonl");

/// Returns whole numbers as an answer.
fn array(numbers: &Value) -> String {
    let numbers: Vec<i64> =
        numbers.as_array().unwrap().iter().map(|it| it.as_i64().unwrap()).collect();
    let integers: String = numbers.iter().map(|number| format!(":{number}\r\n")).collect();
    format!("*{}\r\n{integers}", numbers.len())
}

/// Returns a call with these arguments after its name.
fn call(name: &str, key: &str, arguments: &Value) -> String {
    let arguments = arguments.as_array().unwrap().iter().map(ToString::to_string);
    command(&format!("{name} {key} {}", arguments.collect::<Vec<_>>().join(" ")))
}

#[test]
fn each_recorded_call_has_the_answer_of_redis_cell() {
    let mut connection = Connection::new();
    let mut calls = 0;
    for line in RECORDED.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let id = case["id"].as_str().unwrap();
        let asked = case["calls"].as_array().unwrap();
        for (index, (asked, answer)) in
            asked.iter().zip(case["answers"].as_array().unwrap()).enumerate()
        {
            let said = connection.send(call("CL.THROTTLE", id, asked));
            assert_eq!(said, array(answer), "{id}, call {index}: {asked}");
            calls += 1;
        }
    }
    assert_eq!((RECORDED.lines().count(), calls > 500), (60, true));
}

#[test]
fn the_examples_in_the_readme_of_redis_cell_have_their_answers() {
    let mut connection = Connection::new();
    let mut ask = |words: &str| connection.send(command(words)).replace("\r\n", " ");
    assert_eq!(ask("CL.THROTTLE user123 15 30 60"), "*5 :0 :16 :15 :-1 :2 ");
    assert_eq!(ask("CL.THROTTLE user123 15 30 60 1"), "*5 :0 :16 :14 :-1 :4 ");
    assert_eq!(ask("CL.THROTTLE user123 15 30 60 15"), "*5 :1 :16 :14 :2 :4 ");
    assert_eq!(ask("CL.THROTTLE user123 15 30 60 0"), "*5 :0 :16 :14 :-1 :4 ");
    assert_eq!(ask("CL.THROTTLE user123 15 30 60 17"), "*5 :1 :16 :14 :-1 :4 ");
}

#[test]
fn throttle_has_the_order_of_throttlecrab_and_times_that_are_right() {
    let mut connection = Connection::new();
    let mut ask = |words: &str| connection.send(command(words)).replace("\r\n", " ");
    assert_eq!(ask("THROTTLE a 10 100 60"), "*5 :1 :10 :9 :1 :0 ");
    assert_eq!(ask("THROTTLE a 10 100 60 9"), "*5 :1 :10 :0 :6 :0 ");
    assert_eq!(ask("THROTTLE a 10 100 60"), "*5 :0 :10 :0 :6 :1 ");
    assert_eq!(ask("THROTTLE a 10 100 60 11"), "*5 :0 :10 :0 :6 :-1 ");
}

#[test]
fn what_was_consumed_stays_when_the_numbers_change() {
    let mut connection = Connection::new();
    let mut ask = |words: &str| connection.send(command(words)).replace("\r\n", " ");
    assert_eq!(ask("CL.THROTTLE a 9 1 60 4"), "*5 :0 :10 :6 :-1 :240 ");
    assert_eq!(ask("CL.THROTTLE a 9 2 60 0"), "*5 :0 :10 :6 :-1 :120 ");
    assert_eq!(ask("CL.THROTTLE a 19 1 60 0"), "*5 :0 :20 :16 :-1 :240 ");
}

#[test]
fn a_wrong_number_is_named() {
    let mut connection = Connection::new();
    for (words, problem) in [
        ("CL.THROTTLE a -1 1 1", "max_burst is `-1`, but must be a whole number from 0"),
        ("CL.THROTTLE a x 1 1", "max_burst is `x`"),
        ("CL.THROTTLE a 1 0 1", "count_per_period is `0`"),
        ("CL.THROTTLE a 1 1 0", "period is `0`"),
        ("CL.THROTTLE a 1 1 -5", "period is `-5`"),
        ("CL.THROTTLE a 1 1 1 -1", "quantity is `-1`"),
        ("CL.THROTTLE a 1 1 1 1.5", "quantity is `1.5`"),
        ("CL.THROTTLE a 1 1", "wrong number of arguments for 'cl.throttle' command"),
        ("CL.THROTTLE a 1 1 1 1 1", "wrong number of arguments for 'cl.throttle' command"),
        ("CL.THROTTLE a 9223372036854775807 1 1", "max_burst is `9223372036854775807`"),
        ("CL.THROTTLE a 9007199254740990 1 86400", "max_burst makes a key"),
        ("CL.THROTTLE a 1 1 9223372036854775807", "max_burst makes a key"),
        ("THROTTLE a 0 1 1", "max_burst is `0`, but must be a whole number from 1"),
    ] {
        let answer = connection.send(command(words));
        assert!(answer.starts_with("-ERR ") && answer.contains(problem), "{words}: {answer}");
    }
    // The largest numbers that make sense.
    for words in [
        "CL.THROTTLE b 0 9223372036854775807 1",
        "CL.THROTTLE b 0 9223372036854775807 9223372036854775807",
        "CL.THROTTLE b 9007199254740990 9223372036854775807 1 9223372036854775807",
    ] {
        assert!(connection.send(command(words)).starts_with("*5\r\n"), "{words}");
    }
}

#[test]
fn numbers_that_are_not_exact_are_rounded_down() {
    let mut connection = Connection::new();
    let mut ask = |words: &str| connection.send(command(words)).replace("\r\n", " ");
    // 7 per hour is rounded to one per 514,285,715 µs.
    assert_eq!(ask("CL.THROTTLE a 9999999 7 3600"), "*5 :0 :10000000 :9999999 :-1 :515 ");
    assert_eq!(ask("CL.THROTTLE a 9999999 7 3600 9999999"), "*5 :0 :10000000 :0 :-1 :5142857150 ");
}
