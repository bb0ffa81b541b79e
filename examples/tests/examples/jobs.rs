//! Jobs that must not run twice.

#[path = "../../src/bin/jobs.rs"]
#[allow(dead_code, reason = "its `main` is run by the test of the program")]
mod program;

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use sluicegate_testkit::servers::{FakeClock, Server, available};

use program::Ran;

use super::site::Limits;

/// A machine with the job, which runs until the test ends it.
struct Machine {
    process: Child,
    says: Lines<BufReader<ChildStdout>>,
}

impl Machine {
    fn start(redis: &Server) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_jobs"));
        let command = command.env("STORE", redis.url()).args(["nightly", "cat"]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let says = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, says }
    }

    fn says(&mut self) -> String {
        self.says.next().unwrap().unwrap()
    }

    /// Returns the last output line, and the exit status.
    fn ends(mut self) -> (String, Option<i32>) {
        let last = self.says();
        (last, self.process.wait().unwrap().code())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts a server with a clock that the test sets.
fn clocked() -> (Server, FakeClock) {
    let clock = FakeClock::new().unwrap();
    let binaries = available().unwrap();
    let valkey = binaries.iter().find(|binary| binary.product() == "valkey").unwrap();
    (Server::builder(valkey).clock(&clock).start().unwrap(), clock)
}

/// Sets the clock, and waits until the server sees it.
fn advance(redis: &Server, clock: &FakeClock, seconds: i64) {
    let time = || redis.cli(&["TIME"]).unwrap().lines().next().unwrap().parse::<i64>().unwrap();
    let before = time();
    clock.set_offset(seconds).unwrap();
    sluicegate_testkit::wait::until_seldom("the server's clock", || {
        let seen = time();
        if seen >= before + seconds { Ok(()) } else { Err(seen) }
    });
}

const ELSEWHERE: (&str, Option<i32>) = ("nightly: runs elsewhere", Some(75));

#[test]
fn a_job_runs_on_one_machine_and_after_a_crash_on_another() {
    let (redis, clock) = clocked();
    let mut first = Machine::start(&redis);
    assert_eq!(first.says(), "nightly: runs");
    let (said, status) = Machine::start(&redis).ends();
    assert_eq!((&*said, status), ELSEWHERE);
    // When a job ends, the next one starts immediately.
    drop(first.process.stdin.take());
    assert_eq!(first.ends(), ("nightly: done".to_owned(), Some(0)));
    let mut second = Machine::start(&redis);
    assert_eq!(second.says(), "nightly: runs");
    // A killed job gives nothing back.
    second.process.kill().unwrap();
    let (said, status) = Machine::start(&redis).ends();
    assert_eq!((&*said, status), ELSEWHERE);
    advance(&redis, &clock, 11);
    let mut third = Machine::start(&redis);
    assert_eq!(third.says(), "nightly: runs");
}

#[test]
fn a_machine_whose_permit_is_lost_stops_its_job() {
    let (redis, clock) = clocked();
    let mut first = Machine::start(&redis);
    assert_eq!(first.says(), "nightly: runs");
    // The first machine seems to have been cut off for 11 s.
    advance(&redis, &clock, 11);
    let mut second = Machine::start(&redis);
    assert_eq!(second.says(), "nightly: runs");
    assert_eq!(first.ends(), ("nightly: stopped: the permit was lost".to_owned(), Some(76)));
}

#[tokio::test]
async fn a_job_keeps_out_its_own_name_until_it_is_given_up() {
    let limits = Limits::of(program::LIMITS);
    let jobs = limits.registry.gate("jobs");
    // This command runs until it is killed. A command that reads its input would end, because waiting
    // for it closes the input.
    let mut works = tokio::process::Command::new("tail");
    let mut idles = tokio::process::Command::new("true");
    let mut job = Box::pin(program::run(&jobs, "nightly", works.args(["-f", "/dev/null"])));
    tokio::select! {
        ran = &mut job => panic!("nobody told it to end: {ran:?}"),
        () = limits.until_left("jobs", "nightly", &[0]) => {}
    }
    let ran = program::run(&jobs, "nightly", &mut idles).await.unwrap();
    assert_eq!(ran, Ran::Elsewhere);
    assert_eq!(program::run(&jobs, "hourly", &mut idles).await.unwrap(), Ran::Done, "another job");
    drop(job);
    assert_eq!(program::run(&jobs, "nightly", &mut idles).await.unwrap(), Ran::Done);
}
