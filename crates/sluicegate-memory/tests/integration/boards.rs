//! Boards of keys.

use std::sync::Arc;
use std::time::Duration;

use sluicegate_conformance::suite::block_on;
use sluicegate_core::for_stores::{Post, Posted};
use sluicegate_core::{
    Limit, ManualClock, OpenOptions, OpenedLimit as _, Span, Store as _, Timestamp,
};
use sluicegate_memory::MemoryStore;

#[test]
fn a_board_has_the_last_entry_of_each_process_until_it_ends() {
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros(1_000_000).unwrap()));
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let open = |name| store.open(Limit::new(name, ["gcra 1/s"]).unwrap(), OpenOptions::default());
    let (limit, other) = (open("fleet"), open("other"));
    let post = |name, value, seconds: u64| {
        let lasts = Span::from_millis(seconds * 1_000).unwrap();
        let post = Post { name, value, lasts };
        names(&block_on(limit.exchange(b"all", Some(post))).unwrap())
    };
    assert_eq!(post(b"b", b"1", 3), "b=1");
    assert_eq!(post(b"a", b"2", 1), "a=2 b=1");
    assert_eq!(post(b"b", b"3", 2), "a=2 b=3");
    let look = |limit: &dyn sluicegate_core::OpenedLimit, key: &[u8]| {
        names(&block_on(limit.exchange(key, None)).unwrap())
    };
    assert_eq!((look(&limit, b"one").as_str(), look(&other, b"all").as_str()), ("", ""));
    clock.advance(Duration::from_secs(1));
    assert_eq!(look(&limit, b"all"), "b=3");
    clock.advance(Duration::from_secs(1));
    assert_eq!(look(&limit, b"all"), "");
    let empty = Post { name: b"", value: b"", lasts: Span::SECOND };
    let wrong = block_on(limit.exchange(b"all", Some(empty))).unwrap_err();
    assert!(wrong.to_string().contains("0 bytes as 0 bytes"), "{wrong}");
}

fn names(board: &[Posted]) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let entries = board.iter().map(|post| format!("{}={}", text(&post.name), text(&post.value)));
    entries.collect::<Vec<_>>().join(" ")
}
