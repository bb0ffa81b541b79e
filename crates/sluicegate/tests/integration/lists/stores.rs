//! Every store there is.

use std::sync::Arc;
use std::time::Duration;

use sluicegate::layers::{DenyCache, Retry};
use sluicegate::store::SharedStore;
use sluicegate::testing::ManualClock;
use sluicegate::{MemoryStore, RedisStore};
use sluicegate_testkit::servers::{self, Cluster, Server, fresh_prefix};
use sluicegate_testkit::swap_store::{SwapStore, Table};

/// Returns servers, each as a store and with its name for messages of failing tests.
pub(crate) fn on_servers(cluster: &Cluster) -> Vec<(String, RedisStore)> {
    let store = |url: &str| {
        let builder =
            RedisStore::builder(url).unwrap().prefix(fresh_prefix("li*?[s").parse().unwrap());
        builder.deadline(Duration::from_secs(5)).build()
    };
    let urls = cluster.urls();
    let nodes: Vec<_> = urls.iter().map(|url| url.split_once("://").unwrap().1).collect();
    let of_cluster = format!("redis+cluster://{}", nodes.join(","));
    let alone = servers::shared_each().unwrap().into_iter().map(Server::url);
    alone.chain([of_cluster]).map(|url| (url.clone(), store(&url))).collect()
}

/// Returns every store, and one in layers.
pub(crate) fn each(cluster: &Cluster) -> Vec<(String, SharedStore)> {
    let clock = Arc::new(ManualClock::default());
    let swapped = SwapStore::new(Table::new(Arc::clone(&clock)), clock);
    let mut stores = vec![
        ("embedded".to_owned(), SharedStore::new(MemoryStore::new())),
        ("in layers".to_owned(), SharedStore::new(DenyCache::new(Retry::new(MemoryStore::new())))),
        ("compare and swap".to_owned(), SharedStore::new(swapped)),
    ];
    let on_servers = on_servers(cluster).into_iter();
    stores.extend(on_servers.map(|(name, store)| (name, SharedStore::new(store))));
    stores
}
