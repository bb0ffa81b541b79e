//! Defects of published libraries when servers forget, stop, forbid or form a cluster. Each test
//! has its own servers.

use std::time::Duration;

use sluicegate_core::{
    OpenOptions, OpenedLimit as _, Operation, Request, Span, Store as _, StoreErrorKind,
};
use sluicegate_redis::{RedisStore, Script};
use sluicegate_testkit::servers::{GarbageServer, Misbehaviour, Server, available};
use sluicegate_testkit::wait::until;

use crate::defects::everywhere::{KINDS, limit, slow};
use crate::defects::raw::{PATIENCE, Raw, check_of, to};

fn on_servers_of_my_own(options: &[&str], test: impl Fn(&mut Server)) {
    for binary in available().unwrap() {
        test(&mut Server::start_with(&binary, options).unwrap());
    }
}

/// Library defect 7.24.
#[test]
fn a_script_that_was_flushed_is_sent_again_and_charges_once() {
    on_servers_of_my_own(&[], |server| {
        let raw = Raw::new(server);
        for spec in KINDS.map(slow) {
            let handle = raw.open(&[&spec]);
            let spared = raw.open(&[&format!("{spec} as spared")]);
            let mut answers = [Vec::new(), Vec::new()];
            for _ in 0..12 {
                raw.command(&[b"SCRIPT", b"FLUSH"]);
                answers[0].push(raw.check(&handle).is_allowed());
                answers[1].push(raw.check(&spared).is_allowed());
            }
            assert_eq!(answers[0], answers[1], "{spec}");
        }
    });
}

/// Library defect 7.25: a call with an unknown outcome is not sent again, and was charged at most
/// once. A server that can detect that its caller has stopped waiting charges nothing.
#[test]
fn a_call_that_timed_out_is_charged_at_most_once_and_never_retried() {
    for spec in
        ["token_bucket 10/h", "fixed_window 10/h", "sliding_log 10/h", "sliding_counter 10/h"]
    {
        on_servers_of_my_own(&[], |server| {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let store =
                |deadline| RedisStore::builder(&server.url()).unwrap().deadline(deadline).build();
            let (hasty, patient) = (store(Duration::from_millis(100)), store(PATIENCE));
            let opened = |store: &RedisStore| store.open(limit(&[spec]), OpenOptions::default());
            let ask =
                |store: &RedisStore, request| runtime.block_on(opened(store).ask(request).wait());
            assert!(ask(&patient, Request::check(b"alice")).unwrap().is_allowed());
            runtime.block_on(hasty.ping()).unwrap();
            server.pause().unwrap();
            let error = ask(&hasty, Request::check(b"alice")).unwrap_err();
            assert_eq!(error.as_store().unwrap().kind(), StoreErrorKind::Timeout, "{error}");
            server.resume().unwrap();
            // The server processes earlier requests on that connection before it answers this one.
            until("an answer of the store", || runtime.block_on(hasty.ping()));
            let left = ask(&patient, to(Operation::Peek, 1)).unwrap().remaining();
            assert!(
                matches!(left, Some(8 | 9)),
                "{spec}: {left:?} of ten after a call and one that timed out"
            );
        });
    }
}

/// Tests deadlines in virtual time, which advances only while everything waits. So only the waits
/// count, not the load of the machine.
#[test]
fn a_call_waits_for_one_deadline_and_no_longer_whatever_the_server_does() {
    const DEADLINE: Duration = Duration::from_millis(50);
    // The runtime counts in milliseconds and rounds up.
    const MOST: Duration = Duration::from_millis(52);
    let waits = |url: &str| {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let store = RedisStore::builder(url).unwrap().deadline(DEADLINE).build();
        let policies = limit(&["token_bucket 10/h", "sliding_log 10/h"]);
        let opened = store.open(policies, OpenOptions::default());
        let runtime = builder.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            for call in 0..5 {
                let asked = tokio::time::Instant::now();
                let error = opened.ask(Request::check(b"alice")).wait().await.unwrap_err();
                assert!(error.is_store_failure(), "call {call}: {error}");
                assert!(asked.elapsed() <= MOST, "call {call}: {:?}: {error}", asked.elapsed());
            }
        });
    };
    for misbehaviour in [
        Misbehaviour::Answer(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        Misbehaviour::Silence,
        Misbehaviour::Close,
    ] {
        waits(&GarbageServer::start(misbehaviour).unwrap().url());
    }
    on_servers_of_my_own(&[], |server| {
        server.pause().unwrap();
        waits(&server.url());
        server.kill().unwrap();
        waits(&server.url());
    });
}

/// Library defect 7.26: a user with access to only these keys and only these commands.
#[test]
fn no_key_is_touched_that_is_not_declared() {
    on_servers_of_my_own(&[], |server| {
        let commands = [
            "+evalsha",
            "+eval",
            "+time",
            "+get",
            "+set",
            "+getrange",
            "+setrange",
            "+strlen",
            "+pexpire",
            "+del",
            "+ping",
        ];
        let user = [
            "ACL",
            "SETUSER",
            "gate",
            "reset",
            "on",
            ">secret",
            "~only-these:*",
            "-@all",
            "+hello",
            "+client",
        ];
        server.cli(&[&user[..], &commands[..]].concat()).unwrap();
        let url = server.url().replace("redis://", "redis://gate:secret@");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let store = |prefix: &str| {
            let store = RedisStore::builder(&url).unwrap().prefix(prefix.parse().unwrap());
            store.deadline(PATIENCE).build()
        };
        let (mine, other) = (store("only-these"), store("others"));
        for spec in KINDS.map(slow) {
            let handle = mine.open(
                limit(&[&spec, "sliding_log 10/h as more", "gcra 10/h as last"]),
                OpenOptions::default(),
            );
            for operation in [
                Operation::Check,
                Operation::Peek,
                Operation::Charge,
                Operation::Take,
                Operation::Refund,
            ] {
                let _ = runtime.block_on(handle.ask(to(operation, 1)).wait()).unwrap();
            }
            for _ in 0..12 {
                let _ = runtime.block_on(handle.ask(check_of(1)).wait()).unwrap();
            }
            let _ = runtime.block_on(handle.ask(to(Operation::Reset, 1)).wait()).unwrap();
        }
        let handle = other.open(limit(&["gcra 1/h"]), OpenOptions::default());
        let error = runtime.block_on(handle.ask(check_of(1)).wait()).unwrap_err();
        assert_eq!(
            error.as_store().unwrap().kind(),
            StoreErrorKind::Unexpected,
            "the fence holds: {error}"
        );
    });
}

/// Library defect 7.26 and seed defect 1.10: a cluster refuses commands that cross slots.
#[test]
fn the_keys_of_a_decision_are_in_one_slot_of_a_cluster() {
    on_servers_of_my_own(&["--cluster-enabled", "yes"], |server| {
        server.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).unwrap();
        // The server itself paces the polling: WAIT takes 50 ms to find no replica.
        let is_up = (0..200).any(|_| {
            let is_up = server.cli(&["CLUSTER", "INFO"]).unwrap().contains("cluster_state:ok");
            is_up || {
                server.cli(&["WAIT", "1", "50"]).unwrap();
                false
            }
        });
        assert!(is_up, "{}", server.cli(&["CLUSTER", "INFO"]).unwrap());
        let raw = Raw::new(server);
        let handle = raw.open(&[
            "sliding_log 10/h",
            "sliding_log 5/h as second",
            "sliding_window 10/h slices 3600",
            "token_bucket 10/h",
            "fixed_window 10/h",
        ]);
        for subject in [&b"alice"[..], b"", b"}a{b", b"{}", b"%", b"a:b\0\n", &[b'x'; 200]] {
            for expected in [true, true, true, true, true, false] {
                let decision = raw.ask(&handle, Request::check(subject));
                assert_eq!(decision.is_allowed(), expected, "{}", subject.escape_ascii());
            }
        }
        assert_eq!(raw.keys().len(), 7 * 4);
    });
}

/// Library defect 7.3: TTLs are durations by the server's clock. No client's date can make a state
/// end before it began.
#[test]
fn no_life_ends_at_a_clients_date() {
    for absolute in ["EXPIREAT", "EXAT", "PXAT"] {
        assert!(!Script::get().text().to_uppercase().contains(absolute), "{absolute}");
    }
    on_servers_of_my_own(&[], |server| {
        let raw = Raw::new(server);
        for spec in KINDS {
            // One client with a date in 1970, and one with a date in 2255.
            for at in [0, sluicegate_core::MAX_EXACT - Span::HOUR.as_micros()] {
                let handle = raw.open_injected(&[spec]);
                let at = sluicegate_core::Timestamp::from_micros(at).unwrap();
                let subject = format!("{spec} {at:?}");
                let check = Request::check(subject.as_bytes()).at(at);
                assert!(raw.ask(&handle, check).is_allowed(), "{subject}");
            }
        }
        let keys = raw.keys();
        assert_eq!(
            keys.len(),
            2 * (KINDS.len() + 2),
            "the ring of 100 slices and the log have two"
        );
        for key in keys {
            assert!(raw.life(&key) > 3_000_000, "{}", key.escape_ascii());
        }
    });
}
