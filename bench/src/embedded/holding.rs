//! Permits in the embedded store, compared with a token bucket without holds.

use std::hint::black_box;
use std::time::Duration;

use anyhow::{Result, ensure};
use sluicegate_core::{Hold, HoldId, Request, Timestamp};
use sluicegate_memory::MemoryLimit;

use super::ROOMY;
use super::keys::{Draw, keys};
use super::speed::{START, open, store_for};
use crate::machine::{pin_thread, thread_nanos, unpin_thread};
use crate::measure::{Effort, Measured, Pairs, Session, digits};

const KEYS: usize = 100_000;
/// Requests of one segment.
const SEGMENT: usize = 1 << 16;
const PAIRS: usize = 24;
/// The maximum number of permits of one key.
const MOST: u64 = 65_536;

pub fn measure(session: &mut Session) {
    let mut taken = None;
    for name in ["embedded-permit-take", "embedded-permit-release"] {
        if !session.wants(name) {
            continue;
        }
        let effort = session.effort;
        let (take, release) = taken.get_or_insert_with(|| match compare(effort) {
            Ok((take, release)) => (Ok(take), Ok(release)),
            Err(error) => (Err(format!("{error:#}")), Err(format!("{error:#}"))),
        });
        let measured = if name.ends_with("take") { take } else { release };
        session.goal(name, |_| measured.clone().map_err(anyhow::Error::msg));
    }
    session.goal("embedded-permits-p99", slowest);
}

fn compare(effort: Effort) -> Result<(Measured, Measured)> {
    let (keys, draw) = (keys(KEYS), Draw::uniform(KEYS));
    let (store, other) = (store_for(2 * KEYS)?, store_for(KEYS)?);
    let permits = open(&store, &["concurrency 65536 hold 10min"])?;
    let bucket = open(&other, &[ROOMY])?;
    let (mut take, mut release, mut ids) = (Pairs::default(), Pairs::default(), Ids::default());
    let check =
        |limit: &MemoryLimit, key: &String, now| ask(limit, &Request::check(key.as_bytes()), now);
    for key in &keys {
        // Each key has one permit in use all the time, as keys in use do.
        ensure!(hold(&permits, key, ids.next(), START) && check(&bucket, key, START));
    }
    pin_thread(0);
    let warm_up = 2;
    for round in 0..warm_up + effort.count(PAIRS) {
        let now = START + (round * SEGMENT) as u64;
        let part = draw.part(round, SEGMENT);
        let of = |index: u32| &keys[index as usize];
        let held: Vec<HoldId> = part.iter().map(|_| ids.next()).collect();
        let taken = timed(|| {
            part.iter()
                .zip(&held)
                .filter(|&(&index, &id)| hold(&permits, of(index), id, now))
                .count()
        })?;
        let checked =
            timed(|| part.iter().filter(|&&index| check(&bucket, of(index), now)).count())?;
        let released = timed(|| {
            let released = part.iter().zip(&held).filter(|&(&index, &id)| {
                let key = of(index).as_bytes();
                ask(&permits, &Request::settle(key, id, &[]), now)
            });
            released.count()
        })?;
        if round >= warm_up {
            take.add(taken, checked);
            release.add(released, checked);
        }
    }
    unpin_thread();
    Ok((take.ratio("ns"), release.ratio("ns")))
}

/// Measures ns of processor time per request. All requests have to be allowed.
fn timed(all: impl FnOnce() -> usize) -> Result<f64> {
    let start = thread_nanos();
    let allowed = all();
    let took = thread_nanos() - start;
    ensure!(allowed == SEGMENT, "{allowed} of {SEGMENT} requests were allowed: all should be");
    Ok(took / SEGMENT as f64)
}

/// Measures the slowest request for one key with the maximum number of permits. Permits are released,
/// expire, are renewed and are taken again, and an extra one is refused.
fn slowest(effort: Effort) -> Result<Measured> {
    let store = store_for(KEYS)?;
    let limit = open(&store, &["concurrency 65536 hold 10min"])?;
    let (key, mut ids) = ("tenant:42:user:000000000".to_owned(), Ids::default());
    // Each lasts a little longer than the one before, so that each expires separately.
    let mut held: Vec<HoldId> = (0..MOST).map(|_| ids.next()).collect();
    let lasts = |number: u64| Duration::from_micros(300_000_000 + number);
    for (number, &id) in held.iter().enumerate() {
        let hold = Hold { id, lasts: lasts(number as u64) };
        ensure!(ask(&limit, &Request::check(key.as_bytes()).hold(&hold), START));
    }
    pin_thread(0);
    let mut times: [(&str, Vec<f64>); 4] =
        ["Take", "Release", "Renew", "Refusal"].map(|name| (name, Vec::new()));
    let mut now = START;
    for round in 0..effort.count(40_000) {
        now += 1;
        let place = round * 7_919 % held.len();
        let (released, taken) = (held[place], ids.next());
        let mut time = |kind: usize, request: &Request<'_>, expected: bool| {
            let start = thread_nanos();
            let allowed = ask(&limit, request, now);
            times[kind].1.push((thread_nanos() - start) / 1e3);
            ensure!(allowed == expected, "{request:?} was allowed: {allowed}");
            Ok(())
        };
        let key = key.as_bytes();
        let hold = Hold { id: taken, lasts: lasts(place as u64) };
        time(3, &Request::check(key).hold(&hold), false)?;
        time(1, &Request::settle(key, released, &[]), true)?;
        time(0, &Request::check(key).hold(&hold), true)?;
        time(
            2,
            &Request::renew(key, held[(place + 1) % MOST as usize], lasts(place as u64 + 1).into()),
            true,
        )?;
        held[place] = taken;
    }
    // All of them have expired. Each new request removes some of them.
    now += 900_000_000;
    let mut expired = Vec::new();
    for _ in 0..effort.count(4_000) {
        now += 1;
        let hold = Hold { id: ids.next(), lasts: Duration::from_secs(60) };
        let request = Request::check(key.as_bytes()).hold(&hold);
        let start = thread_nanos();
        let _ = ask(&limit, &request, now);
        expired.push((thread_nanos() - start) / 1e3);
    }
    unpin_thread();
    let mut worst = 0.0_f64;
    let mut figures = Vec::new();
    let all = times.into_iter().chain([("Take next to expired ones", expired)]);
    for (name, mut times) in all {
        times.sort_by(f64::total_cmp);
        let of = |share: usize| times[(times.len() * share / 1_000).min(times.len() - 1)];
        worst = worst.max(of(990));
        figures.push(format!("{name} {} µs (median {} µs)", digits(of(990)), digits(of(500))));
    }
    Ok(Measured::new(worst, figures.join(". "))
        .part("Each operation is measured without its slowest hundredth"))
}

/// Ids in the order in which they are made: no two consecutive ones are similar.
#[derive(Default)]
struct Ids(u128);

impl Ids {
    fn next(&mut self) -> HoldId {
        self.0 += 1;
        let id = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d_9e37_79b9_7f4a_7c15);
        HoldId::from_bytes(id.to_be_bytes())
    }
}

fn hold(limit: &MemoryLimit, key: &str, id: HoldId, now: u64) -> bool {
    let hold = Hold { id, lasts: Duration::from_secs(60) };
    ask(limit, &Request::check(key.as_bytes()).hold(&hold), now)
}

fn ask(limit: &MemoryLimit, request: &Request<'_>, now: u64) -> bool {
    let answer = limit.decide_at(*request, Timestamp::from_micros_clamped(now));
    // The whole answer is made, even if a caller reads only part of it.
    black_box(&answer).as_ref().is_ok_and(|decision| decision.is_allowed())
}
