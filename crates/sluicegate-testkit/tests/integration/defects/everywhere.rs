//! One limit in every store: a schedule is written once, and all stores must agree on its answers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use sluicegate_conformance::kernels::Kernels;
use sluicegate_conformance::reference::Clock;
use sluicegate_core::{
    Cost, Costs, Decision, Error, KeyPrefix, Limit, ManualClock, OpenOptions, OpenedLimit,
    Operation, Policy, Request, RequestErrorKind, Span, Store as _, TimeSource, Timestamp,
};
use sluicegate_memory::{MemoryLimit, MemoryStore};
use sluicegate_redis::{RedisLimit, RedisStore};
use sluicegate_testkit::servers;
use sluicegate_testkit::swap_store::{SwapLimit, SwapStore, Table};
use tokio::runtime::Runtime;

use crate::scripted::{MAX_CLOCK_BACK, Scripted};

/// Lengths of time in µs.
pub(crate) const MS: u64 = 1_000;
pub(crate) const S: u64 = 1_000 * MS;
pub(crate) const MIN: u64 = 60 * S;
pub(crate) const HOUR: u64 = 60 * MIN;
pub(crate) const DAY: u64 = 24 * HOUR;

/// The origin of all times of the schedules: midnight, so that every window is aligned to it.
pub(crate) const START: u64 = 1_699_920_000 * S;
/// Maximum number of requests in flight to a server. They are answered in the order of their
/// sending.
const PIPELINE: usize = 64;

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    at: u64,
    key: Vec<u8>,
    node: usize,
    operation: Operation<'static>,
    costs: Option<Vec<u64>>,
}

/// Returns a check of one unit at `at` µs after [`START`].
pub(crate) fn at(at: u64) -> Ask {
    Ask { at, key: b"alice".to_vec(), node: 0, operation: Operation::Check, costs: None }
}

impl Ask {
    pub(crate) fn cost(self, units: u64) -> Self {
        Self { costs: Some(vec![units]), ..self }
    }

    /// Sets one cost per policy.
    pub(crate) fn costs(self, units: &[u64]) -> Self {
        Self { costs: Some(units.to_vec()), ..self }
    }

    pub(crate) fn key(self, key: impl Into<Vec<u8>>) -> Self {
        Self { key: key.into(), ..self }
    }

    /// Sets the process that sends it; the default is the first one.
    pub(crate) fn node(self, node: usize) -> Self {
        Self { node, ..self }
    }

    pub(crate) fn to(self, operation: Operation<'static>) -> Self {
        Self { operation, ..self }
    }

    pub(crate) fn peek(self) -> Self {
        self.to(Operation::Peek)
    }

    pub(crate) fn refund(self) -> Self {
        self.to(Operation::Refund)
    }

    pub(crate) fn take(self, units: u64) -> Self {
        self.to(Operation::Take).cost(units)
    }

    pub(crate) fn reserve(self, within: u64) -> Self {
        self.to(Operation::Reserve { within: Span::from_micros(within).unwrap() })
    }

    fn each(&self, policies: usize) -> Vec<u64> {
        match self.costs.as_deref() {
            Some(&[one]) => vec![one; policies],
            Some(each) => each.to_vec(),
            None => Vec::new(),
        }
    }
}

/// One limit in several stores.
pub(crate) struct Everywhere {
    policies: usize,
    stores: Vec<OneStore>,
}

enum OneStore {
    Kernels(Box<Kernels>),
    Memory { store: MemoryStore, clock: Option<Arc<ManualClock>>, nodes: Vec<MemoryLimit> },
    Scripts(Box<Scripted>),
    Server { name: String, runtime: Runtime, nodes: Vec<(RedisStore, RedisLimit)> },
    Swap { runtime: Runtime, store: SwapStore, opened: SwapLimit },
}

/// Returns the options for the run of all schedules under injected time.
fn injected() -> OpenOptions {
    OpenOptions::default().time(TimeSource::Injected { run: "defects".to_owned() })
}

impl Everywhere {
    /// Opens the limit in every store under the schedule's time.
    ///
    /// The stores are the kernels, the embedded store, a store that swaps, the scripts in an
    /// interpreter and every available server.
    pub(crate) fn new(specs: &[&str]) -> Self {
        Self::of_nodes(specs, 1)
    }

    /// Opens the limit for several processes that share the stores, with a connection or handle
    /// each.
    pub(crate) fn of_nodes(specs: &[&str], nodes: usize) -> Self {
        let mut all = Self::embedded(specs);
        all.stores[1].add_nodes(specs, nodes - 1);
        let table = Table::with_conflicts(ManualClock::default(), 3);
        let store = SwapStore::new(table, ManualClock::default());
        let opened = store.open(limit(specs), injected());
        all.stores.push(OneStore::Swap { runtime: runtime(), store, opened });
        all.stores
            .push(OneStore::Scripts(Box::new(Scripted::new(policies(specs), Clock::Injected))));
        for server in servers::shared_each().unwrap() {
            let prefix: KeyPrefix = servers::fresh_prefix("all").parse().unwrap();
            let runtime = runtime();
            let open = |_| {
                let store = RedisStore::builder(&server.url()).unwrap().prefix(prefix.clone());
                let store = store.deadline(Duration::from_secs(30)).build();
                let opened = store.open(limit(specs), injected());
                learn_script(&runtime, &opened);
                (store, opened)
            };
            let nodes = (0..nodes).map(open).collect();
            let name = server.binary().to_string();
            all.stores.push(OneStore::Server { name, runtime, nodes });
        }
        all
    }

    /// Opens the limit in the kernels and the embedded store only, for schedules of millions of
    /// requests. Their first part is tested on all stores.
    pub(crate) fn embedded(specs: &[&str]) -> Self {
        let store = MemoryStore::new();
        let nodes = vec![store.open(limit(specs), injected())];
        Self {
            policies: specs.len(),
            stores: vec![
                OneStore::Kernels(Box::new(Kernels::new(policies(specs), Clock::Injected))),
                OneStore::Memory { store, clock: None, nodes },
            ],
        }
    }

    /// Opens the limit under the stores' own clock, which the schedule drives and may set back.
    /// Keys of the scripts expire by it, so a TTL that is too short shows as a different answer.
    pub(crate) fn own_clock(specs: &[&str]) -> Self {
        let clock = Arc::new(ManualClock::default());
        let store = MemoryStore::builder()
            .clock(Arc::clone(&clock))
            .max_clock_back(Duration::from_micros(MAX_CLOCK_BACK))
            .build();
        let nodes = vec![store.open(limit(specs), OpenOptions::default())];
        let own = Clock::Own { max_clock_back_us: MAX_CLOCK_BACK };
        Self {
            policies: specs.len(),
            stores: vec![
                OneStore::Kernels(Box::new(Kernels::new(policies(specs), own))),
                OneStore::Memory { store, clock: Some(clock), nodes },
                OneStore::Scripts(Box::new(Scripted::new(policies(specs), own))),
            ],
        }
    }

    /// Replaces the policies and keeps the states, as a deployment does.
    pub(crate) fn set_policies(&mut self, specs: &[&str]) {
        self.policies = specs.len();
        for store in &mut self.stores {
            match store {
                OneStore::Kernels(kernels) => kernels.set_policies(policies(specs)),
                OneStore::Scripts(scripts) => scripts.set_policies(policies(specs)),
                OneStore::Swap { store, opened, .. } => {
                    *opened = store.open(limit(specs), injected());
                }
                OneStore::Memory { .. } | OneStore::Server { .. } => {
                    let count = store.nodes();
                    store.add_nodes(specs, count);
                    match store {
                        OneStore::Memory { nodes, .. } => drop(nodes.drain(..count)),
                        OneStore::Server { nodes, .. } => drop(nodes.drain(..count)),
                        _ => {}
                    }
                }
            }
        }
    }

    /// Returns the answer of all stores, which may be an error.
    ///
    /// # Panics
    /// Panics if they don't agree.
    pub(crate) fn try_ask(&mut self, ask: Ask) -> Result<Decision, RequestErrorKind> {
        self.ask_all(&[ask]).remove(0)
    }

    pub(crate) fn ask(&mut self, ask: Ask) -> Decision {
        self.try_ask(ask).unwrap()
    }

    /// Returns the remaining units at a time.
    pub(crate) fn remaining(&mut self, at_us: u64) -> u64 {
        self.ask(at(at_us).peek()).remaining().unwrap()
    }

    /// Sends requests in order, and returns the answers that all stores agree on.
    pub(crate) fn ask_all(&mut self, asks: &[Ask]) -> Vec<Result<Decision, RequestErrorKind>> {
        let mut agreed: Option<Vec<Result<Decision, RequestErrorKind>>> = None;
        for store in &mut self.stores {
            let answers = store.ask_all(asks, self.policies);
            let Some(agreed) = &agreed else {
                agreed = Some(answers);
                continue;
            };
            for ((ask, expected), answer) in asks.iter().zip(agreed).zip(&answers) {
                assert_eq!(expected, answer, "{} disagrees about {ask:?}", store.name());
            }
        }
        agreed.unwrap()
    }

    /// Returns the number of allowed requests.
    pub(crate) fn allowed(&mut self, asks: impl IntoIterator<Item = Ask>) -> u64 {
        self.allowed_at(asks).len() as u64
    }

    /// Returns the times of the allowed requests.
    pub(crate) fn allowed_at(&mut self, asks: impl IntoIterator<Item = Ask>) -> Vec<u64> {
        let asks: Vec<Ask> = asks.into_iter().collect();
        let answers = self.ask_all(&asks);
        let allowed =
            asks.iter().zip(answers).filter(|(_, answer)| answer.as_ref().unwrap().is_allowed());
        allowed.map(|(ask, _)| ask.at).collect()
    }
}

impl OneStore {
    fn name(&self) -> &str {
        match self {
            Self::Kernels(_) => "the kernels",
            Self::Memory { .. } => "the embedded store",
            Self::Scripts(_) => "the scripts",
            Self::Server { name, .. } => name,
            Self::Swap { .. } => "the swap store",
        }
    }

    fn nodes(&self) -> usize {
        match self {
            Self::Memory { nodes, .. } => nodes.len(),
            Self::Server { nodes, .. } => nodes.len(),
            Self::Kernels(_) | Self::Scripts(_) | Self::Swap { .. } => 1,
        }
    }

    fn add_nodes(&mut self, specs: &[&str], count: usize) {
        for index in 0..count {
            match self {
                Self::Memory { store, clock, nodes } => {
                    let options = if clock.is_some() { OpenOptions::default() } else { injected() };
                    nodes.push(store.open(limit(specs), options));
                }
                Self::Server { runtime, nodes, .. } => {
                    let store = nodes[index].0.clone();
                    let opened = store.open(limit(specs), injected());
                    learn_script(runtime, &opened);
                    nodes.push((store, opened));
                }
                Self::Kernels(_) | Self::Scripts(_) | Self::Swap { .. } => {}
            }
        }
    }

    fn ask_all(
        &mut self,
        asks: &[Ask],
        policies: usize,
    ) -> Vec<Result<Decision, RequestErrorKind>> {
        match self {
            Self::Kernels(kernels) => {
                let each = asks.iter().map(|ask| {
                    let costs = ask.each(policies);
                    kernels.decide(START + ask.at, &ask.key, ask.operation, costs_of(&costs))
                });
                each.map(kind).collect()
            }
            Self::Scripts(scripts) => {
                let each = asks.iter().map(|ask| {
                    let costs = ask.each(policies);
                    scripts.decide(START + ask.at, &ask.key, ask.operation, costs_of(&costs))
                });
                each.map(kind).collect()
            }
            Self::Memory { clock, nodes, .. } => {
                let each = asks.iter().map(|ask| {
                    let opened = &nodes[ask.node.min(nodes.len() - 1)];
                    let costs = ask.each(policies);
                    let mut request = request(ask, &costs);
                    if let Some(clock) = clock {
                        clock.set(request.time().unwrap());
                        request = request.at(None);
                    }
                    opened.decide(request)
                });
                each.map(kind).collect()
            }
            Self::Swap { runtime, opened, .. } => {
                let each = asks.iter().map(|ask| {
                    let costs = ask.each(policies);
                    runtime.block_on(opened.ask(request(ask, &costs)).wait())
                });
                each.map(kind).collect()
            }
            Self::Server { runtime, nodes, .. } => {
                let mut answers = Vec::with_capacity(asks.len());
                for same_node in asks.chunk_by(|a, b| a.node == b.node) {
                    for some in same_node.chunks(PIPELINE) {
                        let (_, opened) = &nodes[some[0].node];
                        answers.extend(runtime.block_on(decide_in_order(opened, some, policies)));
                    }
                }
                answers.into_iter().map(kind).collect()
            }
        }
    }
}

/// Loads the script into the server. If the script had to be sent again, it would arrive after
/// later requests.
fn learn_script(runtime: &Runtime, opened: &RedisLimit) {
    let peek = at(0).peek();
    let _ = runtime.block_on(opened.ask(request(&peek, &[])).wait()).unwrap();
}

async fn decide_in_order(
    opened: &RedisLimit,
    asks: &[Ask],
    policies: usize,
) -> Vec<Result<Decision, Error>> {
    let costs: Vec<Vec<u64>> = asks.iter().map(|ask| ask.each(policies)).collect();
    let decisions =
        asks.iter().zip(&costs).map(|(ask, costs)| opened.ask(request(ask, costs)).wait());
    in_order(decisions).await
}

/// Polls futures in their order, so that their requests are sent in this order.
async fn in_order<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<Pin<Box<F>>> = futures.map(Box::pin).collect();
    let mut answers: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        let waiting = futures.iter_mut().zip(&mut answers).filter(|(_, answer)| answer.is_none());
        for (future, answer) in waiting {
            if let Poll::Ready(ready) = future.as_mut().poll(context) {
                *answer = Some(ready);
            }
        }
        if answers.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    answers.into_iter().flatten().collect()
}

fn request<'a>(ask: &'a Ask, costs: &'a [u64]) -> Request<'a> {
    let at = Timestamp::from_micros(START + ask.at).unwrap();
    Request::new(ask.operation, &ask.key).costs(costs_of(costs)).at(at)
}

fn costs_of(each: &[u64]) -> Costs<'_> {
    match each {
        [] => Costs::Own,
        [first, rest @ ..] if *first > 0 && rest.iter().all(|cost| cost == first) => {
            Cost::new(*first).map_or(Costs::Each(each), Costs::Same)
        }
        _ => Costs::Each(each),
    }
}

/// Returns the kind of an error. A store must not fail here.
fn kind(answer: Result<Decision, Error>) -> Result<Decision, RequestErrorKind> {
    answer.map_err(|error| match error {
        Error::Request(error) => error.kind(),
        error => panic!("{error}"),
    })
}

pub(crate) fn policies(specs: &[&str]) -> Vec<Policy> {
    specs.iter().map(|spec| spec.parse().unwrap()).collect()
}

pub(crate) fn limit(specs: &[&str]) -> Limit {
    Limit::new("test", policies(specs)).unwrap()
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Returns checks at the instants `from`, `from + step` … before `end`.
pub(crate) fn every(step: u64, from: u64, end: u64) -> impl Iterator<Item = Ask> + Clone {
    (0..(end - from).div_ceil(step)).map(move |index| at(from + index * step))
}

/// Returns `count` checks at one instant.
pub(crate) fn times(count: usize, at_us: u64) -> impl Iterator<Item = Ask> + Clone {
    (0..count).map(move |_| at(at_us))
}

/// Returns the retry-after in µs; `None` means never.
///
/// # Panics
/// Panics if the request was not refused.
pub(crate) fn retry(decision: &Decision) -> Option<u64> {
    assert!(decision.is_denied(), "{decision:?}");
    match decision.retry_after() {
        sluicegate_core::RetryAfter::After(span) => Some(Span::from(span).as_micros()),
        _ => None,
    }
}

/// Returns the maximum number of these instants in any window `(t − length, t]`.
pub(crate) fn most_within(length: u64, instants: &[u64]) -> usize {
    let within =
        |&last: &u64| instants.iter().filter(|&&at| at <= last && at + length > last).count();
    instants.iter().map(within).max().unwrap_or(0)
}

/// One of every kind of policy.
pub(crate) const KINDS: [&str; 14] = [
    "token_bucket 10/s burst 10",
    "gcra 10/s burst 10",
    "leaky_bucket 10/s capacity 10",
    "shaper 10/s queue 9",
    "smooth 10/s burst 1s start full",
    "smooth 10/s burst 1s",
    "warmup 10/s over 10s",
    "fixed_window 10/s",
    "fixed_window 10/s aligned",
    "fixed_window 10/d calendar Europe/Berlin",
    "sliding_window 10/s slices 10",
    "sliding_window 10/s slices 100",
    "sliding_counter 10/s",
    "sliding_log 10/s and 20/min",
];

/// Returns the policies that admit exactly ten units at one instant.
pub(crate) fn kinds_of_ten() -> impl Iterator<Item = &'static str> {
    KINDS.into_iter().filter(|spec| !spec.starts_with("smooth") && !spec.starts_with("warmup"))
}

/// Returns the policy so slow that no units return, and hardly ever a window ends, during a test on
/// a server's clock.
pub(crate) fn slow(spec: &str) -> String {
    spec.replace("10/s", "10/w")
        .replace("1s", "1w")
        .replace("10s", "10w")
        .replace("20/min", "20/2w")
}
