//! The embedded store under attack: the duration of the slowest call while it reclaims, and the keys
//! that a flood frees.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::sync::Arc;

use anyhow::{Result, ensure};
use sluicegate_core::{Limit, ManualClock, OpenOptions, Operation, Request, Store, Timestamp};
use sluicegate_memory::{MemoryLimit, MemoryStore};

use super::keys::Writer;
use super::speed::{START, open};
use crate::machine::{pin_thread, thread_nanos, unpin_thread};
use crate::measure::{Effort, Measured, Session, median};

/// Keys that have expired when the measurement begins.
const EXPIRED: u32 = 1_000_000;
/// New keys per second.
const A_SECOND: u32 = 100_000;
/// Calls of maintenance per second.
const SWEEPS: u32 = 100;
/// A delay in µs that is longer than any of the windows.
const LATER: u64 = 2 * 86_400_000_000;
const RUNS: usize = 3;
const SPECS: [&str; 4] = [
    "token_bucket 100/h",
    "fixed_window 5/h",
    "fixed_window 5/d calendar Europe/Berlin",
    "sliding_log 5/h",
];

pub fn measure(session: &mut Session) {
    session.goal("embedded-reclaim-worst-call", worst_call);
    session.goal("embedded-flood-freed", freed_by_floods);
}

/// Measures the slowest call in CPU time. Each new key is one call.
///
/// Reading the thread's clock takes longer than most calls. Interruptions by the machine count as
/// part of the call, so every workload runs several times. Its result is the slowest call of the
/// median run, because the store does its own work in every run.
fn worst_call(effort: Effort) -> Result<Measured> {
    let seconds = effort.count(20) as u32;
    let (mut worst, mut slowest, mut figures) = (0.0_f64, 0.0_f64, Vec::new());
    let mut longest = 0.0_f64;
    // One store has memory for all keys, and its tables grow. The other is full of expired keys.
    for most in [4_000_000, EXPIRED] {
        for spec in SPECS {
            let runs: Vec<Worst> =
                (0..RUNS).map(|_| worst_of(spec, most, seconds)).collect::<Result<_>>()?;
            let of = |figure: fn(&Worst) -> f64| {
                let mut all: Vec<f64> = runs.iter().map(figure).collect();
                (median(&mut all), all[all.len() - 1])
            };
            let ((call, slow_call), (sweep, slow_sweep)) =
                (of(|run| run.call), of(|run| run.sweep));
            worst = worst.max(call).max(sweep);
            slowest = slowest.max(slow_call).max(slow_sweep);
            longest = runs.iter().map(|run| run.nanos).fold(longest, f64::max);
            let left = runs.iter().map(|run| run.left).max().unwrap_or_default();
            figures.push(format!(
                "`{spec}` with capacity for {:.0} million: {call:.0} µs, a sweep {sweep:.0} µs, \
                 {left} expired left after {seconds} s",
                f64::from(most) / 1e6,
            ));
        }
    }
    let calls = seconds * A_SECOND * RUNS as u32 * 2 * SPECS.len() as u32;
    let noise = worst_of_nothing(calls, longest / f64::from(seconds * A_SECOND)) / 1e3;
    let nothing = format!(
        "The slowest call or sweep of any run took {slowest:.0} µs. The slowest of as many equally \
         long calls that only count took {noise:.0} µs"
    );
    Ok(Measured::new(worst, figures.join(". ")).noting(&nothing).part(nothing))
}

/// Measures what the machine adds: interrupts, and time that it gave to other programs unnoticed.
fn worst_of_nothing(calls: u32, nanos: f64) -> f64 {
    pin_thread(0);
    let spin = |rounds: u64| (0..rounds).fold(0, |sum, round| black_box(sum ^ round));
    let start = thread_nanos();
    spin(1_000_000);
    let rounds = (1e6 * nanos / (thread_nanos() - start)) as u64;
    let worst = (0..calls).fold(0.0_f64, |worst, _| {
        let start = thread_nanos();
        spin(rounds);
        worst.max(thread_nanos() - start)
    });
    unpin_thread();
    worst
}

struct Worst {
    /// The slowest request in µs.
    call: f64,
    /// The slowest sweep in µs.
    sweep: f64,
    /// The time of all requests in ns.
    nanos: f64,
    left: usize,
}

fn worst_of(spec: &str, most: u32, seconds: u32) -> Result<Worst> {
    let clock = Arc::new(ManualClock::new(at(START)));
    let builder = MemoryStore::builder().clock(Arc::clone(&clock));
    let store = builder.max_keys(NonZeroUsize::MIN.saturating_add(most as usize - 1)).build();
    let opened = open(&store, &[spec])?;
    let (writer, mut key) = (Writer::new(), String::new());
    for number in 0..EXPIRED {
        writer.write(number, &mut key);
        ensure!(opened.decide_at(Request::check(key.as_bytes()), at(START))?.is_allowed());
    }
    pin_thread(0);
    let (mut call, mut sweep, mut nanos) = (0.0_f64, 0.0_f64, 0.0_f64);
    for number in 0..seconds * A_SECOND {
        let now = at(START + LATER + u64::from(number) * u64::from(1_000_000 / A_SECOND));
        writer.write(EXPIRED + number, &mut key);
        let request = Request::check(key.as_bytes());
        let start = thread_nanos();
        let answer = opened.decide_at(request, now);
        let took = thread_nanos() - start;
        call = call.max(took);
        nanos += took;
        ensure!(answer?.is_allowed());
        if number.is_multiple_of(A_SECOND / SWEEPS) {
            clock.set(now);
            let start = thread_nanos();
            store.sweep_some();
            sweep = sweep.max(thread_nanos() - start);
        }
    }
    unpin_thread();
    let live = (seconds * A_SECOND).min(most) as usize;
    let left = store.stats().keys.saturating_sub(live);
    Ok(Worst { call: call / 1e3, sweep: sweep / 1e3, nanos, left })
}

/// Counts freed keys of 200 exhausted ones, after 16 times as many new keys as fit, each used once.
fn freed_by_floods(effort: Effort) -> Result<Measured> {
    let specs = ["fixed_window 5/h", "token_bucket 5/h", "sliding_log 5/h", "sliding_counter 2/h"];
    let (mut freed, mut floods) = (0, 0);
    for most in [1_000, 10_000] {
        for spec in specs {
            for flooded in ["x", "y"] {
                for _ in 0..effort.count(5) {
                    freed += freed_by(spec, flooded, most)?;
                    floods += 1;
                }
            }
        }
    }
    let note =
        format!("200 exhausted keys in each of {floods} floods, half of them under the same limit");
    Ok(Measured::new(f64::from(freed), note))
}

/// Counts the exhausted keys that one flood frees. Each new store has a new secret, so other keys
/// share places in its tables.
fn freed_by(spec: &str, flooded: &str, most: usize) -> Result<u32> {
    let builder = MemoryStore::builder().max_keys(NonZeroUsize::MIN.saturating_add(most - 1));
    let store = builder.build();
    let open = |name: &str| -> Result<MemoryLimit> {
        let limit = Limit::new(name, vec![spec])?;
        Ok(store.open(limit, OpenOptions::default()))
    };
    let (limit, other) = (open("x")?, open(flooded)?);
    let exhausted: Vec<String> = (0..200).map(|key| format!("exhausted {key}")).collect();
    for key in &exhausted {
        while limit.decide(Request::check(key.as_bytes()))?.is_allowed() {}
    }
    for key in 0..16 * most {
        let _ = other.decide(Request::check(&key.to_le_bytes()))?;
    }
    let mut freed = 0;
    for key in &exhausted {
        let peeked = limit.decide(Request::new(Operation::Peek, key.as_bytes()))?;
        freed += u32::from(peeked.is_allowed());
    }
    Ok(freed)
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros_clamped(micros)
}
