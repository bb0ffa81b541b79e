//! Any bytes as a recorded log: every line is a request or malformed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sluicegate_server::count_recording;

fuzz_target!(|log: &[u8]| {
    let count = count_recording(log);
    assert_eq!(count.requests + count.malformed, count.lines);
    // A break at the very end begins no further line.
    let breaks = log.iter().filter(|&&byte| byte == b'\n').count();
    let open = usize::from(log.last().is_some_and(|&last| last != b'\n'));
    assert_eq!(count.lines, (breaks + open) as u64);
});
