//! Servers that lose writes: each loss costs a key at most the units that a fresh key admits immediately.

use std::time::Duration;

use sluicegate_testkit::servers::{Connection, Reply, Server, fresh_prefix};
use sluicegate_testkit::wait::until_seldom;

use crate::chaos::binaries;
use crate::chaos::load::{BUCKET, Load, Manner, RULES, Rule, rounds};
use crate::chaos::tally::Times;

/// Returns the excess units that this many losses of a key may admit. Each loss resets the key, so it admits a burst or
/// a window's limit again. Leased units are included: they had been charged before the loss, so other requests could
/// not be admitted for them.
pub(crate) fn of_losses(losses: u64) -> impl Fn(&Rule) -> u64 {
    move |rule| losses * rule.promise.at_once()
}

#[test]
fn a_killed_server_that_comes_back_empty_admits_one_burst_anew() {
    for binary in binaries("killed") {
        let mut server = Server::start_with(&binary, &[]).unwrap();
        let load = Load::begin("killed", &server.url());
        for _ in 0..rounds() {
            server.kill().unwrap();
            load.awaits_errors();
            server.restart().unwrap();
            load.recovers();
            load.reaches_its_limits();
        }
        load.end().assert_over_by_at_most(of_losses(rounds()));
    }
}

/// With persistence that waits for the disk nothing is lost.
#[test]
fn a_killed_server_that_comes_back_with_all_it_wrote_admits_nothing_too_much() {
    for binary in binaries("persistent") {
        let options = ["--appendonly", "yes", "--appendfsync", "always"];
        let mut server = Server::start_with(&binary, &options).unwrap();
        let load = Load::begin("persistent", &server.url());
        for _ in 0..rounds() {
            server.kill().unwrap();
            load.awaits_errors();
            server.restart().unwrap();
            load.recovers();
            load.reaches_its_limits();
        }
        load.end().assert_exact();
    }
}

#[test]
fn a_server_whose_keys_are_all_deleted_admits_one_burst_anew() {
    for binary in binaries("flushed") {
        let server = Server::start_with(&binary, &[]).unwrap();
        let load = Load::begin("flushed", &server.url());
        for _ in 0..rounds() {
            server.cli(&["FLUSHALL"]).unwrap();
            load.recovers();
            load.reaches_its_limits();
        }
        let findings = load.end();
        findings.assert_over_by_at_most(of_losses(rounds()));
        // Nearly all of it: the auditor would see much less.
        let over = findings.tally.excess(BUCKET, Times::Server);
        assert!(over > RULES[BUCKET].promise.at_once() / 2, "{findings}");
    }
}

#[test]
fn a_server_that_is_loading_its_data_admits_nothing_until_it_has() {
    for binary in binaries("loading") {
        let mut server = Server::start_with(&binary, &[]).unwrap();
        let load = Load::begin("loading", &server.url());
        server.start_loading().unwrap();
        load.awaits_errors();
        server.finish_loading().unwrap();
        load.recovers();
        load.reaches_its_limits();
        // Its keys are deleted, and then it recovers with others.
        load.end().assert_over_by_at_most(of_losses(2));
    }
}

#[test]
fn a_key_that_is_evicted_admits_one_burst_anew() {
    for binary in binaries("evicted") {
        let server = Server::start_with(&binary, &["--notify-keyspace-events", "Ee"]).unwrap();
        let prefix = fresh_prefix("evict");
        let load = Load::begin_with("evicted", &server.url(), &prefix, Manner::Patient, |_| ());
        let mut listener = server.connect(PATIENCE).unwrap();
        listener.command(&[b"PSUBSCRIBE", b"__keyevent@0__:evicted", b"end"]).unwrap();
        let has_room = used_memory(&server) + 2_000_000;
        server.cli(&["CONFIG", "SET", "maxmemory", &has_room.to_string()]).unwrap();
        // First the least recently used, which ours are not; then any.
        server.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).unwrap();
        for _ in 0..2 * rounds() {
            fill(&server);
        }
        server.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]).unwrap();
        until_seldom("an eviction that costs something", || {
            fill(&server);
            match load.tally(|tally| tally.excess(BUCKET, Times::Server)) {
                0 => Err(0),
                _ => Ok(()),
            }
        });
        server.cli(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
        load.recovers();
        load.reaches_its_limits();
        server.cli(&["PUBLISH", "end", "-"]).unwrap();
        let evicted = evicted(&mut listener);
        let ours: Vec<_> = evicted.iter().filter(|key| key.starts_with(&prefix)).collect();
        println!("chaos evicted: {} keys, {} of them ours", evicted.len(), ours.len());
        load.end().assert_over_by_at_most(|rule| {
            let of_rule = ours.iter().filter(|key| key.contains(rule.name)).count();
            of_losses(u64::try_from(of_rule).unwrap())(rule)
        });
    }
}

const PATIENCE: Duration = Duration::from_secs(20);

/// Writes two megabytes that are never read.
fn fill(server: &Server) {
    const KEYS: u32 = 500;
    let mut connection = server.connect(PATIENCE).unwrap();
    for _ in 0..KEYS {
        let key = format!("filler:{}", fastrand::u64(..));
        connection.send(&[b"SET", key.as_bytes(), &[b'x'; 4_096]]).unwrap();
    }
    for _ in 0..KEYS {
        connection.receive().unwrap();
    }
}

fn used_memory(server: &Server) -> u64 {
    let memory = server.cli(&["INFO", "memory"]).unwrap();
    let used = memory.lines().find_map(|line| line.strip_prefix("used_memory:"));
    used.unwrap().trim().parse().unwrap()
}

/// Returns the keys that were evicted, up to the message that ends the list.
fn evicted(listener: &mut Connection) -> Vec<String> {
    let mut keys = Vec::new();
    loop {
        let Reply::Array(words) = listener.receive().unwrap() else { continue };
        let words: Vec<_> = words.iter().map(ToString::to_string).collect();
        match words.as_slice() {
            [kind, _, channel, _] if kind == "pmessage" && channel == "end" => return keys,
            [kind, _, _, key] if kind == "pmessage" => keys.push(key.clone()),
            _ => {}
        }
    }
}
