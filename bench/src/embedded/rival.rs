//! The embedded store, compared with keyed governor with its default settings.
//!
//! Both sides write each key into a reused buffer before they check it, as a server does with the key
//! of a request. The cost of writing is part of both figures, and is also shown separately.

use std::hint::black_box;
use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use governor::clock::QuantaClock;
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};
use sluicegate_core::{Clock, Request, Timestamp};
use sluicegate_memory::{MemoryLimit, MemoryStore};

use super::ROOMY;
use super::keys::{Draw, Writer};
use super::parts::Parts;
use super::speed::{PAIRS, SEGMENT, START, open, segment};
use crate::measure::{Effort, Measured, Pairs, Session, digits, median};

const KEYS: usize = 100_000;
/// Requests in a batch.
const BATCH: usize = 64;

/// The rival: governor with strings for keys.
pub type Governor = RateLimiter<
    String,
    DashMapStateStore<String>,
    QuantaClock,
    NoOpMiddleware<governor::clock::QuantaInstant>,
>;

pub fn measure(session: &mut Session) {
    if !session.wants("embedded-governor") {
        return;
    }
    let rivals = Rivals::new();
    let with = |effort, ask: fn(&Rivals, &[u32]) -> usize| match &rivals {
        Ok(rivals) => rivals.compare(effort, ask),
        Err(error) => anyhow::bail!("{error:#}"),
    };
    session.goal("embedded-governor-same-clock", |effort| with(effort, Rivals::ask_one_by_one));
    session.goal("embedded-governor-batch", |effort| with(effort, Rivals::ask_in_batches));
}

/// Makes a governor of the same rate and burst.
pub fn governor() -> Result<Governor> {
    let period = Duration::from_micros(3_600);
    let burst = NonZeroU32::new(1_000_000_000).context("a burst")?;
    let quota = Quota::with_period(period).context("a quota")?.allow_burst(burst);
    Ok(RateLimiter::dashmap(quota))
}

/// The default clock of governor, for our store.
struct Quanta {
    clock: quanta::Clock,
    start: quanta::Instant,
}

impl Clock for Quanta {
    #[inline]
    fn now(&self) -> Timestamp {
        let elapsed = self.clock.now().duration_since(self.start);
        let micros = elapsed.as_secs() * 1_000_000 + u64::from(elapsed.subsec_micros());
        Timestamp::from_micros_clamped(START + micros)
    }
}

struct Rivals {
    writer: Writer,
    draw: Draw,
    governor: Governor,
    opened: MemoryLimit,
}

impl Rivals {
    fn new() -> Result<Self> {
        let clock = quanta::Clock::new();
        let clock = Quanta { start: clock.now(), clock };
        let most = NonZeroUsize::new(1_000_000).context("a size")?;
        let store = MemoryStore::builder().max_keys(most).clock(clock).build();
        let opened = open(&store, &[ROOMY])?;
        let (writer, draw) = (Writer::new(), Draw::uniform(KEYS));
        let rivals = Self { writer, draw, governor: governor()?, opened };
        let everyone: Vec<u32> = (0..KEYS as u32).collect();
        let passed = (rivals.ask_governor(&everyone), rivals.ask_one_by_one(&everyone));
        ensure!(passed == (KEYS, KEYS), "of {KEYS} fresh keys {passed:?} were admitted");
        Ok(rivals)
    }

    fn compare(&self, effort: Effort, ask: fn(&Self, &[u32]) -> usize) -> Result<Measured> {
        let (mut pairs, mut writing, mut parts) = (Pairs::default(), Vec::new(), Parts::new()?);
        let warm_up = 2;
        for round in 0..warm_up + effort.count(PAIRS) {
            let part = self.draw.part(round, SEGMENT);
            let governor = segment(1, &|_| self.ask_governor(part))?;
            let ours = segment(1, &|_| ask(self, part))?;
            if round >= warm_up {
                // The ratio is a speed-up, not a slowdown.
                pairs.add(governor, ours);
                writing.push(segment(1, &|_| self.only_write(part))?);
                parts.round(1, SEGMENT, START, &|_, hash| {
                    let mut key = String::new();
                    for &index in part {
                        self.writer.write(index, &mut key);
                        hash(key.as_bytes());
                    }
                })?;
            }
        }
        let measured = pairs.ratio_to("governor", "ns");
        let writing = digits(median(&mut writing));
        Ok(parts.add_to(
            measured.part(format!("Writing the keys, which both sides do, takes {writing} ns")),
        ))
    }

    fn only_write(&self, indices: &[u32]) -> usize {
        let mut key = String::new();
        for &index in indices {
            self.writer.write(index, &mut key);
            black_box(&key);
        }
        indices.len()
    }

    fn ask_governor(&self, indices: &[u32]) -> usize {
        let (mut allowed, mut key) = (0, String::new());
        for &index in indices {
            self.writer.write(index, &mut key);
            let answer = self.governor.check_key(black_box(&key));
            allowed += usize::from(black_box(&answer).is_ok());
        }
        allowed
    }

    fn ask_one_by_one(&self, indices: &[u32]) -> usize {
        let (mut allowed, mut key) = (0, String::new());
        for &index in indices {
            self.writer.write(index, &mut key);
            let answer = self.opened.decide(Request::check(black_box(&key).as_bytes()));
            let answer = black_box(&answer);
            allowed += usize::from(answer.as_ref().is_ok_and(|decision| decision.is_allowed()));
        }
        allowed
    }

    fn ask_in_batches(&self, indices: &[u32]) -> usize {
        let mut allowed = 0;
        let mut keys = vec![String::new(); BATCH];
        for batch in indices.chunks(BATCH) {
            for (&index, key) in batch.iter().zip(&mut keys) {
                self.writer.write(index, key);
            }
            let keys = &black_box(&keys)[..batch.len()];
            let requests = keys.iter().map(|key| Request::check(key.as_bytes()));
            self.opened.decide_many(requests, |_, answer| {
                let answer = black_box(&answer);
                allowed += usize::from(answer.as_ref().is_ok_and(|decision| decision.is_allowed()));
            });
        }
        allowed
    }
}
