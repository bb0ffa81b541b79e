//! The scripts of the Redis store: processor time of a real server per decision.

mod holding;
mod load;
mod pace;
mod pipes;
pub mod subject;

use anyhow::{Context as _, Result, ensure};
use sluicegate_core::for_stores::Identity;
use sluicegate_core::kernel::Kernel as _;
use sluicegate_core::kernel::log::Log;
use sluicegate_core::record::Record;
use sluicegate_testkit::servers::{Reply, Server};

use crate::machine::{pin_process, pin_thread, unpin_thread};
use crate::measure::{Effort, Measured, Pairs, Session, digits, median};
use holding::Costs;
use load::{Answer, Load};
use pace::Pace;
use pipes::Pipes;
use subject::Subject;

/// The number of subjects, where the frequency of each doesn't matter.
pub const KEYS: usize = 100_000;
/// A refill of one unit per minute: no bucket is full again, and no key expires, during the
/// measurement.
pub const ROOMY: &str = "token_bucket 1/min burst 100000";
/// Requests per segment at full speed.
const SEGMENT: usize = pipes::AT_ONCE * 16;
/// Pairs of segments.
const PAIRS: usize = 40;

/// Measures all goals on the server.
pub fn measure(session: &mut Session) {
    if !session.wants("redis-") {
        return;
    }
    let mut bench = match Bench::start() {
        Ok(bench) => bench,
        Err(error) => return session.give_up("redis-", &error),
    };
    session.goal("redis-token-bucket", |effort| bench.token_bucket(effort));
    session.goal("redis-denial", |effort| bench.denial(effort));
    session.goal("redis-ten-policies", |effort| bench.ten_policies(effort));
    session.goal("redis-sliding-window", |effort| bench.sliding_window(effort));
    session.goal("redis-sliding-log", |effort| bench.sliding_log(effort));
    for (measure, names) in [
        (holding::grants as Holding, ["redis-hold", "redis-settle"]),
        (holding::permits, ["redis-permit-take", "redis-permit-release"]),
    ] {
        if !names.iter().any(|name| session.wants(name)) {
            continue;
        }
        let Bench { server, pipes } = &mut bench;
        let costs = measure(server, pipes, session.effort);
        for (name, pick) in
            names.iter().zip([Costs::hold as fn(&Costs) -> &Measured, Costs::settle])
        {
            session.goal(name, |_| match &costs {
                Ok(costs) => Ok(pick(costs).clone()),
                Err(error) => anyhow::bail!("{error:#}"),
            });
        }
    }
    session.goal("redis-request-id", |effort| {
        holding::request_ids(&bench.server, &mut bench.pipes, effort)
    });
    session.goal("redis-bytes-30", |_| bench.bytes(30));
    session.goal("redis-bytes-44", |_| bench.bytes(44));
    unpin_thread();
}

type Holding = fn(&Server, &mut Pipes, Effort) -> Result<Costs>;

/// A server on its own processor.
struct Bench {
    server: Server,
    pipes: Pipes,
}

impl Bench {
    fn start() -> Result<Self> {
        let server = Server::start()?;
        eprintln!("server: {} {}", server.binary().product(), server.binary().version());
        pin_process(server.pid()?, 0);
        pin_thread(1);
        let pipes = Pipes::open(&server)?;
        Ok(Self { server, pipes })
    }

    fn token_bucket(&mut self, effort: Effort) -> Result<Measured> {
        let subject = Subject::load(&self.server, "demo", &[ROOMY])?;
        let admissions = subject.load_of(KEYS, Answer::Allowed);
        // The name has the same length, but makes another key.
        let floor = Subject::load(&self.server, "flor", &[ROOMY])?;
        let floor = floor.floor(&self.server, KEYS)?;
        self.fill(&admissions)?;
        self.fill(&floor)?;
        self.compare(effort, &admissions, &floor, &subject)
    }

    fn denial(&mut self, effort: Effort) -> Result<Measured> {
        // Both sides have the same keys: full buckets, whose state the floor reads as well.
        let denied = Subject::load(&self.server, "deny", &["token_bucket 1/h burst 1"])?;
        let floor = denied.denial_floor(&self.server, KEYS)?;
        self.fill(&denied.load_of(KEYS, Answer::Allowed))?;
        self.compare(effort, &denied.load_of(KEYS, Answer::Denied), &floor, &denied)
    }

    fn ten_policies(&mut self, effort: Effort) -> Result<Measured> {
        let one = Subject::load(&self.server, "demo", &[ROOMY])?;
        let one = one.load_of(KEYS, Answer::Allowed);
        let specs: Vec<String> = (1..=10)
            .map(|rate| format!("token_bucket {rate}/min burst 100000 as p{rate}"))
            .collect();
        let specs: Vec<&str> = specs.iter().map(String::as_str).collect();
        let subject = Subject::load(&self.server, "many", &specs)?;
        let ten = subject.load_of(KEYS, Answer::Allowed);
        self.fill(&one)?;
        self.fill(&ten)?;
        self.compare(effort, &ten, &one, &subject)
    }

    fn sliding_window(&mut self, effort: Effort) -> Result<Measured> {
        let pace = Pace { keys: 64, per_second: 40, seconds: 6 };
        let window = Subject::load(&self.server, "ring", &["sliding_window 1000000/6s slices 60"])?;
        let measured = self.compare_paced(effort, &window, pace)?;
        let mut slices = Vec::new();
        for key in 0..pace.keys {
            let value = self.value(&window.key(key))?;
            // The entry has the newest time and a base, and then a stamp and a total for each slice.
            let numbers = numbers(&value, window.identity(), Log::RING_KIND)?;
            slices.push(numbers.len().saturating_sub(2) / 2);
        }
        let (least, most) = (slices.iter().min().copied(), slices.iter().max().copied());
        ensure!(least >= Some(57), "only {least:?} of 60 slices are live: the machine is too slow");
        let (least, most) = (least.unwrap_or(0), most.unwrap_or(0));
        Ok(measured.noting(format!("{least} to {most} slices stored")))
    }

    fn sliding_log(&mut self, effort: Effort) -> Result<Measured> {
        let pace = Pace { keys: 128, per_second: 50, seconds: 2 };
        let log = Subject::load(&self.server, "logs", &["sliding_log 10000/2s"])?;
        let measured = self.compare_paced(effort, &log, pace)?;
        let mut live = 0;
        for key in 0..pace.keys {
            let value = self.value(&log.key(key))?;
            let [_, base, total, ..] = numbers(&value, log.identity(), Log::FIXED.kind)?[..] else {
                anyhow::bail!("the head of the log of key {key} is short");
            };
            // Every request costs one unit.
            live += total - base;
        }
        let mean = live as f64 / pace.keys as f64;
        ensure!((85.0..=115.0).contains(&mean), "{mean:.0} entries are live, not about 100");
        Ok(measured.noting(format!("{mean:.0} live entries per key")))
    }

    fn bytes(&mut self, length: usize) -> Result<Measured> {
        let subject = Subject::load(&self.server, "demo", &[ROOMY])?.with_key_length(length);
        let key = subject.key(7);
        ensure!(key.len() == length, "the key has {} bytes, not {length}", key.len());
        self.server.command(&[b"DEL", &key])?;
        let request = subject.load_of(1, Answer::Allowed);
        self.pipes.run(&self.server, &request, &[7])?;
        match self.server.command(&[b"MEMORY", b"USAGE", &key])? {
            Reply::Integer(bytes) => {
                let note = format!("{} bytes are the value", self.value(&key)?.len());
                Ok(Measured::new(bytes as f64, note))
            }
            other => anyhow::bail!("MEMORY USAGE answers {other}"),
        }
    }

    /// Sends one request for each key, so that every state exists.
    fn fill(&mut self, load: &Load) -> Result<()> {
        let everyone: Vec<u32> = (0..KEYS as u32).collect();
        self.pipes.run(&self.server, load, &everyone).map(drop)
    }

    /// Compares two loads in turns, at the full speed of the server. Also measures calls that do
    /// nothing, with the keys and arguments of the limit `of`.
    fn compare(
        &mut self,
        effort: Effort,
        subject: &Load,
        floor: &Load,
        of: &Subject,
    ) -> Result<Measured> {
        let draw = load::draw(KEYS, SEGMENT * 8);
        let empty = of.empty(&self.server, KEYS)?;
        let (mut pairs, mut calls) = (Pairs::default(), Vec::new());
        // With every command the server moves a part of its keys to a table that has grown. The
        // warm-up lets it finish.
        let warm_up = 48;
        for round in 0..warm_up + effort.count(PAIRS) {
            let start = round % 8 * SEGMENT;
            let keys = &draw[start..start + SEGMENT];
            let floor = self.pipes.run(&self.server, floor, keys)?;
            let subject = self.pipes.run(&self.server, subject, keys)?;
            if round >= warm_up {
                pairs.add(subject, floor);
                calls.push(self.pipes.run(&self.server, &empty, keys)?);
            }
        }
        let call = digits(median(&mut calls));
        let part = format!("A call of an empty script takes {call} µs");
        Ok(pairs.ratio("µs of server CPU").part(part))
    }

    /// Compares checks of each key at a steady pace with those of a token bucket at the same pace.
    fn compare_paced(&mut self, effort: Effort, subject: &Subject, pace: Pace) -> Result<Measured> {
        let bucket = Subject::load(&self.server, "pace", &[ROOMY])?;
        let bucket = bucket.load_of(pace.keys, Answer::Allowed);
        let empty = subject.empty(&self.server, pace.keys)?;
        let subject = subject.load_of(pace.keys, Answer::Allowed);
        let (mut pairs, mut calls) = (Pairs::default(), Vec::new());
        // Warm up until the windows are full, and then measure.
        let warm_up = pace.rounds(pace.seconds) + pace.rounds(1) / 2;
        let measured = effort.count(pace.rounds(6));
        let everyone: Vec<u32> = (0..pace.keys as u32).collect();
        let mut ticks = pace.start();
        for round in 0..warm_up + measured {
            ticks.wait();
            let subject = self.pipes.run(&self.server, &subject, &everyone)?;
            let floor = self.pipes.run(&self.server, &bucket, &everyone)?;
            if round >= warm_up {
                pairs.add(subject, floor);
                calls.push(self.pipes.run(&self.server, &empty, &everyone)?);
            }
        }
        let call = digits(median(&mut calls));
        let part = format!("A call of an empty script at this pace takes {call} µs");
        Ok(pairs.ratio("µs of server CPU").part(part))
    }

    fn value(&self, key: &[u8]) -> Result<Vec<u8>> {
        match self.server.command(&[b"GET", key])? {
            Reply::Bytes(bytes) => Ok(bytes),
            other => anyhow::bail!("the stored state is {other}"),
        }
    }
}

/// Loads a script into the server, and returns its digest.
pub fn load_script(server: &Server, text: &str) -> Result<String> {
    let reply = server.command(&[b"SCRIPT", b"LOAD", text.as_bytes()])?;
    match reply {
        Reply::Bytes(digest) => String::from_utf8(digest).context("the digest is no text"),
        other => anyhow::bail!("SCRIPT LOAD answers {other}"),
    }
}

/// Returns the numbers of one policy in a stored value.
fn numbers(value: &[u8], policy: Identity, kind: u8) -> Result<Vec<u64>> {
    let record = Record::decode(value);
    let numbers = record.entry(policy, kind).and_then(|entry| entry.numbers());
    Ok(numbers.context("nothing of the policy is stored")?.to_vec())
}
