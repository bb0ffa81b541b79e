//! The store on real servers, every one that is installed, held to all that a store is.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use sluicegate_redis::RedisStore;
use sluicegate_testkit::servers::{self, Server};

sluicegate_conformance::suite!(each[servers::shared_each().unwrap().into_iter().map(store)]);

fn store(server: &Server) -> RedisStore {
    RedisStore::builder(&server.url())
        .unwrap()
        .prefix(servers::fresh_prefix("store").parse().unwrap())
        .deadline(Duration::from_secs(5))
        .build()
}
