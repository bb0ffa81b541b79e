//! Any bytes as the field that says a client's address: a stranger is known by its own address,
//! whatever it sends.

#![no_main]

#[path = "../../crates/sluicegate-http/tests/any_bytes/forwarded.rs"]
mod forwarded;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| forwarded::holds(input));
