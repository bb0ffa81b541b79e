//! A fleet of Envoys and replicas of the service in simulated time.
//!
//! The service is the real one, over the embedded store with a driven clock. Messages take their time, streams end,
//! replicas crash and forget everything, and other callers take units from the same limit.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use sluicegate::testing::{ManualClock, Timestamp};
use sluicegate::{Config, MemoryStore, Registry};
use sluicegate_conformance::schedules::Dice;
use sluicegate_envoy::service::protos::{RateLimitQuotaResponse, RateLimitQuotaUsageReports};

use crate::auditor::Auditor;
use crate::faults::{Fault, Faulty};
use crate::proxy::{Proxy, TICK};
use crate::replica::{Replica, Stream};

pub(crate) const SECOND: u64 = 1_000_000;
/// The time between two looks at the requests, in µs.
const STEP: u64 = 100_000;
const START: u64 = 1_764_000_000_000_000;
/// The numbers of a simulation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) rate: u64,
    pub(crate) burst: u64,
    pub(crate) proxies: usize,
    pub(crate) replicas: usize,
    /// The demand of all, in percent of the limit.
    pub(crate) demand: u64,
    /// Seconds between two moves of the demand; 0 for none.
    pub(crate) moves: u64,
    /// The number of ticks of a proxy, of 1,000, in which its stream ends.
    pub(crate) cuts: u64,
    /// The number of seconds of a replica, of 1,000, in which it crashes.
    pub(crate) crashes: u64,
    /// The longest time of a message, in µs. The service closes a stream with an answer that takes more than 1 s.
    pub(crate) delay: u64,
    /// Units a second that other callers ask for.
    pub(crate) others: u64,
    pub(crate) fault: Option<Fault>,
}

/// A fleet at an instant.
pub(crate) struct Fleet {
    terms: Terms,
    dice: Dice,
    clock: Arc<ManualClock>,
    store: MemoryStore,
    registry: Registry,
    pub(crate) now: u64,
    proxies: Vec<Member>,
    replicas: Vec<Replica>,
    messages: BinaryHeap<Reverse<Message>>,
    number: u64,
    pub(crate) auditor: Auditor,
    /// Messages that arrived at proxies.
    pub(crate) answers: u64,
    moved_at: u64,
}

struct Member {
    proxy: Proxy,
    /// The stream, its replica, and its number, which no other stream has.
    stream: Option<(usize, Stream, u64)>,
    opens_at: u64,
    /// When the latest report and the latest answer arrive.
    last: [u64; 2],
    /// Requests in 1,000,000 s.
    demand: u64,
    /// A part of a request that has not come yet, in millionths.
    part: u64,
}

#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Message {
    at: u64,
    number: u64,
    proxy: usize,
    stream: u64,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Report(RateLimitQuotaUsageReports),
    Answer(RateLimitQuotaResponse),
}

// Messages are in the order of their times and numbers, which differ.
impl PartialEq for Content {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Content {}

impl PartialOrd for Content {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Content {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl Fleet {
    pub(crate) fn new(terms: Terms, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let clock = Arc::new(ManualClock::new(Timestamp::from_micros_clamped(START)));
        let store = MemoryStore::builder().clock(Arc::clone(&clock)).build();
        let registry = registry(terms, store.clone());
        let replicas = (0..terms.replicas).map(|_| Replica::new(&registry, &clock)).collect();
        let proxies = (0..terms.proxies)
            .map(|_| {
                let first_tick = START + dice.below(TICK);
                let proxy = Proxy::new(&[("name", "all")], first_tick);
                Member { proxy, stream: None, opens_at: START, last: [0; 2], demand: 0, part: 0 }
            })
            .collect();
        let auditor = Auditor::new(terms.rate, terms.burst);
        let mut fleet = Self {
            terms,
            dice,
            clock,
            store,
            registry,
            now: START,
            proxies,
            replicas,
            messages: BinaryHeap::new(),
            number: 0,
            auditor,
            answers: 0,
            moved_at: START,
        };
        fleet.move_demand();
        fleet
    }

    /// Lets some seconds pass.
    pub(crate) fn run(&mut self, seconds: u64) {
        let end = self.now + seconds * SECOND;
        while self.now < end {
            self.step();
        }
    }

    /// Returns the longest time in µs for which a proxy with demand had nothing.
    pub(crate) fn longest_wait(&self) -> u64 {
        self.proxies.iter().map(|member| member.proxy.longest_wait).max().unwrap_or(0)
    }

    fn step(&mut self) {
        let then = self.now + STEP;
        self.deliver(then);
        self.advance(then);
        if self.terms.moves > 0 && self.now - self.moved_at >= self.terms.moves * SECOND {
            self.move_demand();
        }
        self.crash();
        self.ask_others();
        for index in 0..self.proxies.len() {
            self.act(index);
        }
    }

    /// Gives each proxy another demand: some are busy, some have little and some nothing.
    pub(crate) fn move_demand(&mut self) {
        self.moved_at = self.now;
        let weight = |dice: &mut Dice| match dice.below(10) {
            0..3 => 0,
            3..7 => 1 + dice.below(10),
            _ => 10 + dice.below(90),
        };
        let weights: Vec<u64> = self.proxies.iter().map(|_| weight(&mut self.dice)).collect();
        let all = weights.iter().sum::<u64>().max(1);
        let demand = self.terms.rate * self.terms.demand * SECOND / 100;
        for (member, weight) in self.proxies.iter_mut().zip(weights) {
            member.demand = demand * weight / all;
        }
    }

    /// Gives one proxy its requests, and lets it report and open its stream again.
    fn act(&mut self, index: usize) {
        let now = self.now;
        let member = &mut self.proxies[index];
        if let Some((_, stream, _)) = &mut member.stream
            && let Some(answer) = stream.expire(now)
        {
            self.send(index, Content::Answer(answer));
        }
        let member = &mut self.proxies[index];
        member.part += member.demand * STEP / SECOND;
        let requests = member.part / SECOND;
        member.part %= SECOND;
        let (admitted, first) = member.proxy.ask(now, requests);
        self.auditor.admit(now, admitted);
        let periodic = member.proxy.tick(now);
        if periodic.is_some() || first.is_some() {
            if self.dice.below(1_000) < self.terms.cuts {
                self.proxies[index].stream = None;
                self.proxies[index].opens_at = now + TICK;
            } else if self.proxies[index].stream.is_none() && now >= self.proxies[index].opens_at {
                let replica = self.dice.below_len(self.replicas.len());
                self.number += 1;
                let stream = self.replicas[replica].open();
                self.proxies[index].stream = Some((replica, stream, self.number));
            }
        }
        for report in first.into_iter().chain(periodic) {
            self.send(index, Content::Report(report));
        }
    }

    /// Sends a message over the stream of a proxy, or loses it.
    fn send(&mut self, proxy: usize, content: Content) {
        let member = &mut self.proxies[proxy];
        let Some((_, _, stream)) = member.stream else { return };
        // A stream keeps the order of its messages.
        let last = &mut member.last[usize::from(matches!(content, Content::Answer(_)))];
        let at = (self.now + 1 + self.dice.below(self.terms.delay.max(1))).max(*last);
        *last = at;
        self.number += 1;
        let number = self.number;
        self.messages.push(Reverse(Message { at, number, proxy, stream, content }));
    }

    /// Delivers the messages until a time, each at its own.
    fn deliver(&mut self, until: u64) {
        while self.messages.peek().is_some_and(|next| next.0.at <= until) {
            let Some(Reverse(Message { at, proxy, stream, content, .. })) = self.messages.pop()
            else {
                return;
            };
            self.advance(at);
            let Some((_, of_replica, number)) = &mut self.proxies[proxy].stream else { continue };
            if *number != stream {
                continue;
            }
            match content {
                Content::Report(report) => {
                    for answer in of_replica.report(report) {
                        self.send(proxy, Content::Answer(answer));
                    }
                }
                Content::Answer(answer) => {
                    self.answers += 1;
                    self.proxies[proxy].proxy.receive(at, &answer);
                }
            }
        }
    }

    fn advance(&mut self, to: u64) {
        self.clock.advance(Duration::from_micros(to - self.now));
        self.now = to;
    }

    /// Lets replicas crash. Their successors know nothing, and their proxies notice immediately.
    fn crash(&mut self) {
        for replica in 0..self.replicas.len() {
            if self.dice.below(1_000_000) < self.terms.crashes * (STEP * 1_000 / SECOND) {
                if self.terms.fault == Some(Fault::Forgotten) {
                    self.store = MemoryStore::builder().clock(Arc::clone(&self.clock)).build();
                    self.registry = registry(self.terms, self.store.clone());
                }
                self.replicas[replica] = Replica::new(&self.registry, &self.clock);
                for member in &mut self.proxies {
                    if member.stream.as_ref().is_some_and(|(of, ..)| *of == replica) {
                        (member.stream, member.opens_at) = (None, self.now);
                    }
                }
            }
        }
    }

    /// Lets other callers take units of the limit.
    fn ask_others(&mut self) {
        let units = self.terms.others * STEP / SECOND;
        if units > 0 && self.dice.below(2) == 0 {
            let gate = self.registry.gate("fleet");
            let most = 1 + self.dice.below(2 * units);
            let taken = gate.take("all").cost(most).now().unwrap().granted();
            self.auditor.admit(self.now, taken);
        }
    }
}

/// Returns the registry of a replica, with the limit.
fn registry(terms: Terms, store: MemoryStore) -> Registry {
    let Terms { rate, burst, fault, .. } = terms;
    let file = format!(
        "limits: {{fleet: {{policies: [token_bucket {rate}/s burst {burst}]}}}}
envoy: {{domains: {{edge: [{{match: {{name: all}}, limit: fleet, key: all}}]}}}}"
    );
    let config = Config::parse(&file, "limits.yaml").unwrap();
    Registry::builder(Faulty { store, fault }).config(&config).build()
}
