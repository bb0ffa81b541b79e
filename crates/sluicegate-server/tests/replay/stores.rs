//! Tests replays through the store of a server.

use sluicegate_testkit::servers::Server;

use crate::support::{LOG, json, sluicegate};

#[test]
fn a_server_gives_the_answers_of_the_embedded_store_and_keeps_nothing() {
    let server = Server::start().unwrap();
    let url = server.url();
    let arguments = |store| {
        [
            "--log",
            LOG,
            "--format",
            "json",
            "--store",
            store,
            "--policy",
            "sliding_log 10/min",
            "token_bucket 10/min burst 20",
            "sliding_window 30/h",
            "smooth 1/s",
            "warmup 1/s over 10s",
        ]
    };
    let embedded = sluicegate(&arguments("memory:"));
    assert_eq!(json(&sluicegate(&arguments(&url))), json(&embedded));
    assert_eq!(server.cli(&["DBSIZE"]).unwrap(), "0");
}

#[test]
fn a_server_that_is_down_ends_the_replay_with_status_3() {
    // A free port could be given to the server of another test meanwhile.
    let store = "redis://127.0.0.1:1";
    let output = sluicegate(&[
        "--log",
        LOG,
        "--policy",
        "gcra 1/s",
        "--store",
        store,
        "--deadline",
        "200ms",
    ]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.contains("the store failed") && output.stdout.is_empty(), "{message}");
    assert!(!message.contains("charged"), "a replay charges nobody: {message}");
}
