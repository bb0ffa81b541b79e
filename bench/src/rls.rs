//! Envoy's rate limit service, compared with an empty one and with other services, in processor time of a call.

mod client;
mod message;
pub mod ours;
mod rivals;

use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use bytes::Bytes;
use sluicegate_envoy::service::protos::RateLimitResponse;
use sluicegate_envoy::service::protos::rate_limit_response::Code;
use sluicegate_testkit::servers::Server;

use crate::machine::{pin_process, pin_thread, process_nanos, unpin_thread};
use crate::measure::{Effort, Measured, Pairs, Session, digits, median, take_turns};
use crate::served::Served;
use client::{Client, Depth};
use message::{DOMAIN, excessive, messages};
use rivals::Rival;

const PAIRS: usize = 21;
/// Calls of a segment.
const CALLS: usize = 20_000;
/// Calls of a segment on Redis, where each takes longer.
const CALLS_ON_REDIS: usize = 8_000;
const PAIRS_ON_REDIS: usize = 11;
/// Calls of a segment, one after the other.
const CALLS_ALONE: usize = 2_000;
const BUSY: Depth = Depth { connections: 4, calls_on_each: 16, is_awake: true };
/// The client and Redis share a processor.
const BUSY_ON_REDIS: Depth = Depth { is_awake: false, ..BUSY };
const ALONE: Depth = Depth { connections: 1, calls_on_each: 1, is_awake: false };

/// Measures the goals of the rate limit service.
pub fn measure(session: &mut Session) {
    if !session.wants("rls-") {
        return;
    }
    pin_thread(1);
    for (name, descriptors) in [("rls-1-descriptor", 1), ("rls-3-descriptors", 3)] {
        session.goal(name, |effort| beside_empty(effort, ours::native, descriptors));
    }
    for (name, descriptors) in [("rls-files-1-descriptor", 1), ("rls-files-3-descriptors", 3)] {
        session.goal(name, |effort| beside_empty(effort, || ours::envoy(None), descriptors));
    }
    for (name, descriptors) in
        [("rls-limitador-1-descriptor", 1), ("rls-limitador-3-descriptors", 3)]
    {
        session.goal(name, |effort| beside_limitador(effort, descriptors));
    }
    for (name, descriptors) in
        [("rls-ratelimit-1-descriptor", 1), ("rls-ratelimit-3-descriptors", 3)]
    {
        session.goal(name, |effort| beside_ratelimit(effort, descriptors));
    }
    session.goal("rls-64-descriptors", many_descriptors);
    unpin_thread();
}

/// Compares a service with one that decides nothing and answers the same bytes.
fn beside_empty(
    effort: Effort,
    ours: impl Fn() -> Result<Served>,
    descriptors: usize,
) -> Result<Measured> {
    let ours = Side::of(ours()?, None, BUSY)?;
    let empty = Side::new(ours::empty(&ours.answer(descriptors)?)?, None, BUSY)?;
    let asked: Arc<[Bytes]> = messages(DOMAIN, descriptors).into();
    let undecided: Arc<[Bytes]> = messages("unknown", descriptors).into();
    let (mut pairs, mut without) = (Pairs::default(), Vec::new());
    take_turns(
        effort.count(PAIRS),
        || empty.run(&asked, CALLS),
        || ours.run(&asked, CALLS),
        |floor, cost| {
            pairs.add(floor.all(), cost.all());
            without.push(ours.run(&undecided, CALLS)?.all());
            Ok(())
        },
    )?;
    let part = format!(
        "A call of the service for a domain without limits takes {} µs",
        digits(median(&mut without))
    );
    Ok(pairs.ratio_to("The empty service", UNIT).part(part))
}

fn beside_limitador(effort: Effort, descriptors: usize) -> Result<Measured> {
    let Rival { served, version } = rivals::limitador(descriptors)?;
    let rival = Side::of(served, None, BUSY)?;
    let ours = Side::of(ours::native()?, None, BUSY)?;
    let asked: Arc<[Bytes]> = messages(DOMAIN, descriptors).into();
    let mut pairs = Pairs::default();
    take_turns(
        effort.count(PAIRS),
        || rival.run(&asked, CALLS),
        || ours.run(&asked, CALLS),
        |other, cost| {
            pairs.add(other.all(), cost.all());
            Ok(())
        },
    )?;
    Ok(pairs.ratio_to(&version, UNIT))
}

/// Compares `sluicegate envoy` with the service that it takes the place of, on one Redis server.
fn beside_ratelimit(effort: Effort, descriptors: usize) -> Result<Measured> {
    let redis = redis()?;
    let Rival { served, version } = rivals::ratelimit(redis.address())?;
    let rival = Side::of(served, Some(&redis), BUSY_ON_REDIS)?;
    let ours = Side::of(ours::envoy(Some(redis.address()))?, Some(&redis), BUSY_ON_REDIS)?;
    let asked: Arc<[Bytes]> = messages(DOMAIN, descriptors).into();
    let mut pairs = Pairs::default();
    let (mut costs, mut others) = (Costs::default(), Costs::default());
    take_turns(
        effort.count(PAIRS_ON_REDIS),
        || rival.run(&asked, CALLS_ON_REDIS),
        || ours.run(&asked, CALLS_ON_REDIS),
        |other, cost| {
            pairs.add(cost.all(), other.all());
            costs.add(cost);
            others.add(other);
            Ok(())
        },
    )?;
    let measured = pairs.ratio(UNIT);
    let binary = redis.binary();
    Ok(measured.noting(format!(
        "Ours takes {costs}. The other takes {others}. It is {version}, on {} {}",
        binary.product(),
        binary.version()
    )))
}

/// Compares a call with 64 descriptors with one that has one, by the time that Redis takes for it. The calls are sent
/// one after the other, because the store joins the descriptors of simultaneous calls too.
fn many_descriptors(effort: Effort) -> Result<Measured> {
    let redis = redis()?;
    let ours = Side::of(ours::envoy(Some(redis.address()))?, Some(&redis), ALONE)?;
    let [one, many] = [1, 64].map(|descriptors| messages(DOMAIN, descriptors).into());
    let mut pairs = Pairs::default();
    let (mut costs, mut ones) = (Costs::default(), Costs::default());
    take_turns(
        effort.count(PAIRS_ON_REDIS),
        || ours.run(&one, CALLS_ALONE),
        || ours.run(&many, CALLS_ALONE),
        |single, cost| {
            pairs.add(cost.redis, single.redis);
            costs.add(cost);
            ones.add(single);
            Ok(())
        },
    )?;
    let measured = pairs.ratio("µs of Redis for a call");
    Ok(measured.noting(format!("64 descriptors: {costs}. One: {ones}")))
}

const UNIT: &str = "µs of processor time for a call";

/// Starts a Redis server on the processor of the client.
fn redis() -> Result<Server> {
    let redis = Server::start()?;
    pin_process(redis.pid()?, 1);
    Ok(redis)
}

/// A service under load.
struct Side<'r> {
    served: Served,
    redis: Option<&'r Server>,
    client: Client,
}

impl<'r> Side<'r> {
    fn new(served: Served, redis: Option<&'r Server>, depth: Depth) -> Result<Self> {
        let client = Client::connect(served.address, depth)?;
        Ok(Self { served, redis, client })
    }

    /// Makes the side of a service with limits, once it enforces them.
    fn of(served: Served, redis: Option<&'r Server>, depth: Depth) -> Result<Self> {
        let side = Self::new(served, redis, depth)?;
        let start = std::time::Instant::now();
        loop {
            match side.client.ask(&excessive()) {
                Ok(answer) if answer.overall_code() == Code::OverLimit => return Ok(side),
                answer if start.elapsed().as_secs() >= 10 => {
                    bail!("the service doesn't enforce its limits: {answer:?}")
                }
                _ => std::thread::sleep(std::time::Duration::from_millis(20)),
            }
        }
    }

    /// Returns the answer to the first message.
    fn answer(&self, descriptors: usize) -> Result<RateLimitResponse> {
        let answer = self.client.ask(&messages(DOMAIN, descriptors)[0])?;
        let limited = answer.statuses.iter().filter(|status| status.current_limit.is_some());
        ensure!(limited.count() == descriptors, "the answer lacks limits: {answer:?}");
        Ok(answer)
    }

    /// Sends calls, and returns the cost of one.
    fn run(&self, messages: &Arc<[Bytes]>, calls: usize) -> Result<Cost> {
        let redis = || self.redis.map_or(Ok(0.0), |redis| process_nanos(redis.pid()?));
        let (service_before, redis_before) = (self.served.nanos()?, redis()?);
        self.client.run(messages, calls)?;
        let micros = |nanos: f64| nanos / calls as f64 / 1e3;
        Ok(Cost {
            service: micros(self.served.nanos()? - service_before),
            redis: micros(redis()? - redis_before),
        })
    }
}

/// The processor time of a call, in µs.
#[derive(Clone, Copy)]
struct Cost {
    service: f64,
    redis: f64,
}

impl Cost {
    fn all(self) -> f64 {
        self.service + self.redis
    }
}

/// The costs of several segments.
#[derive(Default)]
struct Costs {
    service: Vec<f64>,
    redis: Vec<f64>,
}

impl Costs {
    fn add(&mut self, cost: Cost) {
        self.service.push(cost.service);
        self.redis.push(cost.redis);
    }
}

impl std::fmt::Display for Costs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [service, redis] =
            [&self.service, &self.redis].map(|all| digits(median(&mut all.clone())));
        write!(f, "{service} µs of the service and {redis} of Redis")
    }
}
