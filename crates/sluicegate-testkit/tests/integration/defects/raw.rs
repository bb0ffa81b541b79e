//! A real server seen from both sides: decisions through the store, and keys as they are stored.

use std::time::Duration;

use sluicegate_core::{
    Cost, Costs, Decision, Error, KeyPrefix, OpenOptions, OpenedLimit as _, Operation, Request,
    Store as _, TimeSource, Timestamp,
};
use sluicegate_redis::{RedisLimit, RedisStore};
use sluicegate_testkit::servers::{self, Reply, Server};
use tokio::runtime::Runtime;

use crate::defects::everywhere::{START, limit};

/// Maximum wait in a test that never fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A store on a server, with its own prefix.
pub(crate) struct Raw<'s> {
    pub(crate) server: &'s Server,
    pub(crate) store: RedisStore,
    pub(crate) prefix: String,
    pub(crate) runtime: Runtime,
}

/// Runs a test on every available server.
pub(crate) fn on_each_server(test: impl Fn(Raw<'_>)) {
    for server in servers::shared_each().unwrap() {
        test(Raw::new(server));
    }
}

impl<'s> Raw<'s> {
    pub(crate) fn new(server: &'s Server) -> Self {
        Self::another_of(server, &servers::fresh_prefix("raw"))
    }

    /// Returns a store for these keys on the connection of another process.
    pub(crate) fn another(&self) -> Self {
        Self::another_of(self.server, &self.prefix)
    }

    pub(crate) fn another_of(server: &'s Server, prefix: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { server, store: store(&server.url(), prefix), prefix: prefix.to_owned(), runtime }
    }

    /// Opens a limit with the server's clock.
    pub(crate) fn open(&self, specs: &[&str]) -> RedisLimit {
        self.store.open(limit(specs), OpenOptions::default())
    }

    /// Opens a limit with the time of its requests.
    pub(crate) fn open_injected(&self, specs: &[&str]) -> RedisLimit {
        let time = TimeSource::Injected { run: "run".to_owned() };
        self.store.open(limit(specs), OpenOptions::default().time(time))
    }

    pub(crate) fn try_ask(
        &self,
        opened: &RedisLimit,
        request: Request<'_>,
    ) -> Result<Decision, Error> {
        self.runtime.block_on(opened.ask(request).wait())
    }

    pub(crate) fn ask(&self, opened: &RedisLimit, request: Request<'_>) -> Decision {
        self.try_ask(opened, request).unwrap()
    }

    pub(crate) fn check(&self, opened: &RedisLimit) -> Decision {
        self.ask(opened, Request::check(b"alice"))
    }

    /// Returns the keys with this prefix, in order.
    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        let Reply::Array(keys) = self.command(&[b"KEYS", format!("{}*", self.prefix).as_bytes()])
        else {
            panic!("KEYS answers a list");
        };
        let bytes = |reply| if let Reply::Bytes(key) = reply { key } else { panic!("a key") };
        let mut keys: Vec<_> = keys.into_iter().map(bytes).collect();
        keys.sort();
        keys
    }

    /// Returns the only key with this prefix.
    pub(crate) fn only_key(&self) -> Vec<u8> {
        let mut keys = self.keys();
        assert_eq!(keys.len(), 1, "{keys:?}");
        keys.remove(0)
    }

    /// Returns the remaining TTL of a key in ms: −1 if it never expires, −2 if it doesn't exist.
    pub(crate) fn life(&self, key: &[u8]) -> i64 {
        self.number(&[b"PTTL", key])
    }

    /// Returns the complete value of every key as bytes, without its TTL.
    pub(crate) fn dump(&self) -> Vec<(Vec<u8>, Reply)> {
        let keys = self.keys();
        keys.into_iter().map(|key| (key.clone(), self.command(&[b"DUMP", &key]))).collect()
    }

    pub(crate) fn number(&self, words: &[&[u8]]) -> i64 {
        match self.command(words) {
            Reply::Integer(number) => number,
            other => panic!("{other} instead of a number"),
        }
    }

    pub(crate) fn command(&self, words: &[&[u8]]) -> Reply {
        let reply = self.server.command(words).unwrap();
        assert!(!matches!(reply, Reply::Error(_)), "{reply}");
        reply
    }
}

fn store(url: &str, prefix: &str) -> RedisStore {
    let prefix: KeyPrefix = prefix.parse().unwrap();
    RedisStore::builder(url).unwrap().prefix(prefix).deadline(PATIENCE).build()
}

pub(crate) fn check_of(units: u64) -> Request<'static> {
    to(Operation::Check, units)
}

pub(crate) fn to(operation: Operation<'static>, units: u64) -> Request<'static> {
    let costs = Costs::Same(Cost::new(units).unwrap());
    Request::new(operation, b"alice").costs(costs)
}

/// Returns a check under injected time, `at_us` after the start.
pub(crate) fn injected(at_us: u64) -> Request<'static> {
    Request::check(b"alice").at(Timestamp::from_micros(START + at_us).unwrap())
}
