//! Clusters and sentinels over TLS, or at IPv6 addresses: which servers are followed, and which certificates
//! are accepted.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use sluicegate_core::{
    Error, Limit, OpenOptions, OpenedLimit as _, Request, Store as _, StoreError,
};
#[cfg(feature = "tls")]
use sluicegate_redis::Credentials;
use sluicegate_redis::{RedisLimit, RedisStore, RedisStoreBuilder};
use sluicegate_testkit::servers::{self, Cluster, Sentinels, Server, loopback_v6};
use sluicegate_testkit::wait::{until_async, until_seldom};

fn builder(url: &str) -> RedisStoreBuilder {
    let prefix = servers::fresh_prefix("topologies").parse().unwrap();
    RedisStore::builder(url).unwrap().prefix(prefix).deadline(Duration::from_secs(2))
}

fn open(store: &RedisStore) -> RedisLimit {
    store.open(Limit::new("test", ["fixed_window 1/h"]).unwrap(), OpenOptions::default())
}

async fn check(opened: &RedisLimit, key: &str) -> Result<bool, StoreError> {
    match opened.ask(Request::check(key.as_bytes())).wait().await {
        Ok(decision) => Ok(decision.is_allowed()),
        Err(Error::Store(error)) => Err(error),
        Err(error) => panic!("{error}"),
    }
}

async fn check_until_answered(opened: &RedisLimit, key: &str) -> bool {
    until_async("an answer of the store", async || check(opened, key).await).await
}

fn cluster_url(cluster: &Cluster, options: &str) -> String {
    let urls = cluster.urls();
    let (scheme, _) = urls[0].split_once("://").unwrap();
    let hosts: Vec<_> = urls.iter().map(|url| url.split_once("://").unwrap().1).collect();
    format!("{scheme}+cluster://{}{options}", hosts.join(","))
}

fn sentinel_url(scheme: &str, account: &str, sentinels: &Sentinels, options: &str) -> String {
    let hosts: Vec<_> =
        sentinels.sentinels().iter().map(|sentinel| sentinel.address().to_string()).collect();
    let name = sentinels.name();
    format!("{scheme}+sentinel://{account}{}/{name}{options}", hosts.join(","))
}

/// Returns a subject whose keys a node has.
fn subject_on(cluster: &Cluster, node: usize) -> String {
    let is_there =
        |subject: &String| cluster.primary_of(cluster.slot_of(subject.as_bytes()).unwrap()) == node;
    (0..).map(|number| format!("subject-{number}")).find(is_there).unwrap()
}

/// Waits until the replica of a primary has all writes.
fn replicate(primary: &Server, replica: &Server) {
    let size = |server: &Server| server.cli(&["DBSIZE"]).unwrap();
    until_seldom("the replica has it all", || {
        if size(replica) == size(primary) { Ok(()) } else { Err(size(replica)) }
    });
}

/// Checks that every node is found, that `ASK` and `MOVED` are followed for a moving slot, and that a
/// promoted replica is found.
async fn a_cluster_is_followed(mut cluster: Cluster, url: &str) {
    let store = builder(url).build();
    store.ping().await.unwrap();
    let opened = open(&store);
    for node in 0..3 {
        let subject = subject_on(&cluster, node);
        assert!(check(&opened, &subject).await.unwrap());
        assert!(!check(&opened, &subject).await.unwrap());
    }
    let subject = subject_on(&cluster, 0);
    let slot = cluster.slot_of(subject.as_bytes()).unwrap();
    let migration = cluster.migration(slot, 1);
    migration.open().unwrap();
    while migration.move_keys(10).unwrap() > 0 {}
    assert!(!check(&opened, &subject).await.unwrap(), "where the slot goes");
    migration.assign().unwrap();
    assert!(!check(&opened, &subject).await.unwrap(), "where the slot is");
    let words = ["INFO", "errorstats"];
    let errors = cluster.node(0).server().cli(&words).unwrap();
    assert!(errors.contains("errorstat_ASK:") && errors.contains("errorstat_MOVED:"), "{errors}");
    cluster.settle();
    let replica = cluster.replicas_of(1).unwrap()[0];
    replicate(cluster.node(1).server(), cluster.node(replica).server());
    let killed = tokio::task::spawn_blocking(move || {
        cluster.kill_primary_of(slot).unwrap();
        cluster
    });
    let _cluster = killed.await.unwrap();
    assert!(!check_until_answered(&opened, &subject).await, "the replica counts on");
    store.ping().await.unwrap();
}

/// Checks that the primary is found, and the one that replaces it.
async fn sentinels_are_followed(mut sentinels: Sentinels, store: &RedisStore) {
    store.ping().await.unwrap();
    let opened = open(store);
    assert!(check(&opened, "key").await.unwrap());
    let primary = sentinels.primary();
    replicate(sentinels.server(primary), sentinels.server(1 - primary));
    let killed = tokio::task::spawn_blocking(move || {
        sentinels.kill_primary().unwrap();
        sentinels
    });
    let _sentinels = killed.await.unwrap();
    assert!(!check_until_answered(&opened, "key").await, "the replica counts on");
}

#[cfg(feature = "tls")]
mod over_tls {
    use sluicegate_redis::TlsOptions;
    use sluicegate_testkit::servers::{Authority, available_with_tls};

    use super::*;

    fn ca(authority: &Authority) -> String {
        format!("?ca={}", authority.certificate_file().display())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_cluster_over_tls_is_followed_wherever_its_slots_go() {
        let authority = Authority::new().unwrap();
        let certificate = authority.certificate("node", &["127.0.0.1"]).unwrap();
        for binary in available_with_tls().unwrap() {
            let cluster = Cluster::builder(&binary).tls(&certificate).start().unwrap();
            let url = cluster_url(&cluster, &ca(&authority));
            a_cluster_is_followed(cluster, &url).await;
        }
    }

    /// Nodes announce addresses, and the certificate is for a name.
    #[tokio::test]
    async fn every_node_has_to_be_whom_the_url_names_or_what_the_cluster_announces() {
        let authority = Authority::new().unwrap();
        let certificate = authority.certificate("node", &["localhost"]).unwrap();
        for binary in available_with_tls().unwrap() {
            let cluster = Cluster::builder(&binary).replicas(0).tls(&certificate).start().unwrap();
            let options = ca(&authority);
            let seed = cluster.node(0).server().address().port();
            let by_name = format!("rediss+cluster://localhost:{seed}{options}");
            let subjects: Vec<_> = (0..3).map(|node| subject_on(&cluster, node)).collect();

            // The seed has the name in the URL, but announces an address.
            let store = builder(&by_name).build();
            let error = check(&open(&store), &subjects[1]).await.unwrap_err().to_string();
            for why in ["not for `127.0.0.1`", "localhost", "server_name=NAME"] {
                assert!(error.contains(why), "no `{why}` in: {error}");
            }
            let store = builder(&format!("{by_name}&server_name=localhost")).build();
            let opened = open(&store);
            for subject in &subjects {
                assert!(check(&opened, subject).await.unwrap());
            }
            let store = builder(&format!("{by_name}&server_name=other.example")).build();
            let error = check(&open(&store), &subjects[1]).await.unwrap_err().to_string();
            assert!(error.contains("not for `other.example`"), "{error}");

            // If nodes also announce a host name, each certificate must be for that.
            for node in cluster.nodes() {
                let server = node.server();
                server.cli(&["CONFIG", "SET", "cluster-announce-hostname", "localhost"]).unwrap();
                let preferred = ["CONFIG", "SET", "cluster-preferred-endpoint-type", "hostname"];
                server.cli(&preferred).unwrap();
            }
            let heard = || {
                let slots = cluster.node(0).server().cli(&["CLUSTER", "SLOTS"]).unwrap();
                if slots.matches("localhost").count() >= 3 { Ok(()) } else { Err(slots) }
            };
            until_seldom("names that all know", heard);
            let opened = open(&builder(&by_name).build());
            for subject in &subjects {
                assert!(check_until_answered(&opened, subject).await);
            }
            let stranger = Authority::new().unwrap();
            let url = format!("rediss+cluster://localhost:{seed}{}", ca(&stranger));
            let error = builder(&url).build().ping().await.unwrap_err().to_string();
            assert!(error.contains("none of the authorities of"), "{error}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn sentinels_over_tls_with_credentials_of_their_own_are_followed() {
        let authority = Authority::new().unwrap();
        let certificate = authority.certificate("server", &["127.0.0.1"]).unwrap();
        for binary in available_with_tls().unwrap() {
            let sentinels = Sentinels::builder(&binary)
                .tls(&certificate)
                .password("of servers")
                .sentinel_password("of sentinels")
                .start()
                .unwrap();
            let url = sentinel_url("rediss", ":of%20servers@", &sentinels, &ca(&authority));
            let store = builder(&url)
                .sentinel_credentials(|| Ok(Credentials::of_default_user("of sentinels")))
                .build();
            sentinels_are_followed(sentinels, &store).await;
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn sentinels_may_be_asked_without_tls_where_servers_are_over_it() {
        let authority = Authority::new().unwrap();
        let certificate = authority.certificate("server", &["127.0.0.1"]).unwrap();
        for binary in available_with_tls().unwrap() {
            let builder_of = || Sentinels::builder(&binary).tls(&certificate).plain_sentinels();
            let sentinels = builder_of().start().unwrap();
            let url = sentinel_url("rediss", "", &sentinels, &ca(&authority));
            let error = builder(&url).build().ping().await.unwrap_err().to_string();
            assert!(error.contains("without TLS"), "{error}");
            let store = builder(&url).sentinel_tls(None).unwrap().build();
            sentinels_are_followed(sentinels, &store).await;
        }
    }

    /// Both have their own certificates, for other names than their addresses.
    #[tokio::test]
    async fn sentinels_and_servers_have_authorities_and_names_of_their_own() {
        let (authority, others) = (Authority::new().unwrap(), Authority::new().unwrap());
        let certificate = authority.certificate("server", &["db.example"]).unwrap();
        let of_others = others.certificate("sentinel", &["watch.example"]).unwrap();
        for binary in available_with_tls().unwrap() {
            let primary = Server::builder(&binary).tls_only(&certificate, None).start().unwrap();
            // A sentinel trusts the authority of the watched servers, not that of its own certificate.
            let sentinel = Server::builder(&binary)
                .tls_only(&of_others, Some(&authority))
                .options(&["--sentinel", "--tls-auth-clients", "no"])
                .start()
                .unwrap();
            let port = primary.address().port().to_string();
            sentinel.cli(&["SENTINEL", "MONITOR", "main", "127.0.0.1", &port, "1"]).unwrap();
            let options = format!("{}&server_name=db.example", ca(&authority));
            let url = format!("rediss+sentinel://{}/main{options}", sentinel.address());
            let error = builder(&url).build().ping().await.unwrap_err().to_string();
            assert!(error.contains("none of the authorities of"), "{error}");
            let mut tls = TlsOptions::default();
            tls.ca = Some(others.certificate_file().to_owned());
            tls.server_name = Some("watch.example".to_owned());
            let store = builder(&url).sentinel_tls(Some(tls)).unwrap().build();
            assert!(check(&open(&store), "key").await.unwrap());
        }
    }

    #[tokio::test]
    async fn an_address_of_version_six_is_what_a_certificate_is_for() {
        let Some(ip) = loopback_v6() else { return };
        let authority = Authority::new().unwrap();
        for (name, is_right) in [("::1", true), ("127.0.0.1", false)] {
            let certificate = authority.certificate(&name.replace(':', "-"), &[name]).unwrap();
            for binary in available_with_tls().unwrap() {
                let server =
                    Server::builder(&binary).ip(ip).tls_only(&certificate, None).start().unwrap();
                let url = format!("{}{}", server.url(), ca(&authority));
                let outcome = builder(&url).build().ping().await;
                assert_eq!(outcome.is_ok(), is_right, "{url}: {outcome:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_server_at_an_address_of_version_six_decides_and_is_named_by_it() {
    let Some(ip) = loopback_v6() else { return };
    for binary in servers::available().unwrap() {
        let mut server = Server::builder(&binary).ip(ip).start().unwrap();
        let url = server.url();
        assert!(url.starts_with("redis://[::1]:"), "{url}");
        let opened = open(&builder(&url).build());
        assert!(check(&opened, "key").await.unwrap());
        assert!(!check(&opened, "key").await.unwrap());
        server.kill().unwrap();
        let error = builder(&url).build().ping().await.unwrap_err().to_string();
        assert!(error.contains(&format!("[::1]:{} can't be reached", server.port())), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_at_addresses_of_version_six_is_followed_wherever_its_slots_go() {
    let Some(ip) = loopback_v6() else { return };
    for binary in servers::available().unwrap() {
        let cluster = Cluster::builder(&binary).ip(ip).start().unwrap();
        let url = cluster_url(&cluster, "");
        a_cluster_is_followed(cluster, &url).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_at_addresses_of_version_six_are_followed() {
    let Some(ip) = loopback_v6() else { return };
    for binary in servers::available().unwrap() {
        let sentinels = Sentinels::builder(&binary).ip(ip).start().unwrap();
        let store = builder(&sentinel_url("redis", "", &sentinels, "")).build();
        sentinels_are_followed(sentinels, &store).await;
    }
}

/// The primary's address that a replica names can be written into a URL.
#[tokio::test]
async fn a_replica_of_a_primary_at_an_address_of_version_six_names_it() {
    let Some(ip) = loopback_v6() else { return };
    for binary in servers::available().unwrap() {
        let primary = Server::builder(&binary).ip(ip).start().unwrap();
        let port = primary.port().to_string();
        let replica = Server::builder(&binary).ip(ip);
        let replica = replica.options(&["--replicaof", "::1", &port]).start().unwrap();
        let error = builder(&replica.url()).build().ping().await.unwrap_err().to_string();
        assert!(error.contains(&primary.url()), "no `{}` in: {error}", primary.url());
    }
}
