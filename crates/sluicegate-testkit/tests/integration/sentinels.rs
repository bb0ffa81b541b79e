//! Tests that sentinels find each other, name the primary and replace it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and says how long a start takes"
)]

use std::time::{Duration, Instant};

use sluicegate_testkit::servers::{Sentinels, Server, available};
use sluicegate_testkit::wait::{until, until_seldom};

fn ask(server: &Server, login: &[&str], words: &[&str]) -> String {
    let mut connection = server.connect(Duration::from_secs(5)).unwrap();
    let mut send = |words: &[&str]| {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        connection.command(&words).unwrap().to_string()
    };
    if !login.is_empty() {
        assert_eq!(send(login), "OK");
    }
    send(words)
}

#[test]
fn sentinels_name_the_primary_and_its_replicas_follow_it() {
    for binary in available().unwrap() {
        let begun = Instant::now();
        let sentinels = Sentinels::builder(&binary).replicas(2).start().unwrap();
        println!("{binary}: 1 + 2 servers and 3 sentinels in {:?}", begun.elapsed());
        let port = sentinels.server(0).port();
        for sentinel in 0..3 {
            let address = sentinels.address_of_primary(sentinel).unwrap();
            assert_eq!(address, Some(("127.0.0.1".to_owned(), port)));
        }
        let quorum = sentinels.sentinels()[0].cli(&["SENTINEL", "CKQUORUM", sentinels.name()]);
        assert!(quorum.unwrap().starts_with("OK 3 usable"));
        sentinels.server(0).cli(&["SET", "key", "1"]).unwrap();
        let why = sentinels.server(1).cli(&["SET", "key", "2"]).unwrap_err().to_string();
        assert!(why.contains("READONLY"), "{why}");
        until("a replica has it", || match sentinels.server(2).cli(&["GET", "key"]).unwrap() {
            value if value == "1" => Ok(()),
            value => Err(value),
        });
    }
}

#[test]
fn a_replica_becomes_the_primary_by_command_and_when_the_primary_is_killed() {
    for binary in available().unwrap() {
        let mut sentinels = Sentinels::builder(&binary).start().unwrap();
        let first = sentinels.primary();
        let second = 1 - first;
        sentinels.server(first).cli(&["SET", "key", "1"]).unwrap();
        until("the replica has it", || {
            match sentinels.server(second).cli(&["GET", "key"]).unwrap() {
                value if value == "1" => Ok(()),
                value => Err(value),
            }
        });
        let begun = Instant::now();
        assert_eq!(sentinels.fail_over().unwrap(), second);
        println!("{binary}: a fail-over by command took {:?}", begun.elapsed());
        assert_eq!(sentinels.server(second).cli(&["GET", "key"]).unwrap(), "1");

        let begun = Instant::now();
        assert_eq!(sentinels.kill_primary().unwrap(), first);
        println!("{binary}: a fail-over took {:?}", begun.elapsed());
        assert_eq!(sentinels.server(first).cli(&["SET", "key", "2"]).unwrap(), "OK");

        // The killed server restarts, and is made a replica.
        sentinels.server_mut(second).restart().unwrap();
        sentinels.settle();
        assert_eq!(sentinels.primary(), first);
        let why = sentinels.server(second).cli(&["SET", "key", "3"]).unwrap_err().to_string();
        assert!(why.contains("READONLY"), "{why}");
    }
}

#[test]
fn sentinels_have_passwords_of_their_own() {
    for binary in available().unwrap() {
        let mut sentinels = Sentinels::builder(&binary)
            .password("of the servers")
            .sentinel_password("of the sentinels")
            .sentinel_user("asker", "of the asker")
            .start()
            .unwrap();
        let first = &sentinels.sentinels()[0];
        let question = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"];
        let why = ask(first, &[], &question);
        assert!(why.starts_with("NOAUTH"), "{why}");
        let primary = sentinels.primary();
        let answer = format!("127.0.0.1\n{}", sentinels.server(primary).port());
        assert_eq!(ask(first, &["AUTH", "of the sentinels"], &question), answer);
        let asker = ["AUTH", "asker", "of the asker"];
        assert_eq!(ask(first, &asker, &question), answer);
        let why = ask(first, &asker, &["ACL", "LIST"]);
        assert!(why.starts_with("NOPERM"), "{why}");
        let why = ask(sentinels.server(0), &[], &["PING"]);
        assert!(why.starts_with("NOAUTH"), "{why}");
        assert_eq!(sentinels.kill_primary().unwrap(), 1 - primary);
    }
}

/// Busy machines halt servers for seconds. The sentinels once elected another primary then, in the
/// middle of a test that had queried the primary.
#[test]
fn a_primary_that_is_halted_for_a_while_stays_the_primary() {
    for binary in available().unwrap() {
        let mut sentinels = Sentinels::builder(&binary).start().unwrap();
        let primary = sentinels.primary();
        let epoch = |sentinels: &Sentinels| {
            let known = sentinels.sentinels()[0].cli(&["SENTINEL", "MASTER", sentinels.name()]);
            let known = known.unwrap();
            known.lines().skip_while(|line| *line != "config-epoch").nth(1).unwrap().to_owned()
        };
        let before = epoch(&sentinels);
        sentinels.server_mut(primary).pause().unwrap();
        // Longer than the timeout for a lost primary, as measured by the pings of a sentinel.
        until_seldom("a sentinel that has heard nothing for long", || {
            let known = sentinels.sentinels()[0].cli(&["SENTINEL", "MASTER", sentinels.name()]);
            let known = known.unwrap();
            let silent = known.lines().skip_while(|line| *line != "last-ok-ping-reply").nth(1);
            assert_eq!(sentinels.primary(), primary);
            match silent.unwrap().parse::<u64>().unwrap() {
                silent if silent > 3_000 => Ok(()),
                silent => Err(silent),
            }
        });
        sentinels.server_mut(primary).resume().unwrap();
        sentinels.settle();
        assert_eq!((sentinels.primary(), epoch(&sentinels)), (primary, before));
    }
}

#[test]
fn a_sentinel_that_is_restarted_knows_what_it_knew() {
    let mut sentinels = Sentinels::start().unwrap();
    sentinels.sentinel_mut(2).restart().unwrap();
    sentinels.settle();
    let port = sentinels.server(0).port();
    assert_eq!(sentinels.address_of_primary(2).unwrap().unwrap().1, port);
}
