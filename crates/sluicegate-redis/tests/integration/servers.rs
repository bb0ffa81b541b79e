//! The conformance suite of stores, on every installed server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use sluicegate_core::{Limit, OpenOptions, OpenedLimit as _, Operation, Request, Span, Store as _};
use sluicegate_redis::{Program, RedisStore, Script};
use sluicegate_testkit::servers::{self, Reply, Server};

sluicegate_conformance::suite!(leases each[servers::shared_each().unwrap().into_iter().map(store)]);

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

/// The script must not mistake an unknown operation for a check or a peek. Such an operation may be newer
/// than the script.
#[test]
fn a_script_refuses_an_operation_that_it_does_not_know() {
    let limit = Limit::new("test", vec!["gcra 1/s"]).unwrap();
    // A plain check may take a fast path, on which the operation isn't read.
    let peek = Request::new(Operation::Peek, b"alice");
    let mut program = Program::new(&limit, Span::SECOND).bytes(&limit, &peek, |_| 0, None);
    let operation = program.len() - 10;
    program[operation] = 40;
    for server in servers::shared_each().unwrap() {
        let key = servers::fresh_prefix("unknown");
        let words: [&[u8]; 5] =
            [b"EVAL", Script::get().text().as_bytes(), b"1", key.as_bytes(), &program];
        let reply = server.command(&words).unwrap();
        assert!(matches!(&reply, Reply::Error(text) if text.contains("operation 40")), "{reply}");
        assert_eq!(server.cli(&["EXISTS", &key]).unwrap(), "0");
    }
}

/// Giving back replaces a value, which would remove the key's TTL.
#[tokio::test]
async fn a_cancelled_reservation_leaves_its_key_the_life_that_it_had() {
    for server in servers::shared_each().unwrap() {
        let prefix = servers::fresh_prefix("cancel");
        let store = store_under(server, &prefix);
        let limit = Limit::new("test", ["gcra 1/min burst 9", "shaper 1/min queue 9"]).unwrap();
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

/// Kiritimati begins each date first, and Pago Pago ends it last.
#[tokio::test]
async fn a_date_across_zones_stays_used_until_it_has_ended_everywhere() {
    for server in servers::shared_each().unwrap() {
        let prefix = servers::fresh_prefix("zones");
        let store = store_under(server, &prefix);
        let open = |zone| {
            let spec = format!("fixed_window 5/d calendar {zone} across_zones");
            store.open(Limit::new("test", [spec]).unwrap(), OpenOptions::default())
        };
        let check = Request::check(b"alice");
        let [first, last] = ["Pacific/Kiritimati", "Pacific/Pago_Pago"].map(open);
        for _ in 0..5 {
            assert!(first.ask(check).wait().await.unwrap().is_allowed());
        }
        let denied = last.ask(check).wait().await.unwrap();
        assert!(denied.is_denied());
        let wait = denied.retry_after().as_millis_ceil().unwrap();
        assert!(wait > 24 * 3_600_000, "two dates in Pago Pago: {wait} ms");
        let key = server.cli(&["KEYS", &format!("{prefix}*")]).unwrap();
        let life: u64 = server.cli(&["PTTL", &key]).unwrap().parse().unwrap();
        assert!((wait - 60_000..=wait + 2 * 24 * 3_600_000).contains(&life), "{life} ms");
    }
}

#[tokio::test]
async fn a_socket_of_the_file_system_is_as_good_as_a_port() {
    for binary in servers::available().unwrap() {
        let path = std::env::temp_dir().join(servers::fresh_prefix("socket"));
        let shown = path.to_str().unwrap();
        let options = ["--unixsocket", shown, "--requirepass", "open sesame"];
        let _server = Server::start_with(&binary, &options).unwrap();
        let prefix = servers::fresh_prefix("socket");
        let store = |account: &str, database: &str| {
            let url = format!("unix://{account}{shown}{database}");
            let builder = RedisStore::builder(&url).unwrap().prefix(prefix.parse().unwrap());
            builder.deadline(Duration::from_secs(5)).build()
        };
        store(":open%20sesame@", "").ping().await.unwrap();
        let elsewhere = store("default:open%20sesame@", "?db=3");
        let limit = Limit::new("test", vec!["gcra 1/h"]).unwrap();
        let opened = elsewhere.open(limit.clone(), OpenOptions::default());
        let check = Request::new(Operation::Check, b"alice");
        assert!(opened.ask(check).wait().await.unwrap().is_allowed());
        assert!(opened.ask(check).wait().await.unwrap().is_denied());
        let here = store(":open%20sesame@", "").open(limit, OpenOptions::default());
        assert!(here.ask(check).wait().await.unwrap().is_allowed(), "another database");
        let error = store("", "").ping().await.unwrap_err();
        assert!(
            error.to_string().contains(shown) && error.to_string().contains("password"),
            "{error}"
        );
    }
    for url in
        ["unix://", "unix://path", "unix:///", "unix:///s?db=x", "unix:///s?x=1", "unix://u/s"]
    {
        assert!(RedisStore::builder(url).is_err(), "{url}");
    }
}
