//! Runs a command unless a job of that name already runs on some machine: for cron on several
//! machines. The permit is renewed while the command runs, and given back when it ends. If the permit
//! is lost, the command is stopped, because another machine may run it by now. A machine that crashes
//! gives nothing back, and blocks the others for ten seconds at most.
//!
//! ```sh
//! export STORE=redis://127.0.0.1:6379
//! cargo run -p sluicegate-examples --bin jobs -- nightly sleep 60 &
//! cargo run -p sluicegate-examples --bin jobs -- nightly sleep 60
//! ```
//!
//! The second job prints `nightly: runs elsewhere` and ends with status 75, which makes a scheduler
//! retry later. After `kill -9 %1`, which ends the first job and its command, the second job prints
//! this for ten more seconds, and then runs. Without a server (`STORE` unset), the limit applies to
//! this process only, and blocks no other one.

#![allow(clippy::print_stdout, reason = "it says what it does")]

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use sluicegate::{Config, Gate, Registry, Usage};
use tokio::process::Command;

pub(crate) const LIMITS: &str = include_str!("../../limits/jobs.yaml");

/// The outcome of a job.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Ran {
    Done,
    Failed,
    /// The job runs on another machine, so nothing was done.
    Elsewhere,
    /// The job was stopped, because it may run on another machine.
    Lost,
}

pub(crate) async fn run(
    jobs: &Gate,
    name: &str,
    command: &mut Command,
) -> Result<Ran, Box<dyn Error>> {
    // A hanging job loses its permit after a day.
    let permit = jobs.permit(name).max_life(Duration::from_secs(24 * 60 * 60)).await?;
    if permit.is_denied() {
        return Ok(Ran::Elsewhere);
    }
    println!("{name}: runs");
    let mut child = command.kill_on_drop(true).spawn()?;
    let ran = tokio::select! {
        status = child.wait() => if status?.success() { Ran::Done } else { Ran::Failed },
        () = permit.lost() => {
            child.kill().await?;
            return Ok(Ran::Lost);
        }
    };
    // A dropped permit is given back in the background, but this program ends before that. If this
    // call fails, the permit expires.
    let _ = permit.settle(Usage::as_charged()).await;
    Ok(ran)
}

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut config = Config::parse(LIMITS, "jobs.yaml")?;
    if let Ok(url) = std::env::var("STORE") {
        config.store = url.parse()?;
    }
    let jobs = Registry::open_for(&config, ["jobs"])?.gate("jobs");

    let mut arguments = std::env::args().skip(1);
    let (Some(name), Some(program)) = (arguments.next(), arguments.next()) else {
        return Err("usage: jobs NAME COMMAND [ARGUMENT…]".into());
    };
    let ran = run(&jobs, &name, Command::new(program).args(arguments)).await?;
    let (text, status) = match ran {
        Ran::Done => ("done", 0),
        Ran::Failed => ("failed", 1),
        Ran::Elsewhere => ("runs elsewhere", 75),
        Ran::Lost => ("stopped: the permit was lost", 76),
    };
    println!("{name}: {text}");
    Ok(ExitCode::from(status))
}
