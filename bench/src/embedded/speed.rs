//! The embedded store, compared with its floor.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::sync::Barrier;

use anyhow::{Result, ensure};
use sluicegate_core::{Limit, OpenOptions, Request, Store, Timestamp};
use sluicegate_memory::{MemoryLimit, MemoryStore};

use super::ROOMY;
use super::floor::Flat;
use super::keys::{Draw, keys};
use super::parts::Parts;
use crate::machine::{pin_thread, thread_nanos, unpin_thread};
use crate::measure::{Effort, Measured, Pairs, Session};

/// Decisions of one thread in one segment. It is so long that data that the other side evicted from
/// the caches no longer matters.
pub const SEGMENT: usize = 1 << 18;
/// Pairs of segments.
pub const PAIRS: usize = 24;
/// One hour in µs.
const HOUR: u64 = 3_600_000_000;
/// The start of all measurements, in µs since the epoch.
pub const START: u64 = 1_750_000_000_000_000;

pub fn measure(session: &mut Session) {
    for (size, count) in [("1-key", 1), ("100k-keys", 100_000), ("1m-keys", 1_000_000)] {
        if !session.wants(&format!("embedded-{size}")) {
            continue;
        }
        let table = Tables::new(count);
        for (name, threads) in [("1-thread", 1), ("2-threads", 2)] {
            session.goal(&format!("embedded-{size}-{name}"), |effort| match &table {
                Ok(table) => table.compare(effort, threads),
                Err(error) => anyhow::bail!("{error:#}"),
            });
        }
    }
}

/// Both sides with their common keys.
struct Tables {
    keys: Vec<String>,
    draw: Draw,
    floor: Flat,
    opened: MemoryLimit,
}

/// Opens a limit in a store.
pub fn open(store: &MemoryStore, policies: &[&str]) -> Result<MemoryLimit> {
    let limit = Limit::new("bench", policies)?;
    Ok(store.open(limit, OpenOptions::default()))
}

/// Returns a store with capacity for `count` keys, and for at least a million.
pub fn store_for(count: usize) -> Result<MemoryStore> {
    let most = NonZeroUsize::new(count.max(1_000_000));
    Ok(MemoryStore::builder().max_keys(most.unwrap_or(NonZeroUsize::MIN)).build())
}

impl Tables {
    fn new(count: usize) -> Result<Self> {
        let store = store_for(count)?;
        let opened = open(&store, &[ROOMY])?;
        // A million an hour is one in 3,600 µs.
        let floor = Flat::new(count, 3_600, 1_000_000_000);
        let tables = Self { keys: keys(count), draw: Draw::uniform(count), floor, opened };
        let everyone: Vec<u32> = (0..count as u32).collect();
        let passed = (tables.ask_floor(&everyone, START), tables.ask_store(&everyone, START));
        ensure!(passed == (count, count), "of {count} fresh keys {passed:?} were admitted");
        Ok(tables)
    }

    fn compare(&self, effort: Effort, threads: usize) -> Result<Measured> {
        let (mut pairs, mut parts) = (Pairs::default(), Parts::new()?);
        let warm_up = 2;
        for round in 0..warm_up + effort.count(PAIRS) {
            // Start after the end of the previous comparison: the store checks the time again when a
            // clock seems to go back.
            let now = START + threads as u64 * HOUR + (round * SEGMENT) as u64;
            let part = |thread| self.draw.part(round * threads + thread, SEGMENT);
            let floor = segment(threads, &|thread| self.ask_floor(part(thread), now))?;
            let store = segment(threads, &|thread| self.ask_store(part(thread), now))?;
            if round >= warm_up {
                pairs.add(store, floor);
                parts.round(threads, SEGMENT, now, &|thread, hash| {
                    part(thread)
                        .iter()
                        .for_each(|&index| hash(self.keys[index as usize].as_bytes()));
                })?;
            }
        }
        Ok(parts.add_to(pairs.ratio("ns")))
    }

    /// Returns the number of admitted requests.
    fn ask_floor(&self, indices: &[u32], mut now: u64) -> usize {
        let mut allowed = 0;
        for &index in indices {
            now += 1;
            let key = &self.keys[index as usize];
            allowed += usize::from(black_box(self.floor.check(key.as_bytes(), now)));
        }
        allowed
    }

    fn ask_store(&self, indices: &[u32], mut now: u64) -> usize {
        let mut allowed = 0;
        for &index in indices {
            now += 1;
            let key = &self.keys[index as usize];
            let request = Request::check(key.as_bytes());
            let answer = self.opened.decide_at(request, Timestamp::from_micros_clamped(now));
            // The whole answer is made, even if a caller reads only part of it.
            let answer = black_box(&answer);
            allowed += usize::from(answer.as_ref().is_ok_and(|decision| decision.is_allowed()));
        }
        allowed
    }
}

/// Runs one segment on `threads` threads, each on a processor of its own. Returns the ns of processor
/// time per decision.
pub fn segment(threads: usize, work: &(dyn Fn(usize) -> usize + Sync)) -> Result<f64> {
    let barrier = Barrier::new(threads);
    let run = |thread: usize| {
        pin_thread(thread);
        barrier.wait();
        let start = thread_nanos();
        let allowed = work(thread);
        (thread_nanos() - start, allowed)
    };
    let outcomes = if threads == 1 {
        let outcome = run(0);
        unpin_thread();
        vec![outcome]
    } else {
        std::thread::scope(|scope| {
            let run = &run;
            let workers: Vec<_> =
                (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
            workers.into_iter().filter_map(|worker| worker.join().ok()).collect()
        })
    };
    let (nanos, allowed) = outcomes
        .iter()
        .fold((0.0, 0), |(nanos, allowed), outcome| (nanos + outcome.0, allowed + outcome.1));
    let asked = threads * SEGMENT;
    ensure!(allowed == asked, "{allowed} of {asked} requests were admitted: all should be");
    Ok(nanos / asked as f64)
}
