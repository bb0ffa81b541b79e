//! Commands that a signal interrupts.

use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sluicegate_testkit::servers::{fresh_prefix, shared};
use sluicegate_testkit::wait::until;

use crate::support::{File, binary, sluicegate};

/// In µs: a turn of the bucket.
const FIVE_MINUTES: u64 = 300_000_000;

fn config() -> File {
    let (url, prefix) = (shared().unwrap().url(), fresh_prefix("bin"));
    File::new(
        "limits.yaml",
        &format!(
            "store: \"{url}\"\nredis: {{prefix: \"{prefix}\"}}\nlimits:\n  m: {{policies: [\"token_bucket 1/5min burst 1\"]}}\n  \
             jobs: {{policies: [\"concurrency 1 hold 1h queue 9\"]}}\n"
        ),
    )
}

fn ask(file: &File, verb: &str, limit: &str) -> Value {
    sluicegate(&[verb, "--config", file.path(), "--limit", limit, "--key", "k", "--json"]).json()
}

/// Starts a command that waits.
fn acquire(file: &File, limit: &str, within: &str) -> Child {
    let args =
        ["acquire", "--config", file.path(), "--limit", limit, "--key", "k", "--within", within];
    binary().args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn interrupt(child: Child, signal: Signal, status: i32) {
    kill_process(Pid::from_child(&child), signal).unwrap();
    let done = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(status), "{stderr}");
    assert!(stderr.contains("interrupted: the turn is given back"), "{stderr}");
}

#[test]
fn an_interrupted_acquire_kept_its_turn() {
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let file = config();
        assert_eq!(ask(&file, "check", "m")["allowed"], true);
        let wait = || ask(&file, "peek", "m")["retry_after_us"].as_u64().unwrap();
        let child = acquire(&file, "m", "10min");
        until("the turn is reserved", || if wait() > FIVE_MINUTES { Ok(()) } else { Err(wait()) });
        interrupt(child, signal, status);
        assert!(wait() <= FIVE_MINUTES, "the turn is free again: {}", wait());
    }
}

#[test]
fn an_interrupted_acquire_leaves_the_queue_of_permits() {
    let file = config();
    assert_eq!(ask(&file, "check", "jobs")["allowed"], true);
    let waiting = || {
        let list = sluicegate(&[
            "holders",
            "--config",
            file.path(),
            "--limit",
            "jobs",
            "--key",
            "k",
            "--json",
        ]);
        list.json()["waiting"].as_u64().unwrap()
    };
    let child = acquire(&file, "jobs", "10min");
    until("it waits", || if waiting() == 1 { Ok(()) } else { Err(waiting()) });
    interrupt(child, Signal::TERM, 143);
    assert_eq!(waiting(), 0);
}
