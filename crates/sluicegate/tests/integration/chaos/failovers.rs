//! Primaries that are killed and replaced, and slots that move.

use sluicegate_testkit::servers::{Cluster, Sentinels, Server};
use sluicegate_testkit::wait::until_seldom;
use tokio::time::Instant;

use crate::chaos::binaries;
use crate::chaos::load::{Load, rounds, subject};
use crate::chaos::losses::of_losses;
use crate::chaos::spending::{Spending, assert_at_most_one_burst};

/// Waits until a replica knows that it is the primary now.
pub(crate) fn await_promotion(server: &Server) {
    until_seldom("a promotion", || match server.cli(&["INFO", "replication"]) {
        Ok(role) if role.contains("role:master") => Ok(()),
        other => Err(other.map_err(|error| error.to_string())),
    });
}

/// Waits until the replica of a primary has all earlier writes. A new replica is up to a second behind.
fn await_replica(primary: &Server) {
    let offsets = || {
        let info = primary.cli(&["INFO", "replication"]).unwrap();
        let field = |name: &str| {
            let rest = info.split(name).nth(1)?;
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
        };
        (field("master_repl_offset:"), field("state=online,offset="))
    };
    let written = offsets().0;
    until_seldom("a replica that keeps up", || match offsets().1 {
        arrived if arrived >= written => Ok(()),
        arrived => Err((written, arrived)),
    });
}

#[test]
fn a_killed_primary_that_sentinels_replace_costs_at_most_one_burst() {
    for binary in binaries("sentinels") {
        let mut sentinels = Sentinels::builder(&binary).start().unwrap();
        let load = Load::begin("sentinel failover", &url_of(&sentinels));
        for _ in 0..rounds() {
            let spending = Spending::begin(&url_of(&sentinels));
            await_replica(sentinels.server(sentinels.primary()));
            let old = sentinels.lose_primary().unwrap();
            let new = sentinels.server(1 - old);
            await_promotion(new);
            // Once a sentinel reports the primary, the rest of the recovery time is the client's.
            let promoted = Instant::now();
            load.fault_ends();
            until_seldom("a sentinel that names it", || match sentinels.address_of_primary(0) {
                Ok(Some((_, port))) if port == new.port() => Ok(()),
                other => Err(other.map_err(|error| error.to_string())),
            });
            println!("chaos sentinel failover: named after {} ms", promoted.elapsed().as_millis());
            load.awaits_recovery();
            assert_at_most_one_burst("sentinel failover", spending.end());
            sentinels.calm();
            sentinels.server_mut(old).restart().unwrap();
            sentinels.settle();
            load.reaches_its_limits();
        }
        load.end().assert_over_by_at_most(of_losses(rounds()));
    }
}

/// Writes that a replica hasn't got are lost with its primary: here, all.
#[test]
fn a_replica_that_lags_behind_the_killed_primary_costs_at_most_one_burst() {
    for binary in binaries("lagging") {
        let mut sentinels = Sentinels::builder(&binary).start().unwrap();
        let old = sentinels.primary();
        sentinels.server_mut(1 - old).pause().unwrap();
        // Writes on their way to it would still arrive.
        sentinels.server(old).cli(&["CLIENT", "KILL", "TYPE", "replica"]).unwrap();
        let load = Load::begin("sentinel failover to a replica that lags", &url_of(&sentinels));
        let spending = Spending::begin(&url_of(&sentinels));
        assert_eq!(sentinels.lose_primary().unwrap(), old);
        sentinels.server_mut(1 - old).resume().unwrap();
        await_promotion(sentinels.server(1 - old));
        load.recovers();
        let beyond = spending.end();
        assert_at_most_one_burst("sentinel failover to a replica that lags", beyond);
        assert!(beyond[0] > 0, "all that was spent before is lost");
        load.reaches_its_limits();
        load.end().assert_over_by_at_most(of_losses(1));
    }
}

/// Its primary sends it nothing before it has announced itself, which it does once a second.
#[test]
fn a_replica_that_has_just_come_costs_at_most_one_burst() {
    for binary in binaries("just come") {
        let mut sentinels = Sentinels::builder(&binary).start().unwrap();
        let load = Load::begin("sentinel failover to a new replica", &url_of(&sentinels));
        let spending = Spending::begin(&url_of(&sentinels));
        let old = sentinels.primary();
        let primary = sentinels.server(old);
        primary.cli(&["CLIENT", "KILL", "TYPE", "replica"]).unwrap();
        until_seldom("the replica again", || match primary.cli(&["INFO", "replication"]) {
            Ok(info) if info.contains("state=online") => Ok(()),
            other => Err(other.map_err(|error| error.to_string())),
        });
        assert_eq!(sentinels.lose_primary().unwrap(), old);
        await_promotion(sentinels.server(1 - old));
        load.recovers();
        assert_at_most_one_burst("sentinel failover to a new replica", spending.end());
        load.reaches_its_limits();
        load.end().assert_over_by_at_most(of_losses(1));
    }
}

/// A primary that takes no writes without a replica that keeps up decides nothing that can be lost for
/// long.
#[test]
fn a_primary_that_wants_a_replica_decides_nothing_without_one() {
    for binary in binaries("wanted") {
        let options = ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "1"];
        let mut sentinels = Sentinels::builder(&binary).options(&options).start().unwrap();
        let load = Load::begin("primary without its replica", &url_of(&sentinels));
        for _ in 0..rounds() {
            let replica = 1 - sentinels.primary();
            sentinels.server_mut(replica).pause().unwrap();
            load.awaits_errors();
            let decided = load.tally(|tally| tally.decided());
            load.awaits_errors();
            assert_eq!(load.tally(|tally| tally.decided()), decided, "nothing more is decided");
            sentinels.server_mut(replica).resume().unwrap();
            load.recovers();
            load.reaches_its_limits();
        }
        load.end().assert_exact();
    }
}

fn url_of(sentinels: &Sentinels) -> String {
    let hosts: Vec<_> =
        sentinels.sentinels().iter().map(|it| format!("127.0.0.1:{}", it.port())).collect();
    format!("redis+sentinel://{}/{}", hosts.join(","), sentinels.name())
}

fn url(cluster: &Cluster) -> String {
    let hosts = cluster.urls();
    let hosts: Vec<_> = hosts.iter().map(|url| url.trim_start_matches("redis://")).collect();
    format!("redis+cluster://{}", hosts.join(","))
}

#[test]
fn a_killed_node_that_its_replica_replaces_costs_at_most_one_burst() {
    for binary in binaries("cluster") {
        let mut cluster = Cluster::builder(&binary).start().unwrap();
        let load = Load::begin("cluster failover", &url(&cluster));
        let slot = cluster.slot_of(subject(0).as_bytes()).unwrap();
        for _ in 0..rounds() {
            let old = cluster.primary_of(slot);
            let replica = cluster.replicas_of(old).unwrap()[0];
            let spending = Spending::begin(&url(&cluster));
            await_replica(cluster.node(old).server());
            assert_eq!(cluster.lose_primary_of(slot).unwrap(), old);
            await_promotion(cluster.node(replica).server());
            load.recovers();
            assert_at_most_one_burst("cluster failover", spending.end());
            cluster.calm();
            cluster.server_mut(old).restart().unwrap();
            cluster.settle();
            load.reaches_its_limits();
        }
        load.end().assert_over_by_at_most(of_losses(rounds()));
    }
}

/// A node that hands over its slots waits until the other one has all writes.
#[test]
fn a_node_that_hands_over_and_slots_that_move_admit_nothing_too_much() {
    for binary in binaries("handover") {
        let cluster = Cluster::builder(&binary).start().unwrap();
        let load = Load::begin("cluster handover", &url(&cluster));
        let slot = cluster.slot_of(subject(0).as_bytes()).unwrap();
        // The slot that is a third of all slots away is on another node.
        for round in 1..=rounds() {
            let elsewhere = slot.wrapping_add(u16::try_from(round).unwrap() * 5_462) % 16_384;
            let replica = cluster.replicas_of(cluster.primary_of(slot)).unwrap()[0];
            cluster.fail_over(replica).unwrap();
            load.recovers();
            load.reaches_its_limits();
            let migration = cluster.migration(slot, cluster.primary_of(elsewhere));
            migration.open().unwrap();
            load.recovers();
            while migration.move_keys(1).unwrap() > 0 {}
            load.recovers();
            migration.assign().unwrap();
            load.recovers();
            cluster.settle();
            load.reaches_its_limits();
        }
        load.end().assert_exact();
    }
}
