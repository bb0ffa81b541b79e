//! Tests commands that a signal interrupts.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStderr, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sluicegate_testkit::proxy::{Direction, Fault, Proxy};
use sluicegate_testkit::servers::{Server, shared};
use sluicegate_testkit::wait::until;

use crate::support::{File, Service, binary, own_store, sluicegate};

/// A turn of the bucket, in µs.
const FIVE_MINUTES: u64 = 300_000_000;

fn config() -> File {
    config_on(shared().unwrap())
}

fn config_on(server: &Server) -> File {
    let limits = "limits:\n  m: {policies: [\"token_bucket 1/5min burst 1\"]}\n  \
                  jobs: {policies: [\"concurrency 1 hold 1h queue 9\"]}\n";
    File::new("limits.yaml", &(own_store(server.url()) + limits))
}

fn ask(file: &File, verb: &str, limit: &str) -> Value {
    sluicegate(&[verb, "--config", file.path(), "--limit", limit, "--key", "k", "--json"]).json()
}

/// Starts an acquire that waits.
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
    assert!(stderr.contains("interrupted, and the turn was given back"), "{stderr}");
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

/// Starts a reservation with these arguments, whose answer is delayed.
fn reserve(to: [&str; 2]) -> Child {
    let args = ["reserve", "--limit", "m", "--key", "k", "--within", "10min", "--deadline", "30s"];
    let mut command = binary();
    command.args(args).args(to).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Interrupts the command, and waits until it says that it waits for the answer.
fn interrupt_reservation(child: &mut Child) -> BufReader<ChildStderr> {
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("interrupted, waiting for the answer"), "{line}");
    said
}

/// Asserts that the command's last message contains these words.
fn assert_ends(mut child: Child, mut said: BufReader<ChildStderr>, words: &str) {
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.contains(words), "{line}");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn an_interrupted_reservation_is_cancelled_once_its_answer_has_come() {
    let server = Server::start().unwrap();
    let file = config_on(&server);
    assert_eq!(ask(&file, "check", "m")["allowed"], true);
    let wait = || ask(&file, "peek", "m")["retry_after_us"].as_u64().unwrap();
    for is_patient in [true, false] {
        server.cli(&["CLIENT", "PAUSE", "60000", "WRITE"]).unwrap();
        let mut child = reserve(["--config", file.path()]);
        until("the server has the call", || {
            let list = server.cli(&["CLIENT", "LIST"]).unwrap();
            if list.contains("cmd=evalsha") { Ok(()) } else { Err(list) }
        });
        let said = interrupt_reservation(&mut child);
        if is_patient {
            server.cli(&["CLIENT", "UNPAUSE"]).unwrap();
            assert_ends(child, said, "interrupted, and the turn was given back");
            assert!(wait() <= FIVE_MINUTES, "the turn is free again: {}", wait());
        } else {
            // A second signal ends the wait.
            kill_process(Pid::from_child(&child), Signal::INT).unwrap();
            assert_ends(child, said, "so the turn may count as used");
            server.cli(&["CLIENT", "UNPAUSE"]).unwrap();
        }
    }
}

/// Regression test: the system's default ended the command, and the turn stayed booked.
#[test]
fn an_interrupted_reservation_at_a_service_is_cancelled_there() {
    let file = config();
    let service = Service::start(&["--config", file.path()]);
    let proxy = Proxy::start_before(service.address()).unwrap();
    let wait = || ask(&file, "peek", "m")["retry_after_us"].as_u64().unwrap();
    let is_booked = || if wait() > FIVE_MINUTES { Ok(()) } else { Err(wait()) };
    assert_eq!(ask(&file, "check", "m")["allowed"], true);
    proxy.set(Direction::Replies, Fault::Hold);
    let url = format!("http://127.0.0.1:{}", proxy.port());
    let mut child = reserve(["--server", &url]);
    until("the turn is reserved", is_booked);
    let said = interrupt_reservation(&mut child);
    proxy.heal();
    assert_ends(child, said, "interrupted, and the turn was given back");
    assert!(wait() <= FIVE_MINUTES, "the turn is free again: {}", wait());

    let args = ["acquire", "--server", &url, "--limit", "m", "--key", "k", "--within", "10min"];
    let child = binary().args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the turn is reserved", is_booked);
    interrupt(child, Signal::INT, 130);
    until(
        "the service gives it back",
        || if wait() <= FIVE_MINUTES { Ok(()) } else { Err(wait()) },
    );
}
