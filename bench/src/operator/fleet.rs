//! The time that an override takes to reach a fleet.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sluicegate_testkit::servers::Server;

use super::call;
use crate::http::services::{self, ours_with};
use crate::measure::{Effort, Measured, Session, digits, median};
use crate::served::Served;

const PROCESSES: usize = 8;
const ROUNDS: usize = 24;
/// Requests that each process gets in a second.
const RATE: u32 = 200;
/// The time after which a process counts as one that doesn't follow.
const PATIENCE: Duration = Duration::from_secs(10);

/// Measures the goals of overrides.
pub fn measure(session: &mut Session) {
    if !session.wants("override-") {
        return;
    }
    match delays(session.effort) {
        Ok(Delays { mut running, woken }) => {
            let worst = running.iter().copied().fold(0.0, f64::max);
            let note = format!("{} delays, the longest {} ms", running.len(), digits(worst));
            let middle = median(&mut running);
            session.goal("override-median", |_| Ok(Measured::new(middle, &*note)));
            session.goal("override-worst", |_| Ok(Measured::new(worst, &*note)));
            session.goal("override-woken", |_| Ok(Measured::new(woken, "one process")));
        }
        Err(error) => session.give_up("override-", &error),
    }
}

/// The times that processes take to decide by an override, in ms.
struct Delays {
    /// Times of the running processes, from the answers to the overrides.
    running: Vec<f64>,
    /// Time of the stopped process, from the moment when it continues.
    woken: f64,
}

/// Sets overrides, and measures how soon the fleet decides by each of them.
fn delays(effort: Effort) -> Result<Delays> {
    let redis = Server::start()?;
    let url = redis.url().to_string();
    let start = |_| ours_with(&url, |_| String::new());
    let fleet: Vec<Served> = (0..=PROCESSES).map(start).collect::<Result<_>>()?;
    let stopped = Stopped::stop(&fleet[PROCESSES])?;
    let addresses: Vec<_> = fleet[..PROCESSES].iter().map(|served| served.address).collect();
    let is_over = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = addresses
        .iter()
        .map(|address| {
            let (address, is_over) = (*address, Arc::clone(&is_over));
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let body = r#"{"limit":"demo","key":"others"}"#;
                    call(address, "POST", services::PATH, body)?;
                    thread::sleep(Duration::from_secs(1) / RATE);
                }
                anyhow::Ok(())
            })
        })
        .collect();
    let mut running = Vec::new();
    for round in 0..effort.count(ROUNDS) {
        let policy = format!("token_bucket 1000000/s burst {}", 1_000 + round);
        let body = format!(r#"{{"policies":["{policy}"],"for":"1min"}}"#);
        let by = addresses[round % PROCESSES];
        call(by, "PUT", "/v1/limits/demo/overrides/alice", &body)?;
        let answered = Instant::now();
        let wait = |address: SocketAddr| {
            thread::spawn(move || until(address, 1_000 + round as u64, answered))
        };
        let waits: Vec<_> = addresses.iter().copied().map(wait).collect();
        for wait in waits {
            running.push(wait.join().ok().context("a thread panicked")??);
        }
    }
    let last = 1_000 + effort.count(ROUNDS) as u64 - 1;
    drop(stopped);
    let woken = until(fleet[PROCESSES].address, last, Instant::now())?;
    is_over.store(true, Ordering::Relaxed);
    for thread in load {
        thread.join().ok().context("a thread panicked")??;
    }
    Ok(Delays { running, woken })
}

/// Waits until a process has a limit for the key, and returns the time since `begin`, in ms.
fn until(address: SocketAddr, limit: u64, begin: Instant) -> Result<f64> {
    loop {
        let body = r#"{"limit":"demo","key":"alice"}"#;
        let answer: Value = serde_json::from_str(&call(address, "POST", "/v1/peek", body)?)?;
        let elapsed = begin.elapsed();
        if answer["policies"][0]["limit"] == limit {
            return Ok(elapsed.as_secs_f64() * 1e3);
        }
        ensure!(elapsed < PATIENCE, "a process doesn't follow within {PATIENCE:?}: {answer}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A process that is stopped, until this value is dropped.
struct Stopped(Pid);

impl Stopped {
    fn stop(served: &Served) -> Result<Self> {
        let id = i32::try_from(served.id()).ok().and_then(Pid::from_raw);
        let id = id.context("a process has no id")?;
        kill_process(id, Signal::STOP)?;
        Ok(Self(id))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = kill_process(self.0, Signal::CONT);
    }
}
