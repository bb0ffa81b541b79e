//! The processor time of a check over HTTP, compared with an empty server and with other services.

use anyhow::{Result, bail};
use sluicegate_testkit::servers::Server;

use super::client::Client;
use super::rivals::{self, Rival};
use super::services::{self, ours};
use crate::embedded::next;
use crate::machine::pin_process;
use crate::measure::{Effort, Measured, Pairs, Session, take_turns};
use crate::served::Served;

const PAIRS: usize = 84;
/// Requests of a segment. Short segments are next to each other in time, so other programs slow both down.
const REQUESTS: usize = 5_000;
/// The number of different requests.
const DIFFERENT: usize = 1 << 14;
const KEYS: u64 = 100_000;
pub const UNIT: &str = "µs of processor time for a request";

/// Measures the goals of a check.
pub fn measure(session: &mut Session) {
    session.goal("http-check", beside_empty);
    session.goal("http-check-redis", beside_memory);
    session.goal("http-throttlecrab", |effort| beside_rival(effort, rivals::throttlecrab()?));
    session.goal("http-limitador", |effort| beside_rival(effort, rivals::limitador()?));
}

fn beside_empty(effort: Effort) -> Result<Measured> {
    let served = ours("memory:")?;
    let request = services::request("tenant:42:user:000000001", 1);
    // The empty server may have to be compiled, and our service closes connections that are idle meanwhile.
    let empty = Client::connect(served.address, true)?.ask(&request, services::empty)??;
    let mut ours = Side::of_ours(served, true)?;
    let mut empty = Side::new(empty, services::request, true)?;
    Ok(pairs(effort, &mut empty, &mut ours)?.ratio_to("The empty server", UNIT))
}

/// Compares the service's time for a check on Redis with that in memory.
fn beside_memory(effort: Effort) -> Result<Measured> {
    let redis = Server::start()?;
    pin_process(redis.pid()?, 1);
    // The client and Redis share a processor.
    let mut memory = Side::ours("memory:", false)?;
    let mut ours = Side::ours(&redis.url().to_string(), false)?;
    let measured = pairs(effort, &mut memory, &mut ours)?.ratio_to("In memory", UNIT);
    let binary = redis.binary();
    Ok(measured.noting(format!("On {} {}", binary.product(), binary.version())))
}

fn beside_rival(effort: Effort, rival: Rival) -> Result<Measured> {
    let mut other = Side::new(rival.served, rival.request, true)?;
    let denied = (rival.request)("excessive", u64::from(u32::MAX));
    if other.client.ask(&denied, |answer| answer.passes())? {
        bail!("{} doesn't enforce its limit", rival.name);
    }
    let mut ours = Side::ours("memory:", true)?;
    Ok(pairs(effort, &mut other, &mut ours)?.ratio_to(&rival.name, UNIT))
}

/// Returns the times of another side and ours, which take turns.
fn pairs(effort: Effort, other: &mut Side, ours: &mut Side) -> Result<Pairs> {
    let mut pairs = Pairs::default();
    add_pairs(&mut pairs, effort.count(PAIRS), other, ours)?;
    Ok(pairs)
}

/// Adds a number of pairs of times of another side and ours.
pub fn add_pairs(pairs: &mut Pairs, count: usize, other: &mut Side, ours: &mut Side) -> Result<()> {
    take_turns(
        count,
        || other.run(),
        || ours.run(),
        |other, ours| {
            pairs.add(other, ours);
            Ok(())
        },
    )
}

/// A service under load.
pub struct Side {
    pub served: Served,
    /// The processor time of the service that was counted, in ns.
    counted: f64,
    client: Client,
    requests: Vec<Vec<u8>>,
}

impl Side {
    fn new(served: Served, request: fn(&str, u64) -> Vec<u8>, is_awake: bool) -> Result<Self> {
        let client = Client::connect(served.address, is_awake)?;
        let mut state = 0x9e37_79b9_7f4a_7c15;
        let mut key = || format!("tenant:42:user:{:09}", next(&mut state) % KEYS);
        let requests = (0..DIFFERENT).map(|_| request(&key(), 1)).collect();
        Ok(Self { counted: served.nanos()?, served, client, requests })
    }

    fn ours(store: &str, is_awake: bool) -> Result<Self> {
        Self::of_ours(ours(store)?, is_awake)
    }

    /// Returns our service as a side.
    pub fn of_ours(served: Served, is_awake: bool) -> Result<Self> {
        Self::new(served, services::request, is_awake)
    }

    /// Sends requests, and returns the processor time of the service for one, in µs. It includes what the service did since
    /// the last requests, so that work that comes later counts.
    fn run(&mut self) -> Result<f64> {
        self.client.run(&self.requests, REQUESTS)?;
        self.requests.rotate_left(REQUESTS);
        let before = std::mem::replace(&mut self.counted, self.served.nanos()?);
        Ok((self.counted - before) / REQUESTS as f64 / 1e3)
    }
}
