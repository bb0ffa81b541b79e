//! A server process that can't outlive its owner.
//!
//! The server is the child of a small shell script that holds the reading end of a pipe. The owner
//! holds the other end and never writes while the server runs. When the owner drops it, panics or
//! is itself killed, the system closes the pipe and the script kills the server. The script reports
//! the server's process id and its end on its standard output.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use super::error::ServerError;

/// Longer than any healthy start or stop on a busy machine; only a broken one takes this long.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// Arguments: the server's folder, its program, its options. The script removes the folder if the
/// pipe closes without the word `keep`. (`read` fails at end-of-file; that is the reason for the
/// `;`.)
///
/// Two signals must not stop the script. When the owner of a paused server is killed, the system
/// sends the orphaned process group a hang-up (HUP). When the reader of the reports is gone,
/// writing them fails (PIPE).
const SUPERVISOR: &str = r#"
trap '' HUP INT PIPE
folder=$1
shift
exec 3<&0
"$@" </dev/null >"$folder/server.log" 2>&1 3<&- &
server=$!
echo "$server"
{ read -r word <&3; kill -KILL "$server"; } >/dev/null &
watcher=$!
wait "$server"
status=$?
kill "$watcher"
wait "$watcher"
echo "$status"
read -r word <&3
[ "$word" = keep ] || rm -rf -- "$folder"
"#;

/// A running (or just ended) server process with its supervisor.
#[derive(Debug)]
pub(super) struct Process {
    supervisor: Child,
    /// Closing it kills the server. `None` only while dropping.
    lifeline: Option<ChildStdin>,
    pid: u32,
    end: Mutex<End>,
}

/// The reports of the supervisor, and the server's status if it has ended.
#[derive(Debug)]
struct End {
    reports: Receiver<String>,
    status: Option<String>,
}

impl Process {
    /// Starts `program` with `options`; its output goes to `server.log` in `folder`.
    pub(super) fn spawn(
        folder: &Path,
        program: &Path,
        options: &[String],
    ) -> Result<Self, ServerError> {
        let mut supervisor = Command::new("/bin/sh")
            .args(["-c", SUPERVISOR, "sluicegate-test-server"])
            .args([folder, program])
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // A Ctrl-C, or a test runner that kills the test's process group, must not kill the
            // supervisor before it has killed the server.
            .process_group(0)
            .spawn()
            .map_err(ServerError::io("start /bin/sh as the server's supervisor"))?;
        let lifeline = supervisor.stdin.take();
        let (sender, reports) = mpsc::channel();
        if let Some(output) = supervisor.stdout.take() {
            // Ends with the supervisor, whose output it reads.
            thread::spawn(move || {
                let lines = BufReader::new(output).lines();
                for line in lines.map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        let first = reports.recv_timeout(PATIENCE);
        let end = Mutex::new(End { reports, status: None });
        let mut process = Self { supervisor, lifeline, pid: 0, end };
        let reported = first.ok().and_then(|line| line.parse().ok());
        process.pid = reported.ok_or_else(|| ServerError::Start {
            why: format!("the supervisor of {} reported no process id", program.display()),
            log: String::new(),
        })?;
        Ok(process)
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits up to `patience` for the server to end. Returns its exit status once it has.
    pub(super) fn wait_for_end(&self, patience: Duration) -> Option<String> {
        let mut end = self.lock_end();
        if end.status.is_none() {
            end.status = match end.reports.recv_timeout(patience) {
                Ok(status) => Some(status),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some("unknown".to_owned()),
            };
        }
        end.status.clone()
    }

    /// Kills the server immediately and waits until its process has ended.
    pub(super) fn kill(&self) -> Result<(), ServerError> {
        self.signal(Signal::KILL)?;
        match self.wait_for_end(PATIENCE) {
            Some(_) => Ok(()),
            None => Err(ServerError::Start {
                why: format!("process {} survives SIGKILL", self.pid),
                log: String::new(),
            }),
        }
    }

    /// Pauses the server, and returns once it has halted.
    pub(super) fn pause(&self) -> Result<(), ServerError> {
        self.signal(Signal::STOP)?;
        // The signal takes effect with a short delay, so a command could still be answered.
        let step = Duration::from_millis(1);
        for _ in 0..PATIENCE.as_millis() {
            if is_halted(self.pid) {
                return Ok(());
            }
            if self.wait_for_end(step).is_some() {
                return Err(ServerError::NotRunning);
            }
        }
        Err(ServerError::Start {
            why: format!("process {} does not halt on SIGSTOP", self.pid),
            log: String::new(),
        })
    }

    /// Resumes a paused server.
    pub(super) fn resume(&self) -> Result<(), ServerError> {
        self.signal(Signal::CONT)
    }

    /// Releases a server that has ended, and keeps its folder for the next one.
    pub(super) fn release(mut self) -> Result<(), ServerError> {
        if let Some(lifeline) = &mut self.lifeline {
            lifeline
                .write_all(b"keep\n")
                .map_err(ServerError::io("tell the server's supervisor to keep its folder"))?;
        }
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<(), ServerError> {
        // Once the end is reported, the id may belong to another process.
        if self.wait_for_end(Duration::ZERO).is_some() {
            return Err(ServerError::NotRunning);
        }
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or(ServerError::NotRunning)?;
        match kill_process(pid, signal) {
            // It ended on its own, and its end will be reported soon.
            Err(Errno::SRCH) => {
                self.wait_for_end(PATIENCE);
                Err(ServerError::NotRunning)
            }
            outcome => {
                outcome.map_err(|error| ServerError::io("send the server a signal")(error.into()))
            }
        }
    }

    fn lock_end(&self) -> MutexGuard<'_, End> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        // The supervisor's output closes when it ends; its last report may come before.
        let gone = {
            let end = self.lock_end();
            loop {
                match end.reports.recv_timeout(PATIENCE) {
                    Ok(_) => {}
                    Err(RecvTimeoutError::Disconnected) => break true,
                    Err(RecvTimeoutError::Timeout) => break false,
                }
            }
        };
        if !gone {
            drop(self.supervisor.kill());
        }
        drop(self.supervisor.wait());
    }
}

/// Returns `true` if the process is stopped by a signal. On a system other than Linux without
/// `/proc`, sending the signal counts as enough.
fn is_halted(pid: u32) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return !cfg!(target_os = "linux");
    };
    // The state follows the program's name, which is in parentheses and may contain anything.
    status.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
}
