//! Tests with several processes: a test starts its own program again, which runs one other test.
//!
//! The other test is `#[ignore]`d, so only [`Process::start`] runs it. It fails on its own.
//!
//! ```no_run
//! use sluicegate_testkit::processes::{Process, say, told};
//!
//! #[test]
//! #[ignore = "a process of `two_processes_add_up`"]
//! fn process_that_doubles() {
//!     let [number] = told();
//!     say(2 * number.parse::<u64>().unwrap());
//! }
//!
//! #[test]
//! fn two_processes_add_up() {
//!     let processes = ["1", "20"].map(|number| Process::start("process_that_doubles", &[number]));
//!     let sum: u64 = processes.map(|one| one.finish()[0].parse::<u64>().unwrap()).iter().sum();
//!     assert_eq!(sum, 42);
//! }
//! ```

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and its processes talk through their output"
)]

use std::env;
use std::fmt::Display;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

#[cfg(feature = "servers")]
use rustix::process::{Pid, Signal, kill_process};

#[cfg(feature = "servers")]
use crate::servers::FakeClock;

/// The words for a process, one per line.
const TOLD: &str = "SLUICEGATE_TEST_TOLD";
/// The start of each line that is meant for the test that started the process.
const SAID: &str = "said: ";
/// Maximum duration of a test's process.
const PATIENCE: Duration = Duration::from_secs(120);

/// The first such line. It proves that the test exists.
const BEGUN: &str = "begun";

/// Another process of this test's program. It is killed when this value is dropped.
#[derive(Debug)]
pub struct Process {
    test: String,
    child: Child,
    lines: Receiver<String>,
    has_begun: bool,
}

impl Process {
    /// Starts the program again to run the test with this name, which includes its module path. The
    /// process gets these words from [`told`]; they must not contain line breaks.
    ///
    /// # Panics
    /// Panics if it can't be started.
    #[must_use]
    pub fn start(test: &str, words: &[&str]) -> Self {
        Self::start_in(test, words, &[])
    }

    /// Starts a process that uses this clock instead of the system's. The clock must outlive it.
    /// See [`start`](Self::start).
    ///
    /// # Panics
    /// Panics if it can't be started.
    #[cfg(feature = "servers")]
    #[must_use]
    pub fn start_with_clock(test: &str, words: &[&str], clock: &FakeClock) -> Self {
        Self::start_in(test, words, &clock.environment())
    }

    fn start_in(test: &str, words: &[&str], environment: &[(&str, String)]) -> Self {
        let program = env::current_exe().expect("a test knows its program");
        let mut child = Command::new(program)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .args(["--ignored", "--exact", "--nocapture", test])
            .env(TOLD, words.join("\n"))
            // The input closes when this process ends, which ends the other one.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a test can start its program");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some(said) = line.strip_prefix(SAID)
                    && sender.send(said.to_owned()).is_err()
                {
                    return;
                }
            }
        });
        Self { test: test.to_owned(), child, lines, has_begun: false }
    }

    /// Returns the next line that the process says, or `None` once it has ended.
    ///
    /// # Panics
    /// Panics if there is no such test, or if it neither says anything nor ends within two minutes.
    #[must_use]
    pub fn hear(&mut self) -> Option<String> {
        if !self.has_begun {
            let first = self.next();
            assert_eq!(
                first.as_deref(),
                Some(BEGUN),
                "no `#[ignore]`d test {} was told",
                self.test
            );
            self.has_begun = true;
        }
        self.next()
    }

    /// Waits for the process to end, and returns the lines that weren't read yet.
    ///
    /// # Panics
    /// Panics like [`hear`](Self::hear), and if the process fails.
    #[must_use]
    pub fn finish(mut self) -> Vec<String> {
        let mut said = Vec::new();
        while let Some(line) = self.hear() {
            said.push(line);
        }
        let status = self.child.wait().expect("it was started");
        assert!(status.success(), "{} ended with {status} after it said {said:?}", self.test);
        said
    }

    /// Kills the process unconditionally, and waits until it has ended.
    pub fn kill(self) {
        drop(self);
    }

    /// Halts the process (`SIGSTOP`) until it is [resumed](Self::resume).
    ///
    /// # Panics
    /// Panics if it has ended.
    #[cfg(feature = "servers")]
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Resumes the process.
    ///
    /// # Panics
    /// Panics if it has ended.
    #[cfg(feature = "servers")]
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Sends a signal. The process id is still its own, because it is only reaped when it is
    /// killed.
    #[cfg(feature = "servers")]
    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(id.expect("it has a number"), signal).expect("it takes signals");
    }

    fn next(&self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                panic!("{} neither spoke nor ended within {PATIENCE:?}", self.test)
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns the words from the test that started this process.
///
/// # Panics
/// Panics if no test started it, or if there are not `N` words.
#[must_use]
pub fn told<const N: usize>() -> [String; N] {
    let words = env::var(TOLD).expect("a process of another test, which starts it");
    say(BEGUN);
    let words: Vec<String> = words.lines().map(str::to_owned).collect();
    words.try_into().expect("as many words as it was told")
}

/// Sends a line to the test that started this process.
pub fn say(line: impl Display) {
    // The harness may have begun its own line.
    println!("\n{SAID}{line}");
}
