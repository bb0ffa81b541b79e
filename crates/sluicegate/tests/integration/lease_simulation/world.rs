//! Processes, a network and a server, and their events.

use std::future::Future;
use std::ops::AddAssign;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sluicegate::layers::{LeaseOptions, Leases, LeasesLimit};
use sluicegate_conformance::schedules::Dice;
use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::{
    Cost, Costs, Decision, Error, Limit, ManualClock, OpenOptions, OpenedLimit, Operation, Request,
    Source, Span, Store, Timestamp,
};

use crate::lease_simulation::auditor::Trace;
use crate::lease_simulation::network::{FarLimit, Letter, Network, timed_out};
use crate::lease_simulation::server::{Fault, Server};

/// The number of events of each kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) local: u64,
    pub(crate) exact: u64,
    pub(crate) granted: u64,
    pub(crate) returned: u64,
    pub(crate) lost: u64,
    pub(crate) crashes: u64,
    pub(crate) stepped: u64,
    /// Answers that arrived after their lease had expired.
    pub(crate) late: u64,
}

pub(crate) struct World {
    dice: Dice,
    /// The true time, in µs.
    now: u64,
    /// Offset of the server's clock from the true time.
    ahead: i64,
    limit: Limit,
    leases: LeaseOptions,
    server: Server,
    network: Network,
    processes: Vec<Process>,
    tasks: Vec<Task>,
    /// Requests without a decision yet, with their true time.
    requests: Vec<(u64, Letter)>,
    /// Decided, and not arrived yet.
    replies: Vec<(u64, u64, Result<Decision, Error>)>,
    trace: Trace,
    pub(crate) counts: Counts,
    may_step: bool,
}

struct Process {
    clock: Arc<ManualClock>,
    /// Offset of its clock from the true time.
    ahead: u64,
    store: Leases<Network>,
    opened: Arc<LeasesLimit<FarLimit>>,
    /// Distinguishes this process from earlier ones in its place.
    number: u64,
}

struct Task {
    process: u64,
    number: Option<u64>,
    key: Vec<u8>,
    costs: Vec<u64>,
    operation: Operation<'static>,
    future: Pin<Box<dyn Future<Output = Result<Decision, Error>>>>,
}

const LIMITS: [&[&str]; 8] = [
    &["token_bucket 100/s burst 40"],
    &["token_bucket 30/s burst 200"],
    &["gcra 1000/s burst 50"],
    &["fixed_window 100/s"],
    &["fixed_window 60/s aligned"],
    &["token_bucket 50/s burst 100", "fixed_window 300/min"],
    &["gcra 7/s burst 64 cost 2", "token_bucket 300/min burst 90"],
    &["token_bucket 0/s burst 90"],
];
const START: u64 = 1_700_000_000_000_000;

impl World {
    pub(crate) fn new(seed: u64, scripts: bool, fault: Option<Fault>) -> Self {
        let mut dice = Dice::new(seed);
        let specs = dice.pick(&LIMITS);
        let limit = Limit::new("simulated", specs).unwrap();
        let lasts = Duration::from_millis(dice.pick(&[5, 50, 200, 1_000, 3_000]));
        let leases = LeaseOptions { most: dice.pick(&[4, 7, 20, 1_000]), lasts };
        let server = if scripts { Server::scripts(&limit) } else { Server::kernels(&limit, fault) };
        let mut world = Self {
            ahead: dice.pick(&[0, 0, 5_000_000_000, -3_000_000_000]),
            may_step: fault.is_none() && dice.one_in(3),
            dice,
            now: START,
            limit,
            leases,
            server,
            network: Network::default(),
            processes: Vec::new(),
            tasks: Vec::new(),
            requests: Vec::new(),
            replies: Vec::new(),
            trace: Trace::default(),
            counts: Counts::default(),
        };
        for _ in 0..world.dice.between(1, 3) {
            let process = world.process();
            world.processes.push(process);
        }
        world
    }

    pub(crate) fn run(&mut self) {
        for _ in 0..300 {
            self.pass_time();
            match self.dice.below(24) {
                0..7 => {
                    for _ in 0..self.dice.pick(&[1, 1, 3, 10, 40]) {
                        self.ask();
                    }
                }
                7..14 => (0..self.dice.between(1, 6)).for_each(|_| self.deliver_request()),
                14..21 => (0..self.dice.between(1, 6)).for_each(|_| self.deliver_reply()),
                21 => self.lose(),
                22 if self.dice.one_in(6) => self.crash(),
                23 if self.dice.one_in(6) => self.step_clock(),
                _ => self.ask(),
            }
        }
        for process in &self.processes {
            let stats = process.store.lease_stats();
            self.counts.granted += stats.granted;
            self.counts.returned += stats.returned;
        }
    }

    pub(crate) fn audit(&self) -> Result<(), String> {
        let ahead = Some(self.ahead).filter(|_| !self.may_step);
        self.trace.audit(&self.limit, &self.server.windows, ahead)
    }

    pub(crate) fn about(&self) -> String {
        format!("{:?} {:?} {:#?} {:#?}", self.limit, self.leases, self.counts, self.trace)
    }

    fn process(&mut self) -> Process {
        let ahead = self.dice.below(1_000_000_000_000);
        let clock = Arc::new(ManualClock::new(timestamp(self.now + ahead)));
        let store = Leases::builder(self.network.clone())
            .by_default(Some(self.leases))
            .clock(clock.clone())
            .build();
        let opened = Arc::new(store.open(self.limit.clone(), OpenOptions::default()));
        Process { clock, ahead, store, opened, number: self.dice.next() }
    }

    fn pass_time(&mut self) {
        let life = Span::from(self.leases.lasts).as_micros();
        self.now += match self.dice.below(20) {
            0..10 => 0,
            10..16 => self.dice.below(1_000),
            16..19 => self.dice.below(life / 30),
            19 if self.dice.one_in(3) => self.dice.below(life),
            _ if self.dice.one_in(5) => self.dice.below(4 * life + 1_000_000),
            _ => self.dice.below(life / 3),
        };
        for process in &self.processes {
            process.clock.set(timestamp(self.now + process.ahead));
        }
    }

    fn ask(&mut self) {
        let process = &self.processes[self.dice.below_len(self.processes.len())];
        let key = self.dice.pick(&[&b"a"[..], b"a", b"a", b"b"]);
        let operation = match self.dice.below(20) {
            0 => Operation::Take,
            1 if self.limit.can_reserve() => Operation::Reserve { within: Span::ZERO },
            _ => Operation::Check,
        };
        let own: Vec<u64> =
            self.limit.members().iter().map(|member| member.policy().cost().get()).collect();
        let several = self.dice.one_in(8).then(|| self.dice.between(2, 30));
        let costs = match several {
            Some(cost) => vec![cost; own.len()],
            None => own,
        };
        let opened = Arc::clone(&process.opened);
        let future = Box::pin(async move {
            let request = Request::new(operation, key);
            let request = match several {
                Some(cost) => request.costs(Costs::Same(Cost::new(cost).unwrap())),
                None => request,
            };
            opened.ask(request).wait().await
        });
        let key = key.to_vec();
        let task = Task { process: process.number, number: None, key, costs, operation, future };
        self.tasks.push(task);
        self.poll(self.tasks.len() - 1);
    }

    /// Polls a task, takes what it sent, and its answer.
    fn poll(&mut self, index: usize) {
        let task = &mut self.tasks[index];
        let polled = task.future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        for letter in self.network.collect() {
            self.tasks[index].number = Some(letter.number);
            self.requests.push((self.now, letter));
        }
        if let Poll::Ready(answer) = polled {
            let task = self.tasks.swap_remove(index);
            if let Ok(decision) = answer
                && decision.source() == Source::Lease
            {
                assert!(decision.is_allowed() && task.operation == Operation::Check);
                self.trace.spend(&task.key, self.now, &task.costs);
                self.counts.local += 1;
            }
        }
    }

    fn deliver_request(&mut self) {
        if self.requests.is_empty() {
            return;
        }
        // Mostly in order.
        let index = if self.dice.one_in(4) { self.dice.below_len(self.requests.len()) } else { 0 };
        let (asked, letter) = self.requests.remove(index);
        let server_now = self.now.checked_add_signed(self.ahead).unwrap();
        let answer = self.server.decide(server_now, &letter);
        if let Ok(decision) = &answer
            && decision.is_allowed()
        {
            let costs: Vec<u64> = match letter.operation {
                Operation::Take => letter.costs.iter().map(|_| decision.granted()).collect(),
                _ => letter.costs.clone(),
            };
            self.trace.spend(&letter.key, self.now, &costs);
            self.counts.exact += 1;
        }
        self.replies.push((asked, letter.number, answer));
    }

    fn deliver_reply(&mut self) {
        if self.replies.is_empty() {
            return;
        }
        let index = if self.dice.one_in(4) { self.dice.below_len(self.replies.len()) } else { 0 };
        let (asked, number, answer) = self.replies.remove(index);
        let answer = answer.map(|decision| {
            let late = self.now - asked;
            let is_over = decision.lease().is_some_and(|lease| lease.left.as_micros() <= late);
            self.counts.late += u64::from(is_over);
            self.server.arrives(decision, late)
        });
        self.finish(number, answer);
    }

    /// Abandons a call; its request may still arrive.
    fn lose(&mut self) {
        self.counts.lost += 1;
        if self.dice.one_in(2) && !self.replies.is_empty() {
            let (_, number, _) = self.replies.swap_remove(self.dice.below_len(self.replies.len()));
            self.finish(number, Err(timed_out()));
        } else if !self.requests.is_empty() {
            let index = self.dice.below_len(self.requests.len());
            let number = self.requests[index].1.number;
            if self.dice.one_in(2) {
                self.requests.remove(index);
            }
            if self.dice.one_in(2) {
                self.finish(number, Err(timed_out()));
            } else {
                self.tasks.retain(|task| task.number != Some(number));
            }
        }
    }

    fn finish(&mut self, number: u64, answer: Result<Decision, Error>) {
        if let Some(index) = self.tasks.iter().position(|task| task.number == Some(number)) {
            self.network.answer(number, answer);
            self.poll(index);
        }
    }

    fn crash(&mut self) {
        self.counts.crashes += 1;
        let index = self.dice.below_len(self.processes.len());
        let number = self.processes[index].number;
        self.tasks.retain(|task| task.process != number);
        self.processes[index] = self.process();
    }

    /// Sets the server's clock back.
    fn step_clock(&mut self) {
        if self.may_step {
            self.counts.stepped += 1;
            self.ahead -= self.dice.pick(&[1, 1_000, 300_000, 3_000_000, 20_000_000]);
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        let Self { local, exact, granted, returned, lost, crashes, stepped, late } = other;
        self.local += local;
        self.exact += exact;
        self.granted += granted;
        self.returned += returned;
        self.lost += lost;
        self.crashes += crashes;
        self.stepped += stepped;
        self.late += late;
    }
}

fn timestamp(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}
