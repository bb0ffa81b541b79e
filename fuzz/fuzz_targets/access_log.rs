//! Any bytes as a recorded log: every line is a request or malformed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sluicegate_replay::LogReader;

fuzz_target!(|log: &[u8]| {
    let recording = LogReader::new("log").read(log);
    // The bytes of gzip have no lines of their own, and may be damaged.
    if log.starts_with(b"\x1f\x8b") {
        return;
    }
    let recording = recording.expect("a slice can be read");
    assert_eq!(recording.requests() + recording.malformed(), recording.lines());
    // A break at the very end begins no further line.
    let breaks = log.iter().filter(|&&byte| byte == b'\n').count();
    let open = usize::from(log.last().is_some_and(|&last| last != b'\n'));
    assert_eq!(recording.lines(), (breaks + open) as u64);
});
