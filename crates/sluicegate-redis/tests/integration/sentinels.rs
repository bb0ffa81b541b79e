//! The store over a primary that sentinels watch: the server that they name decides.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use sluicegate_conformance::suite;
use sluicegate_core::{
    Error, Limit, OpenOptions, OpenedLimit as _, Request, Store as _, StoreError, StoreErrorKind,
};
use sluicegate_redis::{Credentials, RedisLimit, RedisStore, RedisStoreBuilder};
use sluicegate_testkit::servers::{self, Sentinels, SentinelsBuilder, Server, ServerBinary};
use sluicegate_testkit::wait::{until_async, until_seldom};

fn each_with(set_up: impl Fn(SentinelsBuilder) -> SentinelsBuilder) -> Vec<Sentinels> {
    let start = |binary: &ServerBinary| set_up(Sentinels::builder(binary)).start().unwrap();
    servers::available().unwrap().iter().map(start).collect()
}

fn url(sentinels: &Sentinels) -> String {
    url_of(sentinels, "", sentinels.name())
}

fn url_of(sentinels: &Sentinels, account: &str, name: &str) -> String {
    let hosts: Vec<_> =
        sentinels.sentinels().iter().map(|it| format!("127.0.0.1:{}", it.port())).collect();
    format!("redis+sentinel://{account}{}/{name}", hosts.join(","))
}

fn builder(url: &str) -> RedisStoreBuilder {
    let prefix = servers::fresh_prefix("sentinels").parse().unwrap();
    RedisStore::builder(url).unwrap().prefix(prefix).deadline(Duration::from_secs(1))
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

/// Waits until the replica has all writes.
fn replicate(sentinels: &Sentinels) {
    let (primary, replica) = (sentinels.primary(), 1 - sentinels.primary());
    let size = |server: usize| sentinels.server(server).cli(&["DBSIZE"]).unwrap();
    until_seldom("the replica has it all", || {
        if size(replica) == size(primary) { Ok(()) } else { Err(size(replica)) }
    });
}

#[test]
fn a_primary_behind_sentinels_is_held_to_what_a_store_is() {
    suite::block_on(async {
        for sentinels in each_with(|builder| builder) {
            let store = builder(&url(&sentinels)).deadline(Duration::from_secs(5)).build();
            store.ping().await.unwrap();
            suite::schedules_answer_like_the_model(&store).await;
            suite::parts_share_their_states_with_the_limits_they_are(&store).await;
            suite::who_comes_at_once_is_admitted_exactly(&store).await;
        }
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failovers_by_command_and_by_death_are_followed() {
    for sentinels in each_with(|builder| builder) {
        let store = builder(&url(&sentinels)).build();
        let opened = open(&store);
        assert!(check(&opened, "first").await.unwrap());
        replicate(&sentinels);
        let sentinels = tokio::task::spawn_blocking(move || {
            sentinels.fail_over().unwrap();
            sentinels
        });
        let mut sentinels = sentinels.await.unwrap();
        assert!(!check_until_answered(&opened, "first").await, "it counts on");
        assert!(check_until_answered(&opened, "second").await);
        replicate(&sentinels);
        let sentinels = tokio::task::spawn_blocking(move || {
            sentinels.kill_primary().unwrap();
            sentinels
        });
        // In the meantime no other server is called.
        assert!(!check_until_answered(&opened, "second").await, "it counts on");
        drop(sentinels.await.unwrap());
    }
}

/// The old primary restarts without its keys, and acts as the primary until it is demoted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_comes_back_empty_is_not_asked() {
    for mut sentinels in each_with(|builder| builder) {
        let store = builder(&url(&sentinels)).build();
        let opened = open(&store);
        assert!(check(&opened, "key").await.unwrap());
        replicate(&sentinels);
        let old = sentinels.primary();
        let sentinels = tokio::task::spawn_blocking(move || {
            sentinels.kill_primary().unwrap();
            sentinels.server_mut(old).restart().unwrap();
            sentinels
        });
        let sentinels = sentinels.await.unwrap();
        assert!(!check_until_answered(&opened, "key").await, "the new one knows");
        drop(sentinels);
    }
}

/// The old primary still answers, as in a split network.
#[tokio::test]
async fn a_primary_is_left_when_the_sentinels_announce_another() {
    for sentinels in each_with(|builder| builder) {
        let other = Server::start_with(sentinels.server(0).binary(), &[]).unwrap();
        let store = builder(&url(&sentinels)).build();
        let opened = open(&store);
        assert!(check(&opened, "key").await.unwrap());
        assert!(!check(&opened, "key").await.unwrap());
        for sentinel in sentinels.sentinels() {
            sentinel.cli(&["SENTINEL", "REMOVE", sentinels.name()]).unwrap();
            let port = other.port().to_string();
            let watch = ["SENTINEL", "MONITOR", sentinels.name(), "127.0.0.1", &port, "2"];
            sentinel.cli(&watch).unwrap();
        }
        until_async("a decision of the other", async || match check(&opened, "key").await {
            Ok(true) => Ok(()),
            other => Err(other),
        })
        .await;
    }
}

#[tokio::test]
async fn sentinels_that_are_gone_are_passed_over_and_listed_when_all_are() {
    for mut sentinels in each_with(|builder| builder) {
        let url = url(&sentinels);
        sentinels.sentinel_mut(0).kill().unwrap();
        sentinels.sentinel_mut(1).kill().unwrap();
        let store = builder(&url).build();
        assert!(check_until_answered(&open(&store), "key").await);
        sentinels.sentinel_mut(2).kill().unwrap();
        assert!(!check(&open(&store), "key").await.unwrap(), "there is a connection");
        let error = builder(&url).build().ping().await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        for sentinel in sentinels.sentinels() {
            let why = format!("127.0.0.1:{} can't be reached", sentinel.port());
            assert!(error.to_string().contains(&why), "no `{why}` in: {error}");
        }
        assert!(error.to_string().contains("nothing was charged"), "{error}");
    }
}

#[tokio::test]
async fn a_name_that_no_sentinel_knows_is_answered_with_those_they_know() {
    for sentinels in each_with(|builder| builder) {
        let store = builder(&url_of(&sentinels, "", "mian")).build();
        let error = store.ping().await.unwrap_err().to_string();
        for why in ["/mian ", "knows no primary of this name", "`main`", "nothing was charged"] {
            assert!(error.contains(why), "no `{why}` in: {error}");
        }
    }
}

#[tokio::test]
async fn sentinels_and_servers_have_passwords_of_their_own() {
    for sentinels in each_with(|it| it.password("of servers").sentinel_password("of sentinels")) {
        let url = url_of(&sentinels, ":of%20servers@", sentinels.name());
        let with = |password: &'static str| {
            builder(&url)
                .sentinel_credentials(move || Ok(Credentials::of_default_user(password)))
                .build()
        };
        with("of sentinels").ping().await.unwrap();
        for (store, why) in [
            (with("of servers"), "has another password for the default user"),
            (builder(&url).build(), "redis.sentinel.password_file"),
        ] {
            let error = store.ping().await.unwrap_err().to_string();
            assert!(error.contains(why), "no `{why}` in: {error}");
        }
        let bare = url_of(&sentinels, "", sentinels.name());
        let store = builder(&bare)
            .sentinel_credentials(|| Ok(Credentials::of_default_user("of sentinels")))
            .build();
        let error = store.ping().await.unwrap_err().to_string();
        let port = sentinels.server(sentinels.primary()).port();
        for why in ["wants another user or password", &format!("is at 127.0.0.1:{port}, ")] {
            assert!(error.contains(why), "no `{why}` in: {error}");
        }
    }
}

/// With the second right, sentinels can also report who has seen the latest failover.
#[tokio::test]
async fn a_user_of_sentinels_needs_one_right_and_should_have_two() {
    for sentinels in each_with(|builder| builder) {
        let with = |rights: &[&str]| {
            for sentinel in sentinels.sentinels() {
                let rules = ["on", ">asking", "-@all", "+auth", "allchannels"];
                sentinel.set_user("asker", &[&rules, rights].concat()).unwrap();
            }
            builder(&url(&sentinels))
                .sentinel_credentials(|| Ok(Credentials::new("asker", "asking")))
                .build()
        };
        let rights = ["+sentinel|get-master-addr-by-name", "+sentinel|master"];
        for some in [&rights[..1], &rights] {
            with(some).ping().await.unwrap();
        }
        let error = with(&rights[1..]).ping().await.unwrap_err().to_string();
        assert!(error.contains(&format!("grant it `{}`", rights.join(" "))), "{error}");
    }
}

#[tokio::test]
async fn a_server_where_sentinels_were_meant_says_what_to_write() {
    for binary in servers::available().unwrap() {
        let server = Server::start_with(&binary, &[]).unwrap();
        let url = format!("redis+sentinel://127.0.0.1:{}/main", server.port());
        let error = builder(&url).build().ping().await.unwrap_err().to_string();
        for why in ["isn't a sentinel", &server.url(), "nothing was charged"] {
            assert!(error.contains(why), "no `{why}` in: {error}");
        }
    }
}
