//! A queue of permits with a thousand waiters in four processes.

use std::env;
use std::io::{BufRead as _, BufReader, Write as _, stdin};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use sluicegate::{Ask, Limiter, Usage};
use sluicegate_core::{HoldId, OpenOptions, OpenedLimit as _, Store as _};
use sluicegate_redis::RedisStore;
use sluicegate_testkit::queue_log::{Audit, Call, Logged};
use sluicegate_testkit::servers::Server;

use crate::measure::{Measured, Session, digits};

const PROCESSES: usize = 4;
const WAITERS: usize = 1_000;
const PERMITS: usize = 10;
/// The duration of each waiter's work.
const WORK: Duration = Duration::from_millis(50);
/// The time between two arrivals.
const PACE: Duration = Duration::from_micros(500);
/// Numbers of priorities: one, and several.
const PRIORITIES: [u8; 2] = [1, 4];

/// The prefix of the arguments of a child process, which runs some of the waiters.
pub const CHILD: &str = "queue|";

pub fn measure(session: &mut Session) {
    if !session.wants("redis-queue") {
        return;
    }
    let audits = PRIORITIES.iter().map(|priorities| audit(*priorities)).collect::<Result<Vec<_>>>();
    let audits = audits.map_err(|error| format!("{error:#}"));
    let each = |what: fn(&Audit) -> String| {
        let audits = audits.iter().flatten().zip(PRIORITIES);
        audits
            .map(|(audit, priorities)| format!("`priorities {priorities}`: {}", what(audit)))
            .collect::<Vec<_>>()
            .join(". ")
    };
    let worst = |what: fn(&Audit) -> f64, worse: fn(f64, f64) -> f64| match &audits {
        Ok(audits) => audits.iter().map(what).reduce(worse).context("nothing was measured"),
        Err(why) => bail!("{why}"),
    };
    session.goal("redis-queue-calls", |_| {
        let note = each(|audit| {
            let calls: usize = audit.calls.iter().sum();
            let most = audit.calls.last().copied().unwrap_or(0);
            format!(
                "{} on average, {most} at most, {} to keep places, {} in vain, {} pairs in order",
                digits(calls as f64 / audit.served as f64),
                audit.renewals,
                audit.in_vain,
                audit.ordered
            )
        });
        Ok(Measured::new(worst(|audit| audit.median_calls() as f64, f64::max)?, note))
    });
    session.goal("redis-queue-slots", |_| {
        let note = each(|audit| {
            format!(
                "{} of the time in use, {} µs from a release to the next taking, {} in flight at \
                 most",
                digits(audit.used as f64 / 1e3),
                audit.gap,
                audit.most_in_flight
            )
        });
        Ok(Measured::new(worst(|audit| audit.used as f64 / 1e3, f64::min)?, note))
    });
}

/// Runs all waiters. Fails if not all are served in order, or if too many permits are in use.
fn audit(priorities: u8) -> Result<Audit> {
    let server = Server::start()?;
    let url = server.url();
    let mut processes: Vec<Process> = (0..PROCESSES)
        .map(|index| Process::start(&format!("{CHILD}{url}|{priorities}|{index}")))
        .collect::<Result<_>>()?;
    for process in &mut processes {
        ensure!(process.line()? == "ready", "a process is not ready");
    }
    for process in &mut processes {
        writeln!(process.input, "go")?;
    }
    let mut calls: Vec<Call> = Vec::new();
    for process in &mut processes {
        while let Some(line) = Some(process.line()?).filter(|line| line != "end") {
            calls.push(line.parse().map_err(anyhow::Error::msg)?);
        }
        ensure!(process.child.wait()?.success(), "a process failed");
    }
    let audit = Audit::of(PERMITS, &calls);
    ensure!(audit.served == WAITERS, "{} of {WAITERS} were served", audit.served);
    ensure!(audit.out_of_order == 0, "{} pairs were served in the wrong order", audit.out_of_order);
    ensure!(audit.most_in_flight <= PERMITS, "{} were in flight at once", audit.most_in_flight);
    Ok(audit)
}

/// Runs a part of the waiters, and prints their calls.
pub fn child(arguments: &str) -> Result<()> {
    let words: Vec<&str> = arguments.split('|').collect();
    let [url, priorities, index] = words[..] else { bail!("three words") };
    let (priorities, index): (u8, usize) = (priorities.parse()?, index.parse()?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let spec = format!("concurrency {PERMITS} hold 1min queue {WAITERS} priorities {priorities}");
    let limit = sluicegate::Limit::new("jobs", [spec.as_str()])?;
    runtime.block_on(async {
        let store = RedisStore::builder(url)?.deadline(Duration::from_secs(5)).build();
        let store = Logged::new(store);
        let opened = store.open(limit.clone(), OpenOptions::default());
        while opened.bell(HoldId::from_bytes([0; 16])).is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let limiter = Arc::new(Limiter::new(store.clone(), limit));
        println!("ready");
        let mut line = String::new();
        stdin().read_line(&mut line)?;
        let start = Instant::now();
        let waiters: Vec<_> = (index..WAITERS)
            .step_by(PROCESSES)
            .map(|number| {
                let limiter = Arc::clone(&limiter);
                tokio::spawn(async move {
                    tokio::time::sleep_until((start + PACE * number as u32).into()).await;
                    let priority = (number / PROCESSES % usize::from(priorities)) as u8;
                    let ask = Ask::new("acme").priority(priority);
                    let grant = limiter
                        .check(ask)
                        .hold(Duration::from_secs(60))
                        .within(Duration::from_secs(60))
                        .await?;
                    let token = grant.token().context("a waiter was not served")?;
                    tokio::time::sleep(WORK).await;
                    let _ = limiter.settle(token, Usage::as_charged()).await?;
                    anyhow::Ok(())
                })
            })
            .collect();
        for waiter in waiters {
            waiter.await??;
        }
        for call in store.take() {
            println!("{call}");
        }
        println!("end");
        anyhow::Ok(())
    })
}

struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(arguments: &str) -> Result<Self> {
        let program = env::current_exe().context("can't find this program")?;
        let mut command = Command::new(program);
        command.args(["--child", arguments]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let input = child.stdin.take().context("its input is piped")?;
        let output = BufReader::new(child.stdout.take().context("its output is piped")?);
        Ok(Self { child, input, output })
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        ensure!(self.output.read_line(&mut line)? > 0, "a process ended early");
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
