//! Properties that hold for any input from a client, tested on random input and on the seeds of the
//! fuzzer. The fuzz targets of the same names run the same functions.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod forwarded;
mod key_expression;

use std::fs;
use std::path::Path;

use proptest::prelude::*;

/// Runs a function on the seeds of a fuzz target.
fn on_seeds(target: &str, holds: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut seeds = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        holds(&fs::read(entry.unwrap().path()).unwrap());
        seeds += 1;
    }
    assert!(seeds > 0, "{} has no seeds", folder.display());
}

/// Bytes made of meaningful words and random bytes.
fn input(words: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let word = prop::sample::select(words).prop_map(|word| word.as_bytes().to_vec());
    let piece = prop_oneof![4 => word, 1 => prop::collection::vec(any::<u8>(), 0..4)];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

#[test]
fn the_seeds_of_the_fuzzer_hold() {
    on_seeds("forwarded", forwarded::holds);
    on_seeds("key_expression", key_expression::holds);
}

proptest! {
    #[test]
    fn no_field_hides_or_replaces_what_a_proxy_wrote(
        choice in any::<[u8; 2]>(),
        lines in input(&[
            "for=", "For=\"", ";", ",", ", ", "\"", "\\", "[", "]", ":80", "_x", "unknown", "\n",
            "10.0.0.2", "6.6.6.6", "2001:db8::6", "::ffff:10.0.0.2", "by=", "proto=https",
        ]),
    ) {
        forwarded::holds(&[&choice[..], &lines].concat());
    }

    #[test]
    fn any_expression_makes_one_key_of_each_request(
        lines in input(&[
            "ip", "user", "method", "path", "route", "host", "header:", "cookie:", "query:", "+",
            "'", "\\", " ", ":", "a", "x-a", "\n", "/", "?", "&", "=", "%61", ";", "cookie: ",
            "host: ", "x-a: ",
        ]),
    ) {
        key_expression::holds(&lines);
    }
}
