//! Processes that send requests, and the store that decides.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::for_stores::Now;
use sluicegate_core::value::{Write, step_values};
use sluicegate_core::{
    Clock, Decision, Error, Limit, ManualClock, OpenOptions, OpenedLimit, Request, Source, Store,
    Timestamp,
};

use super::network::{Far, Letter};
use crate::embedded::next;

/// The total number of keys.
const KEYS: usize = 1_000_000;
/// The time from a process to the store, or back, in µs.
const WAY: u64 = 250;
const START: u64 = 1_700_000_000_000_000;
/// The observed keys, by their rank.
const WATCHED: [u32; 3] = [1, 10, 100];

/// The number of processes and requests.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub processes: usize,
    /// Requests of all processes together.
    pub per_second: u64,
    pub millis: u64,
    /// Units per second that each key is limited to. The burst is four times as many.
    pub rate: u64,
}

impl Plan {
    pub fn policy(self) -> String {
        format!("token_bucket {}/s burst {}", self.rate, self.burst())
    }

    const fn burst(self) -> u64 {
        4 * self.rate
    }
}

/// The result of a simulation.
#[derive(Debug)]
pub struct Outcome {
    pub requests: u64,
    pub allowed: u64,
    /// Decisions without a call of the store.
    pub local: u64,
    pub calls: u64,
    pub calls_by_process: Vec<u64>,
    /// Units of leases that were never spent.
    pub wasted: u64,
    /// Units that were admitted beyond a limit, over all observed keys.
    pub over: u64,
    pub shares: Vec<Share>,
    pub micros: u64,
}

/// The distribution of a key's admissions.
#[derive(Debug)]
pub struct Share {
    /// Rank by the frequency of its requests.
    pub rank: u32,
    /// Jain's index: 1 if all processes were admitted equally often, 1/n if one alone was.
    pub fairness: f64,
}

pub struct Fleet<L> {
    plan: Plan,
    limit: Limit,
    clock: Arc<ManualClock>,
    far: Far,
    processes: Vec<Arc<L>>,
    keys: Vec<f64>,
    values: HashMap<u32, Vec<u8>>,
    requests: VecDeque<(u64, usize, Letter)>,
    replies: VecDeque<(u64, usize, u64, Decision)>,
    waiting: HashMap<u64, Task>,
    watched: Vec<Watched>,
    /// Units granted in advance.
    granted: u64,
    /// Granted units that were spent.
    leased: u64,
    outcome: Outcome,
}

struct Task {
    process: usize,
    key: u32,
    future: Pin<Box<dyn Future<Output = Result<Decision, Error>>>>,
}

/// An ideal bucket that every admission of a key fills, in parts of a unit.
struct Watched {
    rank: u32,
    admitted: Vec<u64>,
    level: u64,
    newest: u64,
}

impl<L: OpenedLimit> Fleet<L> {
    pub fn new<S: Store<Opened = L>>(plan: Plan, stack: impl Fn(Far, Arc<dyn Clock>) -> S) -> Self {
        let limit = Limit::new("fleet", [plan.policy().as_str()]);
        let limit = limit.expect("a policy that can be parsed");
        let clock = Arc::new(ManualClock::new(time(START)));
        let far = Far::default();
        let process = |_| {
            let store = stack(far.clone(), clock.clone());
            Arc::new(store.open(limit.clone(), OpenOptions::default()))
        };
        let mut sum = 0.0;
        let keys = (1..=KEYS).map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        });
        let watched =
            |rank| Watched { rank, admitted: vec![0; plan.processes], level: 0, newest: START };
        Self {
            processes: (0..plan.processes).map(process).collect(),
            keys: keys.collect(),
            values: HashMap::new(),
            requests: VecDeque::new(),
            replies: VecDeque::new(),
            waiting: HashMap::new(),
            watched: WATCHED.map(watched).into(),
            granted: 0,
            leased: 0,
            outcome: Outcome {
                requests: 0,
                allowed: 0,
                local: 0,
                calls: 0,
                calls_by_process: vec![0; plan.processes],
                wasted: 0,
                over: 0,
                shares: Vec::new(),
                micros: plan.millis * 1_000,
            },
            plan,
            limit,
            clock,
            far,
        }
    }

    pub fn run(mut self) -> Outcome {
        let count = self.plan.per_second * self.plan.millis / 1_000;
        let mut dice = 0x9e37_79b9_7f4a_7c15;
        for request in 0..count {
            let now = START + request * 1_000_000 / self.plan.per_second;
            self.carry(now);
            let process = (next(&mut dice) % self.plan.processes as u64) as usize;
            let total = self.keys.last().copied().unwrap_or(0.0);
            let point = next(&mut dice) as f64 / u64::MAX as f64 * total;
            let key = self.keys.partition_point(|sum| *sum < point) as u32 + 1;
            self.ask(now, process, key);
        }
        self.carry(u64::MAX);
        self.finish()
    }

    fn ask(&mut self, now: u64, process: usize, key: u32) {
        self.outcome.requests += 1;
        let opened = Arc::clone(&self.processes[process]);
        let name = key.to_be_bytes();
        let future = Box::pin(async move { opened.ask(Request::check(&name)).wait().await });
        self.poll(now, Task { process, key, future });
    }

    fn poll(&mut self, now: u64, mut task: Task) {
        match task.future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => {
                let decision = answer.expect("a store that never fails");
                if decision.source() != Source::Store {
                    self.outcome.local += 1;
                }
                if decision.source() == Source::Lease {
                    self.leased += 1;
                    self.admitted(now, task.process, task.key);
                }
            }
            Poll::Pending => {
                let letter = self.far.collect().expect("who waits has sent something");
                self.outcome.calls += 1;
                self.outcome.calls_by_process[task.process] += 1;
                let process = task.process;
                self.waiting.insert(letter.number, task);
                self.requests.push_back((now + WAY, process, letter));
            }
        }
    }

    /// Delivers the requests and replies that arrive until then.
    fn carry(&mut self, until: u64) {
        loop {
            let request = self.requests.front().map_or(u64::MAX, |(at, ..)| *at);
            let reply = self.replies.front().map_or(u64::MAX, |(at, ..)| *at);
            let at = request.min(reply);
            if at > until || at == u64::MAX {
                break;
            }
            self.clock.set(time(at));
            if request <= reply {
                let (at, process, letter) = self.requests.pop_front().expect("it is there");
                let decision = self.decide(at, &letter);
                if decision.is_allowed() {
                    self.admitted(at, process, letter.key);
                }
                self.replies.push_back((at + WAY, process, letter.number, decision));
            } else {
                let (at, _, number, decision) = self.replies.pop_front().expect("it is there");
                self.far.answer(number, decision);
                let task = self.waiting.remove(&number).expect("somebody waits");
                self.poll(at, task);
            }
        }
        if until != u64::MAX {
            self.clock.set(time(until));
        }
    }

    fn decide(&mut self, now: u64, letter: &Letter) -> Decision {
        let value = self.values.get(&letter.key).map(Vec::as_slice);
        let now = Now { micros: now, max_clock_back: Some(5_000_000) };
        let (step, mut writes) =
            letter.open(|request| step_values(&self.limit, request, now, &[value])).expect("valid");
        if let Write::Set { value, .. } = writes.remove(0) {
            self.values.insert(letter.key, value);
        }
        self.granted += step.decision.lease().map_or(0, |lease| lease.times);
        step.decision
    }

    fn admitted(&mut self, at: u64, process: usize, key: u32) {
        self.outcome.allowed += 1;
        let Some(watched) = self.watched.iter_mut().find(|watched| watched.rank == key) else {
            return;
        };
        watched.admitted[process] += 1;
        // One unit takes 1,000,000 parts, and each µs drains `rate` parts.
        watched.level =
            watched.level.saturating_sub((at - watched.newest) * self.plan.rate) + 1_000_000;
        watched.newest = at;
        if watched.level > self.plan.burst() * 1_000_000 {
            watched.level -= 1_000_000;
            self.outcome.over += 1;
        }
    }

    fn finish(mut self) -> Outcome {
        self.outcome.wasted = self.granted - self.leased;
        self.outcome.shares = self.watched.iter().map(Watched::share).collect();
        self.outcome
    }
}

impl Watched {
    fn share(&self) -> Share {
        let (mut sum, mut squares) = (0.0, 0.0);
        for &admitted in &self.admitted {
            sum += admitted as f64;
            squares += (admitted as f64).powi(2);
        }
        Share { rank: self.rank, fairness: sum * sum / (squares * self.admitted.len() as f64) }
    }
}

fn time(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).expect("not after the end of time")
}
