//! Servers and networks that fail and lose nothing: no limit is ever exceeded.

use std::time::Duration;

use sluicegate_testkit::proxy::{Cut, Direction, Fault, Proxy};
use sluicegate_testkit::servers::Server;
use sluicegate_testkit::wait::until_seldom;

use crate::chaos::binaries;
use crate::chaos::load::{Load, rounds};

#[test]
fn a_halted_server_admits_nothing_too_much() {
    for binary in binaries("halted") {
        let mut server = Server::start_with(&binary, &[]).unwrap();
        let load = Load::begin("halted", &server.url());
        for _ in 0..2 * rounds() {
            server.pause().unwrap();
            load.awaits_errors();
            server.resume().unwrap();
            load.recovers();
            load.reaches_its_limits();
        }
        load.end().assert_exact();
    }
}

#[test]
fn a_network_that_cuts_delays_holds_and_dribbles_admits_nothing_too_much() {
    const LATE: Duration = Duration::from_millis(400);
    for binary in binaries("network") {
        let server = Server::start_with(&binary, &[]).unwrap();
        let proxy = Proxy::start(server.port()).unwrap();
        let load = Load::begin("network", &proxy.url());
        for _ in 0..rounds() {
            for cut in [Cut::Finish, Cut::Reset] {
                proxy.cut(cut);
                load.recovers();
                // In the middle of a reply, and of a request.
                for direction in [Direction::Replies, Direction::Requests] {
                    let before = proxy.accepted();
                    proxy.set(direction, Fault::CutAfter(1_001, cut));
                    // If a reply ends there, only a new connection may notice it.
                    until_seldom("another connection", || match proxy.accepted() {
                        accepted if accepted > before => Ok(()),
                        accepted => Err(accepted),
                    });
                    load.recovers();
                }
            }
            for (direction, fault) in [
                (Direction::Replies, Fault::Delay(LATE)),
                (Direction::Requests, Fault::Delay(LATE)),
                // Half open: requests arrive, but no replies.
                (Direction::Replies, Fault::Hold),
                (Direction::Requests, Fault::Hold),
                (Direction::Replies, Fault::Dribble(Duration::from_millis(5))),
            ] {
                proxy.set(direction, fault);
                load.awaits_errors();
                proxy.heal();
                load.recovers();
            }
            proxy.refuse();
            proxy.cut(Cut::Reset);
            load.awaits_errors();
            proxy.accept().unwrap();
            load.recovers();
            load.reaches_its_limits();
        }
        load.end().assert_exact();
    }
}

#[test]
fn a_server_that_forgets_its_scripts_admits_nothing_too_much() {
    for binary in binaries("scripts") {
        let server = Server::start_with(&binary, &[]).unwrap();
        let load = Load::begin("scripts", &server.url());
        for _ in 0..10 * rounds() {
            server.cli(&["SCRIPT", "FLUSH"]).unwrap();
            load.recovers();
        }
        load.reaches_its_limits();
        let findings = load.end();
        findings.assert_exact();
        findings.assert_no_unfounded_denials();
    }
}

#[test]
fn a_full_server_that_evicts_nothing_admits_nothing_too_much() {
    for binary in binaries("full") {
        let server = Server::start_with(&binary, &["--maxmemory-policy", "noeviction"]).unwrap();
        let load = Load::begin("full", &server.url());
        for _ in 0..rounds() {
            server.cli(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
            load.awaits_errors();
            server.cli(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
            load.recovers();
            load.reaches_its_limits();
        }
        load.end().assert_exact();
    }
}

/// Makes it a replica of a primary that doesn't exist, so that nothing is copied.
#[test]
fn a_server_that_becomes_a_replica_for_a_while_admits_nothing_too_much() {
    for binary in binaries("replica") {
        let server = Server::start_with(&binary, &[]).unwrap();
        let mut gone = Server::start_with(&binary, &[]).unwrap();
        gone.kill().unwrap();
        let load = Load::begin("replica", &server.url());
        for _ in 0..rounds() {
            server.cli(&["REPLICAOF", "127.0.0.1", &gone.port().to_string()]).unwrap();
            load.awaits_errors();
            server.cli(&["REPLICAOF", "NO", "ONE"]).unwrap();
            load.recovers();
            load.reaches_its_limits();
        }
        load.end().assert_exact();
    }
}
