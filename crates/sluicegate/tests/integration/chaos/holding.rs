//! Held units of processes that are killed: never more than the limit, none created, and none lost for longer than its
//! hold.

mod deals;
mod flight;
mod journal;
mod planted;
mod rules;
mod scene;
mod used;
mod verdicts;
mod worker;

use sluicegate_testkit::proxy::{Cut, Direction, Fault, Proxy};
use sluicegate_testkit::servers::{Cluster, Sentinels, Server};

use crate::chaos::binaries;
use crate::chaos::load::{rounds, subject, wall_clock};
use scene::Scene;
use worker::Crew;

/// With persistence that waits for the disk nothing that was answered is lost.
const PERSISTENT: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

#[test]
fn holders_waiters_and_servers_that_are_killed_at_random_create_and_lose_no_unit() {
    let binaries = binaries("held");
    let minutes = 10 / u64::try_from(binaries.len()).unwrap();
    for binary in binaries {
        let mut server = Server::start_with(&binary, &PERSISTENT).unwrap();
        let proxy = Proxy::start(server.port()).unwrap();
        let mut scene = Scene::begin("one server", &proxy.url(), Crew::All);
        let mut faults: Vec<u8> = Vec::new();
        while scene.goes_on(3, minutes) {
            // When little is unknown, most deals can be checked.
            scene.shake(if fastrand::u8(..4) == 0 && rounds() > 1 { 16 } else { 3 });
            if faults.is_empty() {
                faults.extend(0..7);
                fastrand::shuffle(&mut faults);
            }
            let fault = faults.pop();
            scene.outage(|scene| strike(scene, &mut server, &proxy, fault.unwrap()));
        }
        // The tickets of waiters that are killed now expire last.
        scene.change_crew(Crew::Impatient);
        scene.shake(16);
        scene.end().assert_exact();
    }
}

/// Something that a server or network does and that loses nothing which was answered.
fn strike(scene: &mut Scene, server: &mut Server, proxy: &Proxy, fault: u8) {
    match fault {
        0 | 1 => {
            server.kill().unwrap();
            scene.shake(fastrand::usize(..3));
            server.restart().unwrap();
        }
        2 => {
            server.pause().unwrap();
            // Sometimes for longer than any hold.
            scene.shake(fastrand::usize(..16));
            server.resume().unwrap();
        }
        3 => proxy.cut(Cut::Reset),
        4 => {
            let direction = if fastrand::bool() { Direction::Replies } else { Direction::Requests };
            proxy.set(direction, Fault::Hold);
            scene.shake(fastrand::usize(1..4));
            proxy.heal();
        }
        5 => {
            proxy.refuse();
            proxy.cut(Cut::Finish);
            scene.shake(2);
            proxy.accept().unwrap();
        }
        _ => drop(server.cli(&["SCRIPT", "FLUSH"]).unwrap()),
    }
}

#[test]
fn a_node_of_a_cluster_that_is_killed_and_comes_back_creates_and_loses_no_unit() {
    for binary in binaries("held in a cluster") {
        let mut cluster =
            Cluster::builder(&binary).replicas(0).options(&PERSISTENT).start().unwrap();
        let hosts = cluster.urls();
        let hosts: Vec<_> = hosts.iter().map(|url| url.trim_start_matches("redis://")).collect();
        let url = format!("redis+cluster://{}", hosts.join(","));
        let mut scene = Scene::begin("cluster", &url, Crew::Impatient);
        while scene.goes_on(2, 1) {
            scene.shake(4);
            let slot = cluster.slot_of(subject(0).as_bytes()).unwrap();
            let node = cluster.primary_of(slot);
            scene.outage(|scene| {
                cluster.server_mut(node).kill().unwrap();
                scene.shake(2);
                cluster.server_mut(node).restart().unwrap();
                cluster.settle();
            });
        }
        scene.shake(3);
        scene.end().assert_exact();
    }
}

/// State that a replica hasn't got is lost with its primary: holds, settlements and departures since then.
#[test]
fn a_replica_that_lags_behind_the_killed_primary_costs_each_key_what_it_has_at_most() {
    for binary in binaries("held at sentinels") {
        let mut sentinels = Sentinels::builder(&binary).start().unwrap();
        let hosts = sentinels.sentinels().iter();
        let hosts: Vec<_> = hosts.map(|it| format!("127.0.0.1:{}", it.port())).collect();
        let url = format!("redis+sentinel://{}/{}", hosts.join(","), sentinels.name());
        let mut losses = Vec::new();
        fall_behind(&mut sentinels);
        let mut scene = Scene::begin("sentinels", &url, Crew::Lasting);
        for round in 1..=rounds() {
            if round > 1 {
                fall_behind(&mut sentinels);
            }
            // In a soak, until everything that the replica knows has expired.
            scene.shake(if rounds() == 1 { 8 } else { 30 });
            let (begin, old) = (wall_clock(), sentinels.primary());
            scene.outage(|_| {
                assert_eq!(sentinels.lose_primary().unwrap(), old);
                sentinels.server_mut(1 - old).resume().unwrap();
                crate::chaos::failovers::await_promotion(sentinels.server(1 - old));
            });
            scene.shake(6);
            losses.push((begin, wall_clock()));
            if round < rounds() {
                sentinels.calm();
                scene.outage(|_| sentinels.server_mut(old).restart().unwrap());
                sentinels.settle();
            }
        }
        let mut ended = scene.end();
        let verdicts = &mut ended.verdicts;
        let lasting: Vec<_> = losses.iter().map(|(from, to)| (*from, to + 5_000_000)).collect();
        let ever: Vec<_> = losses.iter().map(|(from, _)| (*from, u64::MAX)).collect();
        let in_flight = verdicts.forgive("too many in flight", &lasting);
        let used = verdicts.forgive("too much used", &ever);
        println!("chaos held, sentinels: lost {in_flight} units in flight and {used} used at most");
        assert!(in_flight <= 3 && used <= 30 * rounds(), "{verdicts:#}");
        for kind in
            ["charged twice", "unfounded denial", "out of turn", "lost place", "ghost in the queue"]
        {
            // A job may be requested before it is lost, and again afterwards.
            let lasting: Vec<_> =
                lasting.iter().map(|(from, to)| (from - 2_000_000, *to)).collect();
            let _ = verdicts.forgive(kind, &lasting);
        }
        ended.assert_exact();
    }
}

/// Stops the replica from receiving writes.
fn fall_behind(sentinels: &mut Sentinels) {
    let primary = sentinels.primary();
    sentinels.server_mut(1 - primary).pause().unwrap();
    // Writes on their way to it would still arrive.
    sentinels.server(primary).cli(&["CLIENT", "KILL", "TYPE", "replica"]).unwrap();
}
