//! Processes that are killed and started, halted and continued, while servers fail as well.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use sluicegate::config::StoreUrl;
use sluicegate::store::{Span, StoreOptions};
use sluicegate::{Ask, Limiter};
use sluicegate_testkit::processes::Process;
use sluicegate_testkit::servers::fresh_prefix;
use sluicegate_testkit::wait::until;
use tempfile::TempDir;
use tokio::runtime::Builder;

use super::deals::{Conditions, Deal, deals_of};
use super::rules::{HELD, Held, KEYS, Kind};
use super::verdicts::Verdicts;
use super::worker::{Crew, start};
use crate::chaos::load::{rounds, subject, wall_clock};

/// The number of processes at a time.
const WORKERS: usize = 3;

/// A scenario, until it ends.
#[derive(Debug)]
pub(crate) struct Scene {
    name: &'static str,
    url: String,
    prefix: String,
    crew: Crew,
    folder: TempDir,
    workers: Vec<Worker>,
    /// The processes that have ended, and since when.
    gone: Vec<(usize, u64)>,
    started: usize,
    begun: u64,
    conditions: Conditions,
    kills: u64,
    halts: u64,
}

#[derive(Debug)]
struct Worker {
    number: usize,
    process: Process,
    halted_since: Option<u64>,
}

/// Sleeps for `millis` ms, and up to twice that.
fn pass(millis: u64) {
    let begin = wall_clock();
    let micros = 1_000 * (millis + fastrand::u64(..=millis));
    while let Some(left) = (begin + micros).checked_sub(wall_clock()) {
        thread::park_timeout(Duration::from_micros(left.max(1)));
    }
}

impl Scene {
    pub(crate) fn begin(name: &'static str, url: &str, crew: Crew) -> Self {
        let mut scene = Self {
            name,
            url: url.to_owned(),
            prefix: fresh_prefix("held"),
            crew,
            folder: tempfile::tempdir().unwrap(),
            workers: Vec::new(),
            gone: Vec::new(),
            started: 0,
            begun: wall_clock(),
            conditions: Conditions { held_for: crew.held_for(), outages: Vec::new() },
            kills: 0,
            halts: 0,
        };
        for _ in 0..WORKERS {
            scene.start_worker();
        }
        for worker in &mut scene.workers {
            assert_eq!(worker.process.hear().as_deref(), Some("runs"));
        }
        scene
    }

    fn journal(&self, number: usize) -> PathBuf {
        self.folder.path().join(format!("{number}.journal"))
    }

    fn start_worker(&mut self) {
        let number = self.started;
        self.started += 1;
        let process = start(&self.journal(number), &self.url, &self.prefix, self.crew);
        self.workers.push(Worker { number, process, halted_since: None });
    }

    fn kill_worker(&mut self, at: usize) {
        let worker = self.workers.swap_remove(at);
        worker.process.kill();
        // A halted process has sent nothing since.
        self.gone.push((worker.number, worker.halted_since.unwrap_or_else(wall_clock)));
    }

    /// Returns whether less time has passed than `seconds`, or in a soak than `minutes_of_soak`.
    pub(crate) fn goes_on(&self, seconds: u64, minutes_of_soak: u64) -> bool {
        let length = if rounds() == 1 { seconds } else { 6 * rounds() * minutes_of_soak };
        wall_clock() < self.begun + length * 1_000_000
    }

    /// Kills processes and starts others, and halts some for a while.
    pub(crate) fn shake(&mut self, times: usize) {
        for _ in 0..times {
            pass(100);
            let at = fastrand::usize(..self.workers.len());
            let worker = &mut self.workers[at];
            match fastrand::u8(..6) {
                0..2 => {
                    self.kill_worker(at);
                    self.kills += 1;
                    self.start_worker();
                }
                2 if worker.halted_since.is_none() => {
                    worker.process.pause();
                    worker.halted_since = Some(wall_clock());
                    self.halts += 1;
                }
                _ if worker.halted_since.is_some() => {
                    worker.process.resume();
                    worker.halted_since = None;
                }
                _ => {}
            }
        }
    }

    /// Kills all processes and starts others.
    pub(crate) fn change_crew(&mut self, crew: Crew) {
        self.crew = crew;
        while !self.workers.is_empty() {
            self.kill_worker(0);
        }
        for _ in 0..WORKERS {
            self.start_worker();
        }
    }

    /// While this is done, calls may be carried out late, or not at all.
    pub(crate) fn outage<T>(&mut self, during: impl FnOnce(&mut Self) -> T) -> T {
        let begin = wall_clock();
        let done = during(self);
        self.conditions.outages.push((begin, wall_clock()));
        done
    }

    /// Ends the scenario: kills all processes, checks that all their units return, and reads their journals.
    pub(crate) fn end(mut self) -> Ended {
        // A busy machine takes longer for as much.
        while wall_clock() < self.begun + 60_000_000
            && !Verdicts::on(&self.deals(), &self.conditions).are_telling()
        {
            self.shake(2);
        }
        while !self.workers.is_empty() {
            self.kill_worker(0);
        }
        let deals = self.deals();
        let all_free_after = self.await_freedom(&deals);
        let verdicts = Verdicts::on(&deals, &self.conditions);
        println!(
            "chaos held, {}: {} s, {} processes killed and {} halted, {} outages; all free {} ms after the last \
             was killed; {verdicts:#}",
            self.name,
            (wall_clock() - self.begun) / 1_000_000,
            self.kills,
            self.halts,
            self.conditions.outages.len(),
            all_free_after / 1_000,
        );
        Ended { verdicts }
    }

    /// Returns the deals of all processes so far.
    fn deals(&self) -> Vec<Deal> {
        let now = wall_clock();
        let workers = self.workers.iter().map(|worker| (worker.number, now));
        let read = |(number, killed)| {
            let text = fs::read_to_string(self.journal(number)).unwrap_or_default();
            deals_of(number, &text, killed)
        };
        self.gone.iter().copied().chain(workers).flat_map(read).collect()
    }

    /// Checks that no unit is created or lost. Once all possible holds have ended, a key has exactly the units of a
    /// fresh one. Returns how long that took, in µs.
    fn await_freedom(&self, deals: &[Deal]) -> u64 {
        let mut options = StoreOptions::default();
        options.prefix = self.prefix.parse().unwrap();
        options.deadline = Duration::from_secs(5);
        let store = self.url.parse::<StoreUrl>().unwrap().open(&options).unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        // A sentinel that doesn't know about the failover yet may be the first to answer a new client.
        let anybody = Limiter::new(store.clone(), HELD[0].limit(self.crew.held_for()));
        until("the store answers", || {
            let peeked = runtime.block_on(anybody.peek("nobody"));
            peeked.map(drop).map_err(|error| error.to_string())
        });
        let begun = wall_clock();
        for (rule, held) in HELD.iter().enumerate() {
            let limiter = Limiter::new(store.clone(), held.limit(self.crew.held_for()));
            for key in 0..KEYS {
                let name = subject(key);
                let of_key = deals.iter().filter(|deal| deal.rule == rule && deal.key == key);
                let latest = self.latest_end(held, of_key, begun);
                loop {
                    let sent = wall_clock();
                    let peeked = runtime.block_on(limiter.peek(&name)).unwrap();
                    if peeked.remaining() == Some(held.at_once()) {
                        break;
                    }
                    assert!(sent <= latest, "{}, {name}: not free by then: {peeked:?}", held.name);
                    pass(10);
                }
                let lasts = self.crew.held_for();
                let all = Ask::new(&name).cost(held.at_once());
                let all = runtime.block_on(limiter.check(all).hold(lasts.into())).unwrap();
                assert!(all.is_allowed(), "{}, {name}: {all:?}", held.name);
                let more = runtime.block_on(limiter.check(&name).hold(lasts.into())).unwrap();
                let since = more.taken_at().zip(all.taken_at());
                let refills = held.brings_one_within(lasts);
                let is_refilled =
                    since.is_some_and(|(more, all)| more.as_micros() - all.as_micros() >= refills);
                assert!(more.is_denied() || is_refilled, "{}, {name}: {more:?}", held.name);
            }
        }
        wall_clock() - begun
    }

    /// Returns when no unit of a key may be held or used any more.
    fn latest_end<'d>(
        &self,
        held: &Held,
        deals: impl Iterator<Item = &'d Deal>,
        begun: u64,
    ) -> u64 {
        match held.kind {
            Kind::InFlight { .. } => {
                let ends = deals.flat_map(|deal| {
                    [deal.maybe_in_flight(&self.conditions), deal.maybe_waits(&self.conditions)]
                });
                ends.flatten().map(|(_, end)| end).max().unwrap_or(begun)
            }
            // All that is charged last, on top of a full bucket; or a window.
            Kind::Used(_) => self.conditions.latest(begun) + 4_000_000,
        }
    }
}

impl Held {
    /// Returns the units of a fresh key.
    fn at_once(&self) -> u64 {
        match self.kind {
            Kind::InFlight { most, .. } => most,
            Kind::Used(promises) => promises.iter().map(|it| it.at_once()).min().unwrap(),
        }
    }

    /// Returns the minimum time until there is a unit again, in µs.
    fn brings_one_within(&self, held_for: Span) -> u64 {
        match self.kind {
            Kind::InFlight { .. } => held_for.as_micros(),
            Kind::Used(_) => 1_000_000 / 20,
        }
    }
}

/// A scenario that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) verdicts: Verdicts,
}

impl Ended {
    /// Checks that every promise was kept.
    pub(crate) fn assert_exact(&self) {
        let kinds = self.verdicts.kinds();
        assert!(kinds.is_empty(), "{:#}", self.verdicts);
        assert!(self.verdicts.are_telling(), "{:#}", self.verdicts);
    }
}
