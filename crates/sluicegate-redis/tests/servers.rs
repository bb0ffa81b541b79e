//! The store on real servers, every one that is installed, held to all that a store is.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use sluicegate_core::{Limit, OpenOptions, OpenedLimit as _, Operation, Request, Span, Store as _};
use sluicegate_redis::{Program, RedisStore, Script};
use sluicegate_testkit::servers::{self, Reply, Server};

sluicegate_conformance::suite!(each[servers::shared_each().unwrap().into_iter().map(store)]);

fn store(server: &Server) -> RedisStore {
    store_under(server, &servers::fresh_prefix("store"))
}

fn store_under(server: &Server, prefix: &str) -> RedisStore {
    RedisStore::builder(&server.url())
        .unwrap()
        .prefix(prefix.parse().unwrap())
        .deadline(Duration::from_secs(5))
        .build()
}

/// A reset is no script's business, as an operation is that is newer than the scripts: neither may
/// be taken for a check or for a peek.
#[test]
fn a_script_refuses_an_operation_that_it_does_not_know() {
    let limit = Limit::new("test".parse().unwrap(), vec!["gcra 1/s".parse().unwrap()]).unwrap();
    let script = Script::of(&limit);
    let reset = Request::new(Operation::Reset, b"alice");
    let program = Program::new(&limit, Span::SECOND).bytes(&limit, &reset, |_| 0);
    for server in servers::shared_each().unwrap() {
        let key = servers::fresh_prefix("unknown");
        let words: [&[u8]; 5] = [b"EVAL", script.text().as_bytes(), b"1", key.as_bytes(), &program];
        let reply = server.command(&words).unwrap();
        assert!(matches!(&reply, Reply::Error(text) if text.contains("operation 9")), "{reply}");
        assert_eq!(server.cli(&["EXISTS", &key]).unwrap(), "0");
    }
}

/// Giving back puts a value in place of another, which would take the key's life with it.
#[tokio::test]
async fn a_cancelled_reservation_leaves_its_key_the_life_that_it_had() {
    for server in servers::shared_each().unwrap() {
        let prefix = servers::fresh_prefix("cancel");
        let store = store_under(server, &prefix);
        let specs =
            ["gcra 1/min burst 9", "shaper 1/min queue 9"].map(|spec| spec.parse().unwrap());
        let limit = Limit::new("test".parse().unwrap(), specs.to_vec()).unwrap();
        let opened = store.open(limit, OpenOptions::default());
        let keys = || server.cli(&["KEYS", &format!("{prefix}*")]).unwrap();
        let life = |key: &str| server.cli(&["PTTL", key]).unwrap().parse::<i64>().unwrap();
        let reserve = Operation::Reserve { within: Span::HOUR };
        let reserve = Request::new(reserve, b"alice").with_receipt();
        let mut receipts = Vec::new();
        for _ in 0..3 {
            let decision = opened.ask(reserve).wait().await.unwrap();
            receipts.push(decision.receipt().unwrap().clone());
        }
        let key = keys();
        let then = life(&key);
        // Three turns a minute apart.
        assert!((120_000..=180_001).contains(&then), "{then}");
        for (left, receipt) in receipts.iter().enumerate().rev() {
            assert!(opened.ask(Request::cancel(receipt)).wait().await.unwrap().is_allowed());
            let now = life(&key);
            if left == 0 {
                assert_eq!((keys().as_str(), now), ("", -2), "as it was before");
            } else {
                assert!((1..=then).contains(&now), "{left} left: {now} after {then}");
            }
        }
    }
}
