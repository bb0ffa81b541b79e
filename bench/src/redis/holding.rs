//! Grants, permits, and requests with an id, compared with a token bucket without holds.

use std::time::Duration;

use anyhow::Result;
use sluicegate_core::{Hold, HoldId, Idempotency, Request, RequestId};
use sluicegate_testkit::servers::Server;

use super::load::{Answer, Load, draw};
use super::pipes::Pipes;
use super::subject::Subject;
use super::{KEYS, ROOMY, SEGMENT};
use crate::measure::{Effort, Measured, Pairs, digits, median};

/// Rounds: each holds units for a segment of requests, checks as many, and settles the holds.
const ROUNDS: usize = 40;
/// Rounds before the measurement, so that the server has finished growing its tables.
const WARM_UP: usize = 8;
const UNIT: &str = "µs of server CPU";
/// The number of subjects of permits. Each has [`IN_FLIGHT`] permits in use.
const FLIGHTS: usize = 64;
const IN_FLIGHT: usize = 1_000;

/// The costs of holding and settling, each compared with a check.
pub struct Costs {
    hold: Measured,
    settle: Measured,
}

impl Costs {
    pub const fn hold(&self) -> &Measured {
        &self.hold
    }

    pub const fn settle(&self) -> &Measured {
        &self.settle
    }
}

/// Measures grants of a token bucket: 100,000 subjects drawn uniformly, held for a minute each. A
/// third of each grant is used.
pub fn grants(server: &Server, pipes: &mut Pipes, effort: Effort) -> Result<Costs> {
    let bucket = Subject::load(server, "demo", &[ROOMY])?;
    let held = Subject::load(server, "held", &[ROOMY])?;
    let checks = bucket.load_of(KEYS, Answer::Allowed);
    let everyone: Vec<u32> = (0..KEYS as u32).collect();
    pipes.run(server, &checks, &everyone)?;
    pipes.run(server, &held.load_of(KEYS, Answer::Allowed), &everyone)?;
    let bare = Subject::load(server, "held", &[ROOMY])?.rewriting(server)?;
    compare(server, pipes, effort, &Sides { checks, held, bare, cost: 3, used: 1, keys: KEYS })
}

/// Measures permits of 64 subjects with 1,000 in use each, compared with token buckets of as many
/// subjects.
pub fn permits(server: &Server, pipes: &mut Pipes, effort: Effort) -> Result<Costs> {
    let bucket = Subject::load(server, "demo", &[ROOMY])?;
    let jobs = || Subject::load(server, "jobs", &["concurrency 5000 hold 10min"]);
    let (held, bare) = (jobs()?, jobs()?.rewriting(server)?);
    let checks = bucket.load_of(FLIGHTS, Answer::Allowed);
    let mut ids = Ids(1 << 100);
    let flights: Vec<u32> =
        (0..FLIGHTS * IN_FLIGHT).map(|number| (number % FLIGHTS) as u32).collect();
    let (holds, _) = requests(&held, &flights, 1, 0, &mut ids);
    let everyone: Vec<u32> = (0..flights.len() as u32).collect();
    pipes.run(server, &holds, &everyone)?;
    compare(server, pipes, effort, &Sides { checks, held, bare, cost: 1, used: 0, keys: FLIGHTS })
}

/// Measures checks with an id, a new one each: 100,000 subjects drawn uniformly, and each id is known
/// for a minute.
pub fn request_ids(server: &Server, pipes: &mut Pipes, effort: Effort) -> Result<Measured> {
    let bucket = Subject::load(server, "demo", &[ROOMY])?;
    let once = Subject::load(server, "once", &[ROOMY])?;
    let bare = Subject::load(server, "once", &[ROOMY])?.rewriting(server)?;
    let checks = bucket.load_of(KEYS, Answer::Allowed);
    let everyone: Vec<u32> = (0..KEYS as u32).collect();
    pipes.run(server, &checks, &everyone)?;
    pipes.run(server, &once.load_of(KEYS, Answer::Allowed), &everyone)?;
    let draw = draw(KEYS, SEGMENT * 8);
    let everyone: Vec<u32> = (0..SEGMENT as u32).collect();
    let (mut pairs, mut rewritten, mut ids) = (Pairs::default(), Vec::new(), Ids(1 << 110));
    for round in 0..WARM_UP + effort.count(ROUNDS) {
        let keys = &draw[round % 8 * SEGMENT..][..SEGMENT];
        let mut asks_of = |subject: &Subject| {
            let asks = keys.iter().map(|&key| {
                let id = RequestId::from_bytes(ids.next());
                let known = Idempotency { id, lasts: Duration::from_secs(60) };
                subject.command_of(key as usize, &Request::check(b"").idempotent(known))
            });
            Load::new(asks.collect(), Answer::Allowed)
        };
        let (asks, rewrites) = (asks_of(&once), asks_of(&bare));
        let asked = pipes.run(server, &asks, &everyone)?;
        let checked = pipes.run(server, &checks, keys)?;
        if round >= WARM_UP {
            pairs.add(asked, checked);
            rewritten.push(pipes.run(server, &rewrites, &everyone)?);
        }
    }
    let known = (WARM_UP + effort.count(ROUNDS)) / 8;
    let measured = pairs.ratio(UNIT).part(rewriting(&mut rewritten));
    Ok(measured.noting(format!("Each drawn subject has {known} known ids at the end")))
}

struct Sides {
    checks: Load,
    held: Subject,
    /// The subjects of `held`, with a script that only rewrites their value unchanged.
    bare: Subject,
    cost: u64,
    used: u64,
    keys: usize,
}

fn compare(server: &Server, pipes: &mut Pipes, effort: Effort, sides: &Sides) -> Result<Costs> {
    let draw = draw(sides.keys, SEGMENT * 8);
    let everyone: Vec<u32> = (0..SEGMENT as u32).collect();
    let (mut hold, mut settle, mut ids) = (Pairs::default(), Pairs::default(), Ids(1));
    let mut rewritten = Vec::new();
    for round in 0..WARM_UP + effort.count(ROUNDS) {
        let start = round % 8 * SEGMENT;
        let keys = &draw[start..start + SEGMENT];
        let (holds, settlements) = requests(&sides.held, keys, sides.cost, sides.used, &mut ids);
        let (rewrites, _) = requests(&sides.bare, keys, sides.cost, sides.used, &mut ids);
        let held = pipes.run(server, &holds, &everyone)?;
        let checked = pipes.run(server, &sides.checks, keys)?;
        let settled = pipes.run(server, &settlements, &everyone)?;
        if round >= WARM_UP {
            hold.add(held, checked);
            settle.add(settled, checked);
            // Last, so that it doesn't warm the processor's caches for the measured calls.
            rewritten.push(pipes.run(server, &rewrites, &everyone)?);
        }
    }
    let part = rewriting(&mut rewritten);
    Ok(Costs { hold: hold.ratio(UNIT).part(&*part), settle: settle.ratio(UNIT).part(part) })
}

/// Formats the time that any script would need.
fn rewriting(micros: &mut [f64]) -> String {
    let micros = digits(median(micros));
    format!(
        "A script with arguments of the same size that reads the stored value and writes it back \
         takes {micros} µs"
    )
}

/// Unique ids.
struct Ids(u128);

impl Ids {
    /// Returns the next id: no two consecutive ones are similar.
    const fn next(&mut self) -> [u8; 16] {
        self.0 += 1;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d_9e37_79b9_7f4a_7c15).to_be_bytes()
    }
}

/// Returns a request that holds units for each of these subjects, and one that settles each hold.
fn requests(of: &Subject, keys: &[u32], cost: u64, used: u64, ids: &mut Ids) -> (Load, Load) {
    let mut holds = Vec::with_capacity(keys.len());
    let mut settlements = Vec::with_capacity(keys.len());
    for &key in keys {
        let hold = Hold { id: HoldId::from_bytes(ids.next()), lasts: Duration::from_secs(60) };
        let costs = [cost];
        let request = Request::check(b"").costs(sluicegate_core::Costs::Each(&costs)).hold(&hold);
        holds.push(of.command_of(key as usize, &request));
        let used: &[Option<u64>] = if used == 0 { &[] } else { &[Some(used)] };
        settlements.push(of.command_of(key as usize, &Request::settle(b"", hold.id, used)));
    }
    (Load::new(holds, Answer::Allowed), Load::new(settlements, Answer::Allowed))
}
