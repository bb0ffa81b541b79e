//! Any bytes as the field with a client's address: an untrusted peer is identified by its own
//! address, regardless of the field.

#![no_main]

#[path = "../../crates/sluicegate-http/tests/any_bytes/forwarded.rs"]
mod forwarded;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| forwarded::holds(input));
