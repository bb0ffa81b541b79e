//! The embedded store as programs call it: through a limiter and through a registry's gate. Each
//! check is awaited, and the store uses its own clock. The rival is governor with its own clock.

use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use anyhow::{Result, bail, ensure};
use sluicegate::store::Store;
use sluicegate::testing::{Clock as _, SystemClock, Timestamp};
use sluicegate::{Config, Decision, Error, Gate, Limit, Limiter, MemoryStore, Registry};

use super::ROOMY;
use super::keys::{Draw, Writer};
use super::parts::Parts;
use super::rival::governor;
use super::speed::{PAIRS, SEGMENT, START, segment};
use crate::measure::{Effort, Measured, Pairs, Session, digits, median};

const KEYS: usize = 100_000;

pub fn measure(session: &mut Session) {
    session.goal("embedded-limiter-check", |effort| {
        let limiter = Limiter::new(MemoryStore::new(), Limit::new("demo", [ROOMY])?);
        compare(effort, |key| is_admitted(limiter.check(key)))
    });
    session.goal("embedded-gate-check", |effort| {
        let gate = gate(MemoryStore::new())?;
        compare(effort, |key| is_admitted(gate.check(key)))
    });
}

/// Opens a gate over a store.
pub fn gate(store: impl Store) -> Result<Gate> {
    let config = format!("limits: {{demo: {{policies: [{ROOMY}]}}}}");
    let config = Config::parse(&config, "bench.yaml")?;
    Ok(Registry::builder(store).config(&config).build().gate("demo"))
}

/// Awaits an answer. An embedded store is ready at the first poll.
#[inline]
pub fn is_admitted(answer: impl Future<Output = Result<Decision, Error>>) -> Result<bool> {
    match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        // The whole answer is made, even if a caller reads only part of it.
        Poll::Ready(answer) => Ok(black_box(&answer).as_ref().is_ok_and(Decision::is_allowed)),
        Poll::Pending => bail!("an embedded store waits for nothing"),
    }
}

fn compare(effort: Effort, check: impl Fn(&str) -> Result<bool> + Sync) -> Result<Measured> {
    let (writer, draw, governor) = (Writer::new(), Draw::uniform(KEYS), governor()?);
    let theirs =
        |indices: &[u32]| ask_each(&writer, indices, |key| governor.check_key(key).is_ok());
    let ours = |indices: &[u32]| ask_each(&writer, indices, |key| check(key).unwrap_or(false));
    let everyone: Vec<u32> = (0..KEYS as u32).collect();
    let passed = (theirs(&everyone), ours(&everyone));
    ensure!(passed == (KEYS, KEYS), "of {KEYS} fresh keys {passed:?} were admitted");
    let (mut pairs, mut parts, mut clock) = (Pairs::default(), Parts::new()?, Vec::new());
    let warm_up = 2;
    for round in 0..warm_up + effort.count(PAIRS) {
        let part = draw.part(round, SEGMENT);
        let theirs = segment(1, &|_| theirs(part))?;
        let ours = segment(1, &|_| ours(part))?;
        if round < warm_up {
            continue;
        }
        // The ratio is a speed-up, not a slowdown.
        pairs.add(theirs, ours);
        parts.round(1, SEGMENT, START, &|_, hash| {
            ask_each(&writer, part, |key| {
                hash(key.as_bytes());
                true
            });
        })?;
        clock.push(segment(1, &|_| read_clock(part.len()))?);
    }
    let measured = pairs.ratio_to("governor", "ns");
    let clock = digits(median(&mut clock));
    Ok(parts.add_to(measured).part(format!("Reading the clock takes {clock} ns")))
}

/// Writes each key, as a request would bring it, and checks it. Returns the number of admitted
/// requests.
#[inline]
fn ask_each(writer: &Writer, indices: &[u32], ask: impl Fn(&String) -> bool) -> usize {
    let (mut allowed, mut key) = (0, String::new());
    for &index in indices {
        writer.write(index, &mut key);
        allowed += usize::from(ask(black_box(&key)));
    }
    allowed
}

fn read_clock(times: usize) -> usize {
    let clock = SystemClock::new();
    (0..times).filter(|_| black_box(clock.now()) > Timestamp::EPOCH).count()
}
