//! A server that gets more requests than it can answer: the share of its capacity that still arrives
//! in time.
//!
//! Requests arrive in an open loop, as they do in production: independently of the answers to earlier
//! ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use sluicegate_core::{
    Error, Limit, OpenOptions, OpenedLimit as _, Request, Store as _, StoreErrorKind,
};
use sluicegate_redis::{RedisLimit, RedisStore};
use sluicegate_testkit::servers::Server;

use crate::embedded::next;
use crate::machine::{pin_process, pin_thread, process_nanos, thread_nanos, unpin_thread};
use crate::measure::{Effort, Measured, Session, digits, median};
use crate::redis::KEYS;

/// The time limit of a request.
const DEADLINE: Duration = Duration::from_millis(50);
/// Policies that cost the server more than the client, so that the server is the overloaded side.
const POLICIES: [&str; 12] = [
    "token_bucket 1/min burst 100000 as a",
    "token_bucket 1/min burst 100000 as b",
    "token_bucket 1/min burst 100000 as c",
    "token_bucket 1/min burst 100000 as d",
    "fixed_window 1000000/w as e",
    "fixed_window 1000000/w as f",
    "fixed_window 1000000/w as g",
    "fixed_window 1000000/w as h",
    "sliding_counter 1000000/w as i",
    "sliding_counter 1000000/w as j",
    "sliding_window 1000000/h slices 60 as k",
    "sliding_window 1000000/h slices 60 as l",
];
/// The share of the offered requests that must be answered in time for a rate within capacity.
const GOOD: f64 = 0.99;
/// The offered rates, as multiples of the capacity.
const OFFERED: [f64; 3] = [1.0, 1.2, 2.0];
const ROUNDS: usize = 8;
/// The number of tries of a rate. The median decides, so that one lucky try doesn't define the
/// capacity.
const TRIES: usize = 3;
/// The duration of an offered rate, both in the search for the capacity and in the comparison of
/// goodput.
const SPAN: Duration = Duration::from_secs(1);

/// Measures both goals of overload.
pub fn measure(session: &mut Session) {
    if !session.wants("overload-") {
        return;
    }
    let mut refusals = None;
    session.goal("overload-goodput", |effort| {
        let (goodput, latest) = goodput(effort)?;
        refusals = Some(latest);
        Ok(goodput)
    });
    session.goal("overload-refusals", |effort| match refusals.take() {
        Some(latest) => Ok(latest),
        None => goodput(effort).map(|(_, latest)| latest),
    });
}

fn goodput(effort: Effort) -> Result<(Measured, Measured)> {
    let server = Server::start()?;
    pin_process(server.pid()?, 0);
    pin_thread(1);
    let measured = compare(effort, &server);
    unpin_thread();
    measured
}

fn compare(effort: Effort, server: &Server) -> Result<(Measured, Measured)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("can't start a runtime")?;
    let opened = open(server)?;
    let pid = server.pid()?;
    let offer = |rate: f64, span: Duration| runtime.block_on(offer(&opened, pid, rate, span));
    let capacity = capacity(&offer)?;
    let mut parts = OFFERED.map(|_| Vec::new());
    let mut latest = Vec::new();
    let mut busy = [Vec::new(), Vec::new()];
    for _ in 0..effort.count(ROUNDS) {
        for (times, parts) in OFFERED.iter().zip(&mut parts) {
            let came = offer(capacity * times, SPAN)?;
            parts.push(came.good / capacity);
            busy[0].push(came.server_busy * 100.0);
            busy[1].push(came.client_busy * 100.0);
            latest.extend((came.refused > 1_000.0).then_some(came.refusal_micros));
        }
    }
    let medians: Vec<f64> = parts.iter_mut().map(|parts| median(parts)).collect();
    let shown: Vec<String> = OFFERED
        .iter()
        .zip(&medians)
        .map(|(times, good)| format!("{} of it at a load of {times}", digits(*good)))
        .collect();
    let worst = medians.iter().copied().fold(f64::INFINITY, f64::min);
    // Take the last value of each round.
    let [server, client] = busy.map(|busy| {
        let mut most: Vec<f64> =
            busy.into_iter().skip(OFFERED.len() - 1).step_by(OFFERED.len()).collect();
        digits(median(&mut most))
    });
    let note = format!(
        "The capacity is {} decisions/s. {}. At a load of 2 the server is busy {server} % of the \
         time, and the client {client} %",
        digits(capacity),
        shown.join(", ")
    );
    ensure!(!latest.is_empty(), "nothing was refused");
    let rounds = latest.len();
    let refusals = Measured::new(median(&mut latest), format!("Median of {rounds} rounds"));
    Ok((Measured::new(worst, note), refusals))
}

/// Returns the highest tried rate at which nearly all requests are answered in time.
fn capacity(offer: &impl Fn(f64, Duration) -> Result<Came>) -> Result<f64> {
    let span = Duration::from_millis(500);
    // Warm up the first connection, the script and the states.
    let _ = offer(2_000.0, span)?;
    // Estimate the throughput by offering far more.
    let mut most = 0.0_f64;
    for rate in [20_000.0, 40_000.0, 80_000.0, 160_000.0] {
        most = most.max(offer(rate, span)?.good);
    }
    // Search from above: a moment in which the machine does other work doesn't end the search.
    let mut rate = 1.3 * most;
    while rate > 0.4 * most {
        let (mut offered, mut parts) = (Vec::new(), Vec::new());
        for _ in 0..TRIES {
            let came = offer(rate, SPAN)?;
            offered.push(came.offered);
            parts.push(came.good / came.offered);
        }
        if median(&mut parts) >= GOOD {
            return Ok(median(&mut offered));
        }
        rate *= 0.95;
    }
    bail!(
        "no rate from {} to {} a second had nearly all answers in time",
        digits(0.4 * most),
        digits(1.3 * most)
    )
}

/// The result of offering a rate for a while, per second.
struct Came {
    offered: f64,
    good: f64,
    refused: f64,
    /// The 99th percentile of the durations of refusals, in µs.
    refusal_micros: f64,
    /// The share of the time in which the server's processor was busy, and the client's.
    server_busy: f64,
    client_busy: f64,
}

#[derive(Default)]
struct Counts {
    good: AtomicU64,
    /// Counts by duration in µs; the last one includes all longer durations.
    refused: [AtomicU64; 32],
    done: AtomicU64,
}

async fn offer(opened: &Arc<RedisLimit>, server: u32, rate: f64, span: Duration) -> Result<Came> {
    let before = (process_nanos(server)?, thread_nanos());
    let counts = Arc::new(Counts::default());
    let (start, mut offered) = (Instant::now(), 0_u64);
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let mut ticks = tokio::time::interval(Duration::from_millis(1));
    while start.elapsed() < span {
        ticks.tick().await;
        let due = (start.elapsed().as_secs_f64() * rate) as u64;
        while offered < due {
            offered += 1;
            let number = next(&mut state) % KEYS as u64;
            tokio::spawn(ask(Arc::clone(opened), number, Arc::clone(&counts)));
        }
    }
    let took = start.elapsed().as_secs_f64();
    let busy = |nanos: f64| nanos / 1e9 / took;
    let server_busy = busy(process_nanos(server)? - before.0);
    let client_busy = busy(thread_nanos() - before.1);
    // No request takes longer than its deadline, so the last ones end soon.
    while counts.done.load(Ordering::Relaxed) < offered {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let refused: Vec<u64> =
        counts.refused.iter().map(|count| count.load(Ordering::Relaxed)).collect();
    let all: u64 = refused.iter().sum();
    let mut below = 0;
    let slowest = refused.iter().position(|count| {
        below += count;
        below * 100 >= all * 99
    });
    Ok(Came {
        offered: offered as f64 / took,
        good: counts.good.load(Ordering::Relaxed) as f64 / took,
        refused: all as f64 / took,
        server_busy,
        client_busy,
        refusal_micros: slowest.map_or(0.0, |power| (1_u64 << power) as f64),
    })
}

async fn ask(opened: Arc<RedisLimit>, number: u64, counts: Arc<Counts>) {
    let key = format!("tenant:42:user:{number:09}");
    let start = Instant::now();
    let answer = opened.ask(Request::check(key.as_bytes())).wait().await;
    let took = start.elapsed();
    match answer {
        Ok(_) if took <= DEADLINE => drop(counts.good.fetch_add(1, Ordering::Relaxed)),
        Err(Error::Store(error)) if error.kind() == StoreErrorKind::Overloaded => {
            let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
            let power = (micros.next_power_of_two().ilog2() as usize).min(31);
            counts.refused[power].fetch_add(1, Ordering::Relaxed);
        }
        _ => {}
    }
    counts.done.fetch_add(1, Ordering::Relaxed);
}

fn open(server: &Server) -> Result<Arc<RedisLimit>> {
    let store = RedisStore::builder(&server.url())?.deadline(DEADLINE).build();
    let limit = Limit::new("flood", POLICIES)?;
    Ok(Arc::new(store.open(limit, OpenOptions::default())))
}
