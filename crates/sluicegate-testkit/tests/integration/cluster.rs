//! Tests that clusters start, redirect, move slots and fail over by the servers' own protocol.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and says how long a start takes"
)]

use std::time::Instant;

use sluicegate_testkit::servers::{Announced, Cluster, Reply, Server, available};
use sluicegate_testkit::wait::until;

fn refusal(server: &Server, words: &[&str]) -> String {
    server.cli(words).unwrap_err().to_string()
}

/// Sends commands in a row, on one connection.
fn row(server: &Server, commands: &[&[&str]]) -> Vec<String> {
    let mut connection = server.connect(std::time::Duration::from_secs(5)).unwrap();
    let answers = commands.iter().map(|words| {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        connection.command(&words).unwrap().to_string()
    });
    answers.collect()
}

#[test]
fn a_cluster_of_six_comes_up_and_every_node_serves_its_slots() {
    for binary in available().unwrap() {
        let begun = Instant::now();
        let cluster = Cluster::builder(&binary).start().unwrap();
        println!("{binary}: a cluster of 3 + 3 in {:?}", begun.elapsed());
        assert_eq!(cluster.nodes().len(), 6);
        for number in 0..3 {
            assert_eq!(cluster.replicas_of(number).unwrap(), [number + 3]);
        }
        for key in ["a", "b", "c", "{a}b"] {
            let primary = cluster.primary_of(cluster.slot_of(key.as_bytes()).unwrap());
            assert_eq!(cluster.node(primary).server().cli(&["SET", key, "1"]).unwrap(), "OK");
            let other = cluster.node((primary + 1) % 3).server();
            let port = cluster.node(primary).server().port();
            let why = refusal(other, &["GET", key]);
            assert!(why.contains("MOVED") && why.ends_with(&format!(":{port}")), "{why}");
            // A replica serves reads to clients that request them.
            let replica = cluster.node(primary + 3).server();
            until("the replica has it", || {
                let got = row(replica, &[&["READONLY"], &["GET", key]]);
                if got == ["OK", "1"] { Ok(()) } else { Err(got) }
            });
        }
        assert_eq!(cluster.slot_of(b"a").unwrap(), cluster.slot_of(b"{a}b").unwrap());
    }
}

#[test]
fn a_slot_on_its_way_answers_ask_for_what_has_moved_and_tryagain_for_half_of_it() {
    for binary in available().unwrap() {
        let cluster = Cluster::builder(&binary).replicas(0).start().unwrap();
        let slot = cluster.slot_of(b"{a}1").unwrap();
        let from = cluster.primary_of(slot);
        let migration = cluster.migration(slot, (from + 1) % 3);
        let (old, new) = (cluster.node(from).server(), cluster.node(migration.to()).server());
        for key in ["{a}1", "{a}2", "{a}3"] {
            old.cli(&["SET", key, "1"]).unwrap();
        }
        migration.open().unwrap();
        assert_eq!(old.cli(&["GET", "{a}1"]).unwrap(), "1");
        let ask = format!("ASK {slot} 127.0.0.1:{}", new.port());
        let why = refusal(old, &["GET", "{a}missing"]);
        assert!(why.ends_with(&ask), "{why}");

        migration.move_key(b"{a}1").unwrap();
        let why = refusal(old, &["GET", "{a}1"]);
        assert!(why.ends_with(&ask), "{why}");
        assert_eq!(row(new, &[&["ASKING"], &["GET", "{a}1"]]), ["OK", "1"]);
        let why = refusal(new, &["GET", "{a}1"]);
        assert!(why.contains("MOVED"), "{why}");
        let why = refusal(old, &["MGET", "{a}1", "{a}2"]);
        assert!(why.contains("TRYAGAIN"), "{why}");

        assert_eq!(migration.move_keys(1).unwrap(), 1);
        assert_eq!(migration.move_keys(9).unwrap(), 1);
        assert_eq!(migration.move_keys(9).unwrap(), 0);
        migration.assign().unwrap();
        cluster.settle();
        assert_eq!(cluster.primary_of(slot), migration.to());
        assert_eq!(new.cli(&["MGET", "{a}1", "{a}2", "{a}3"]).unwrap(), "1\n1\n1");
        let why = refusal(old, &["GET", "{a}1"]);
        assert!(why.contains("MOVED"), "{why}");

        // And back, all of it.
        cluster.migrate(slot..=slot, from).unwrap();
        assert_eq!(old.cli(&["MGET", "{a}1", "{a}2", "{a}3"]).unwrap(), "1\n1\n1");
    }
}

#[test]
fn a_slot_that_does_not_move_after_all_is_served_where_it_was() {
    let cluster = Cluster::builder(&available().unwrap()[0]).replicas(0).start().unwrap();
    let slot = cluster.slot_of(b"a").unwrap();
    let from = cluster.primary_of(slot);
    let migration = cluster.migration(slot, (from + 1) % 3);
    migration.open().unwrap();
    migration.cancel().unwrap();
    assert_eq!(cluster.node(from).server().command(&[b"GET", b"a"]).unwrap(), Reply::Nil);
}

#[test]
fn a_replica_takes_over_by_hand_and_when_its_primary_is_killed() {
    for binary in available().unwrap() {
        let mut cluster = Cluster::builder(&binary).password("secret").start().unwrap();
        let slot = cluster.slot_of(b"a").unwrap();
        let first = cluster.primary_of(slot);
        let second = cluster.replicas_of(first).unwrap()[0];
        cluster.node(first).server().cli(&["SET", "a", "1"]).unwrap();
        cluster.fail_over(second).unwrap();
        assert_eq!(cluster.primary_of(slot), second);
        assert_eq!(cluster.replicas_of(second).unwrap(), [first]);
        assert_eq!(cluster.node(second).server().cli(&["GET", "a"]).unwrap(), "1");

        let begun = Instant::now();
        assert_eq!(cluster.kill_primary_of(slot).unwrap(), first);
        println!("{binary}: a fail-over took {:?}", begun.elapsed());
        assert_eq!(cluster.node(first).server().cli(&["GET", "a"]).unwrap(), "1");
        assert!(cluster.replicas_of(first).unwrap().is_empty());

        // The killed node restarts, and detects that it is a replica.
        cluster.server_mut(second).restart().unwrap();
        cluster.settle();
        assert_eq!(cluster.replicas_of(first).unwrap(), [second]);
    }
}

#[test]
fn a_node_may_say_that_it_is_somewhere_else() {
    for binary in available().unwrap() {
        let options = ["--bind", "127.0.0.1 127.0.0.2"];
        let cluster = Cluster::builder(&binary).replicas(0).options(&options).start().unwrap();
        let slot = cluster.slot_of(b"a").unwrap();
        let primary = cluster.primary_of(slot);
        let other = cluster.node((primary + 1) % 3).server();
        let announced = Announced {
            ip: Some([127, 0, 0, 2].into()),
            port: Some(7),
            hostname: Some("node.example".to_owned()),
        };
        cluster.announce(primary, &announced).unwrap();
        let why = refusal(other, &["GET", "a"]);
        assert!(why.ends_with(&format!("MOVED {slot} 127.0.0.2:7")), "{why}");
        for node in cluster.nodes() {
            let hostname = ["CONFIG", "SET", "cluster-preferred-endpoint-type", "hostname"];
            node.server().cli(&hostname).unwrap();
        }
        let why = refusal(other, &["GET", "a"]);
        assert!(why.ends_with(&format!("MOVED {slot} node.example:7")), "{why}");
        let slots = other.cli(&["CLUSTER", "SLOTS"]).unwrap();
        assert!(slots.contains("node.example"), "{slots}");

        cluster.announce(primary, &Announced::default()).unwrap();
        assert!(!other.cli(&["CLUSTER", "SLOTS"]).unwrap().contains("node.example"));
    }
}
