//! Any bytes of a client in Redis' protocol: each answer is well formed, and they are the same however the bytes arrive.

#![no_main]

#[path = "../../crates/sluicegate-resp/tests/any_bytes/connection.rs"]
mod connection;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| connection::holds(input));
