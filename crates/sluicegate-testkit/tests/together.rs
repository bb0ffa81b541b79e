//! Several limits decided together, each about a subject of its own, and reservations that are
//! given back: every store against the bare kernels, on random schedules.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{
    Costs, Decision, KeyPrefix, Limit, Operation, Request, Source, Span, Store, StoreError,
    StoreErrorKind, TimeSource, Timestamp,
};
use sluicegate_memory::MemoryStore;
use sluicegate_redis::RedisStore;
use sluicegate_testkit::kernels::Kernels;
use sluicegate_testkit::reference::Clock;
use sluicegate_testkit::schedules::{Dice, Kind, each, random_policies};
use sluicegate_testkit::servers;

const START: u64 = 1_699_920_000_000_000;
const SUBJECTS: [&[u8]; 4] = [b"a", b"b", b"", b"}\0{"];

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn stores_on_servers() -> Vec<RedisStore> {
    let servers = servers::shared_each().unwrap();
    let store = |server: &servers::Server| {
        let prefix: KeyPrefix = servers::fresh_prefix("together").parse().unwrap();
        let builder = RedisStore::builder(&server.url()).unwrap();
        builder.prefix(prefix).deadline(Duration::from_secs(5)).build()
    };
    servers.iter().map(|server| store(server)).collect()
}

fn limit(name: &str, specs: &[&str]) -> Limit {
    let policies = specs.iter().map(|spec| spec.parse().unwrap()).collect();
    Limit::new(name.parse().unwrap(), policies).unwrap()
}

/// Some limits of random policies, together.
fn random_limit(dice: &mut Dice, kinds: &[Kind]) -> Limit {
    let parts = 1 + dice.below_len(3);
    Limit::together((0..parts).map(|part| {
        let count = 1 + dice.below_len(3);
        let policies = random_policies(dice, kinds, count);
        Limit::new(format!("part-{part}").parse().unwrap(), policies).unwrap()
    }))
    .unwrap()
}

#[derive(Clone, Debug)]
struct Step {
    now: u64,
    subjects: Vec<&'static [u8]>,
    operation: Operation,
    costs: Vec<u64>,
}

impl Step {
    fn request<'a>(&'a self, time: &TimeSource) -> Request<'a> {
        let at = (*time != TimeSource::Store).then(|| Timestamp::from_micros(self.now).unwrap());
        let costs = Costs::Each(&self.costs);
        let (key, also) = self.subjects.split_first().unwrap();
        Request { key, also, operation: self.operation, costs, at }
    }
}

fn random_step(dice: &mut Dice, limit: &Limit, now: &mut u64) -> Step {
    *now += match dice.below(4) {
        0 => 0,
        1 => dice.below(50_000),
        2 => dice.below(2_000_000),
        _ => dice.below(60_000_000),
    };
    if dice.one_in(10) {
        *now -= dice.below(1_000_000);
    }
    let operation = match dice.below(12) {
        0 => Operation::Peek,
        1 => Operation::Charge,
        2 => Operation::TakeUpTo,
        3 => Operation::Refund,
        4 if dice.one_in(3) => Operation::Reset,
        5 | 6 if limit.can_reserve() => {
            Operation::Reserve { within: Span::from_micros(dice.below(3_000_000)).unwrap() }
        }
        _ => Operation::Check,
    };
    let subjects = limit.parts().iter().map(|_| SUBJECTS[dice.below_len(SUBJECTS.len())]);
    let subjects = subjects.collect();
    let costs = limit.members().iter().map(|_| dice.below(4)).collect();
    Step { now: *now, subjects, operation, costs }
}

fn assert_same(
    got: &Result<Decision, StoreError>,
    expected: &Result<Decision, StoreError>,
    what: &dyn Fn() -> String,
) {
    match (got, expected) {
        (Ok(got), Ok(expected)) => assert_eq!(got, expected, "{}", what()),
        (Err(got), Err(expected)) => assert_eq!(got.kind(), expected.kind(), "{}", what()),
        _ => panic!("{got:?} instead of {expected:?}: {}", what()),
    }
}

async fn assert_answers_like_the_kernels<S: Store>(store: &S, seed: u64, kinds: &[Kind]) {
    let mut dice = Dice::new(seed);
    let limit = Arc::new(random_limit(&mut dice, kinds));
    let time = TimeSource::Injected { run: seed.to_string() };
    let handle = store.open(Arc::clone(&limit), time.clone());
    let mut kernels = Kernels::of_limit((*limit).clone(), Clock::Injected);
    let mut now = START;
    for _ in 0..40 {
        let step = random_step(&mut dice, &limit, &mut now);
        let costs = Costs::Each(&step.costs);
        let expected = kernels.decide_together(now, &step.subjects, step.operation, costs);
        let got = store.decide(&handle, step.request(&time)).await;
        assert_same(&got, &expected, &|| format!("{step:?} of {limit:?}"));
    }
}

#[test]
fn limits_together_answer_like_the_kernels_in_memory() {
    let store = MemoryStore::builder().build();
    each("together in memory", 600, |seed| {
        block_on(assert_answers_like_the_kernels(&store, seed, &Kind::ALL));
    });
}

#[test]
fn limits_together_answer_like_the_kernels_on_every_server() {
    let stores = stores_on_servers();
    assert!(!stores.is_empty());
    for store in stores {
        block_on(async {
            let mut seeds = Vec::new();
            each("together on servers", 60, |seed| seeds.push(seed));
            for seed in seeds {
                assert_answers_like_the_kernels(&store, seed, &Kind::ALL).await;
            }
        });
    }
}

/// About one subject, several limits together say what one limit of all their policies says,
/// which the reference model judges elsewhere.
#[test]
fn limits_together_about_one_subject_are_one_limit() {
    each("together as one", 400, |seed| {
        let mut dice = Dice::new(seed);
        let together = random_limit(&mut dice, &Kind::ALL);
        let policies = together.members().iter().enumerate().map(|(index, member)| {
            member.policy().clone().named(format!("p{index}").parse().unwrap())
        });
        let mut one = Kernels::new(policies.collect(), Clock::Injected);
        let mut several = Kernels::of_limit(together.clone(), Clock::Injected);
        let mut now = START;
        for _ in 0..40 {
            let step = random_step(&mut dice, &together, &mut now);
            let costs = Costs::Each(&step.costs);
            let subject = step.subjects[0];
            let subjects = vec![subject; together.parts().len()];
            let got = several.decide_together(now, &subjects, step.operation, costs);
            let expected = one.decide(now, subject, step.operation, costs);
            assert_same(&got, &expected, &|| format!("{step:?} of {together:?}"));
        }
    });
}

/// A subject of one part of a limit.
type Subject = (usize, Vec<u8>);

/// The reservations that were made, and what was before each.
struct Line<R> {
    made: Vec<Made<R>>,
    /// Which change to each subject is its newest.
    newest: Vec<(Subject, Vec<usize>)>,
    changes: usize,
}

struct Made<R> {
    change: usize,
    subjects: Vec<Subject>,
    before: Kernels,
    receipt: R,
}

impl<R> Line<R> {
    fn of(&mut self, subject: &Subject) -> &mut Vec<usize> {
        let index =
            self.newest.iter().position(|(known, _)| known == subject).unwrap_or_else(|| {
                self.newest.push((subject.clone(), Vec::new()));
                self.newest.len() - 1
            });
        &mut self.newest[index].1
    }
}

/// Only the last in line is given its units back, and then everything is as if it had never
/// come: so no two callers are ever told one instant.
async fn assert_only_the_last_in_line_is_given_back<S: Store>(store: &S, seed: u64) {
    let kinds = [
        Kind::TokenBucket,
        Kind::Gcra,
        Kind::LeakyBucket,
        Kind::Shaper,
        Kind::Smooth,
        Kind::WarmUp,
    ];
    let mut dice = Dice::new(seed);
    let limit = Arc::new(random_limit(&mut dice, &kinds));
    let time = TimeSource::Injected { run: format!("line-{seed}") };
    let handle = store.open(Arc::clone(&limit), time.clone());
    let mut kernels = Kernels::of_limit((*limit).clone(), Clock::Injected);
    let mut line = Line { made: Vec::new(), newest: Vec::new(), changes: 0 };
    let mut now = START;
    for _ in 0..60 {
        if !line.made.is_empty() && dice.one_in(3) {
            // Mostly one of the newest.
            let back = if dice.one_in(2) { 0 } else { dice.below_len(line.made.len().min(4)) };
            let made = line.made.remove(line.made.len() - 1 - back);
            let is_last = !made.subjects.is_empty()
                && made
                    .subjects
                    .iter()
                    .all(|subject| line.of(subject).last() == Some(&made.change));
            let given_back = store.cancel(&handle, &made.receipt).await.unwrap();
            assert_eq!(given_back, is_last, "change {} of {limit:?}", made.change);
            if is_last {
                kernels.put_back(&made.before, &made.subjects);
                for subject in &made.subjects {
                    line.of(subject).pop();
                }
            }
            continue;
        }
        let mut step = random_step(&mut dice, &limit, &mut now);
        if matches!(step.operation, Operation::Refund | Operation::Reset) {
            // They may leave what was there before, which nobody can tell from nothing.
            step.operation = Operation::Check;
        }
        let before = kernels.clone();
        let expected =
            kernels.decide_together(now, &step.subjects, step.operation, Costs::Each(&step.costs));
        let (got, receipt) = match step.operation {
            Operation::Reserve { .. } => match store.reserve(&handle, step.request(&time)).await {
                Ok((decision, receipt)) => (Ok(decision), receipt),
                Err(error) => (Err(error), None),
            },
            _ => (store.decide(&handle, step.request(&time)).await, None),
        };
        assert_same(&got, &expected, &|| format!("{step:?} of {limit:?}"));
        let subjects: Vec<Subject> = step
            .subjects
            .iter()
            .enumerate()
            .map(|(part, subject)| (part, subject.to_vec()))
            .filter(|(part, subject)| before.of(*part, subject) != kernels.of(*part, subject))
            .collect();
        line.changes += 1;
        for subject in &subjects {
            let change = line.changes;
            line.of(subject).push(change);
        }
        let reserved = matches!(step.operation, Operation::Reserve { .. });
        assert_eq!(
            receipt.is_some(),
            reserved && expected.is_ok_and(|decision| decision.is_allowed()),
            "{step:?} of {limit:?}"
        );
        if let Some(receipt) = receipt {
            line.made.push(Made { change: line.changes, subjects, before, receipt });
        }
    }
}

#[test]
fn only_the_last_in_line_is_given_back_in_memory() {
    let store = MemoryStore::builder().build();
    each("line in memory", 600, |seed| {
        block_on(assert_only_the_last_in_line_is_given_back(&store, seed));
    });
}

#[test]
fn only_the_last_in_line_is_given_back_on_every_server() {
    for store in stores_on_servers() {
        block_on(async {
            let mut seeds = Vec::new();
            each("line on servers", 60, |seed| seeds.push(seed));
            for seed in seeds {
                assert_only_the_last_in_line_is_given_back(&store, seed).await;
            }
        });
    }
}

async fn assert_parts_are_the_limits_they_are<S: Store>(store: &S) {
    let address = limit("address", &["token_bucket 1/h burst 3", "sliding_log 5/h"]);
    let account = limit("account", &["fixed_window 2/h"]);
    let login = Limit::together([address.clone(), account]).unwrap();
    let open = |limit: &Limit| store.open(Arc::new(limit.clone()), TimeSource::Store);
    let (login, address) = (open(&login), open(&address));
    let ask = |key: &'static [u8], also: &'static [&'static [u8]]| Request {
        also,
        ..Request::check(key)
    };
    let both: &[&[u8]] = &[b"alice"];
    for expected in [true, true, false] {
        let decision = store.decide(&login, ask(b"192.0.2.7", both)).await.unwrap();
        assert_eq!((decision.is_allowed(), decision.source()), (expected, Source::Store));
    }
    // The denial by the account's window charged the address nothing.
    let alone = store.decide(&address, Request::check(b"192.0.2.7")).await.unwrap();
    assert!(alone.is_allowed());
    assert_eq!(alone.remaining(), Some(0));
    assert_eq!(alone.policies()[1].window_total(), 3);
    let other: &[&[u8]] = &[b"bob"];
    let denied = store.decide(&login, ask(b"192.0.2.7", other)).await.unwrap();
    assert_eq!((denied.is_denied(), denied.binding()), (true, Some(0)));
    for wrong in [ask(b"192.0.2.7", &[]), ask(b"192.0.2.7", &[b"a", b"b"])] {
        let error = store.decide(&login, wrong).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::InvalidRequest);
        assert!(error.to_string().contains("needs 2 subjects"), "{error}");
    }
    let extra = store.decide(&address, ask(b"192.0.2.7", both)).await.unwrap_err();
    assert_eq!(extra.kind(), StoreErrorKind::InvalidRequest);
    let reset = Request { operation: Operation::Reset, ..ask(b"192.0.2.7", both) };
    assert!(store.decide(&login, reset).await.unwrap().is_allowed());
    assert!(store.decide(&login, ask(b"192.0.2.7", both)).await.unwrap().is_allowed());
}

#[test]
fn the_parts_of_limits_together_share_state_with_the_limits_they_are() {
    block_on(assert_parts_are_the_limits_they_are(&MemoryStore::builder().build()));
    for store in stores_on_servers() {
        block_on(assert_parts_are_the_limits_they_are(&store));
    }
}
