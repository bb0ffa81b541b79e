//! Any text as a key expression, and any request under it. An expression prints as it reads, and its
//! key consists of the values of its components.

#![no_main]

#[path = "../../crates/sluicegate-http/tests/any_bytes/key_expression.rs"]
mod key_expression;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| key_expression::holds(input));
