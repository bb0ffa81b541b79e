//! Requests from threads outside of a tokio runtime, and from the only thread of one.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod awaiting;
mod blocking;
mod never_waiting;

use std::time::Duration;

use sluicegate::{Limit, Limiter, MemoryStore, RedisStore};
use sluicegate_testkit::servers::{Server, fresh_prefix};
use tokio::runtime::{Builder, Runtime};

/// Longer than any answer takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(5);

fn limit(specs: &[&str]) -> Limit {
    Limit::new("jobs", specs).unwrap()
}

fn embedded(specs: &[&str]) -> Limiter<MemoryStore> {
    Limiter::new(MemoryStore::new(), limit(specs))
}

fn on_server(server: &Server, specs: &[&str]) -> Limiter<RedisStore> {
    Limiter::new(redis(&server.url()), limit(specs))
}

fn redis(url: &str) -> RedisStore {
    let prefix = fresh_prefix("no-tokio").parse().unwrap();
    RedisStore::builder(url).unwrap().prefix(prefix).deadline(DEADLINE).build()
}

fn of_one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn of_several_threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}
