//! Any bytes as a recorded log: every line is a request, a header or malformed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sluicegate_replay::LogReader;

fuzz_target!(|log: &[u8]| {
    let recording = LogReader::new("log").read(log);
    // Packed data has no lines of its own, and may be damaged. UTF-16 has other line breaks.
    let packed =
        [&b"\x1f\x8b"[..], b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ\0", b"\xff\xfe", b"\xfe\xff"];
    let is_skipped = log.get(1..4) == Some(&b"\x2a\x4d\x18"[..]);
    if is_skipped || packed.iter().any(|magic| log.starts_with(magic)) {
        return;
    }
    let recording = recording.expect("a slice can be read");
    let read = recording.requests() + recording.malformed() + recording.headers();
    assert_eq!(read, recording.lines());
    if recording.format().is_none() {
        // The reader gives up after the first lines.
        return;
    }
    // A line break at the end begins no further line.
    let breaks = log.iter().filter(|&&byte| byte == b'\n').count();
    let open = usize::from(log.last().is_some_and(|&last| last != b'\n'));
    assert_eq!(recording.lines(), (breaks + open) as u64);
});
