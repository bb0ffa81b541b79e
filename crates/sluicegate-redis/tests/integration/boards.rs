//! Boards of keys, on every installed server.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::time::Duration;

use sluicegate_core::for_stores::{Post, Posted};
use sluicegate_core::{Limit, OpenOptions, OpenedLimit as _, Span, Store as _};
use sluicegate_redis::{RedisLimit, RedisStore};
use sluicegate_testkit::servers;

#[tokio::test]
async fn processes_see_each_others_entries_until_they_end() {
    for server in servers::shared_each().unwrap() {
        let prefix = servers::fresh_prefix("board");
        let open = || {
            let store = RedisStore::builder(&server.url()).unwrap().prefix(prefix.parse().unwrap());
            let store = store.deadline(Duration::from_secs(5)).build();
            store.open(Limit::new("fleet", ["gcra 1/s"]).unwrap(), OpenOptions::default())
        };
        let (one, other) = (open(), open());
        let hour = Span::HOUR;
        let (long, binary) = (vec![b'x'; Post::MAX_VALUE], [0, 13, 10, 255]);
        assert_eq!(put(&one, b"one", &binary, hour).await, [posted("one", &binary)]);
        let both = [posted("one", &binary), posted("other", &long)];
        assert_eq!(put(&other, b"other", &long, hour).await, both);
        assert_eq!(one.exchange(b"all", None).await.unwrap(), both);
        assert_eq!(one.exchange(b"none", None).await.unwrap(), []);

        let key = format!("{prefix}:fleet:{{all}}:board");
        let life: u64 = server.cli(&["PTTL", &key]).unwrap().parse().unwrap();
        assert!((3_590_000..=3_600_000).contains(&life), "{life}");

        // Replaces the entry, which then ends.
        put(&other, b"other", b"", Span::MILLISECOND).await;
        loop {
            let left = one.exchange(b"all", None).await.unwrap();
            if left == [posted("one", &binary)] {
                break;
            }
            assert_eq!(left, [posted("one", &binary), posted("other", b"")]);
        }
    }
}

#[tokio::test]
async fn a_full_board_takes_no_further_process() {
    let server = servers::shared_each().unwrap().into_iter().next().unwrap();
    let prefix = servers::fresh_prefix("board");
    let store = RedisStore::builder(&server.url()).unwrap().prefix(prefix.parse().unwrap()).build();
    let limit = store.open(Limit::new("fleet", ["gcra 1/s"]).unwrap(), OpenOptions::default());
    for number in 0..Post::MOST {
        put(&limit, number.to_string().as_bytes(), b"", Span::HOUR).await;
    }
    assert_eq!(put(&limit, b"further", b"", Span::HOUR).await.len(), Post::MOST);
    let board = put(&limit, b"7", b"again", Span::HOUR).await;
    assert_eq!(board.len(), Post::MOST);
    assert!(board.contains(&posted("7", b"again")) && !board.contains(&posted("further", b"")));
}

async fn put(limit: &RedisLimit, name: &[u8], value: &[u8], lasts: Span) -> Vec<Posted> {
    limit.exchange(b"all", Some(Post { name, value, lasts })).await.unwrap()
}

fn posted(name: &str, value: &[u8]) -> Posted {
    Posted { name: name.into(), value: value.to_vec() }
}
