//! The store on real servers, every one that is installed, held to all that a store is.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use sluicegate_core::{Limit, Operation, Request, Span};
use sluicegate_redis::{Program, RedisStore, Script};
use sluicegate_testkit::servers::{self, Reply, Server};

sluicegate_conformance::suite!(each[servers::shared_each().unwrap().into_iter().map(store)]);

fn store(server: &Server) -> RedisStore {
    RedisStore::builder(&server.url())
        .unwrap()
        .prefix(servers::fresh_prefix("store").parse().unwrap())
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
