//! Any schedule of operations gets the answers of the naive store.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::sync::Arc;

use proptest::prelude::*;
use sluicegate_core::kernel::Now;
use sluicegate_core::{
    Cost, Costs, Limit, ManualClock, OpenOptions, Operation, Request, Span, Store, TimeSource,
    Timestamp,
};
use sluicegate_memory::MemoryStore;

use crate::naive::Naive;

/// Policies of every kernel, in variants that may replace each other while states are live.
const POLICIES: &[&[&str]] = &[
    &["token_bucket 3/s burst 5 as a", "token_bucket 10/s burst 4 as a", "token_bucket 7/min as a"],
    &["gcra 5/s burst 3 as b", "gcra 4/s burst 9 cost 2 as b"],
    &["leaky_bucket 2/s capacity 4 shadow as c", "leaky_bucket 2/s capacity 4 charge_denied as c"],
    &["shaper 4/s queue 3 as d", "shaper 3/s queue 5 as d"],
    &["smooth 5/s burst 1s start empty as e", "smooth 2/s burst 1s start full as e"],
    &["warmup 5/s over 2s as f", "warmup 3/s over 2s as f"],
    &["fixed_window 5/s as g", "fixed_window 3/s charge_denied as g"],
    &["fixed_window 5/s aligned as h", "fixed_window 9/s aligned shadow as h"],
    &["fixed_window 2/s aligned count_denied as n", "fixed_window 3/s aligned as n"],
    &["fixed_window 5/d calendar Asia/Tokyo as i"],
    &["sliding_window 6/s slices 10 as j", "sliding_window 3/s slices 10 charge_denied as j"],
    &["sliding_counter 5/s as k", "sliding_counter 8/s as k"],
    &["sliding_log 4/s as l", "sliding_log 4/s and 10/min as l"],
    &["token_bucket 0/s burst 3 as m"],
];

#[derive(Clone, Debug)]
struct Step {
    key: usize,
    operation: Operation<'static>,
    cost: Option<u64>,
    each: Option<Vec<u64>>,
    /// The change of the clock before the operation, in µs.
    moves: i64,
    /// The variant of the limit to open before the operation.
    reopen: Option<usize>,
}

fn operations() -> impl Strategy<Value = Operation<'static>> {
    prop_oneof![
        8 => Just(Operation::Check),
        2 => Just(Operation::Peek),
        2 => Just(Operation::Take),
        2 => Just(Operation::Charge),
        2 => Just(Operation::Refund),
        1 => Just(Operation::Reset),
        2 => (0..3_000_000_u64)
            .prop_map(|within| Operation::Reserve { within: Span::from_micros(within).unwrap() }),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let moves = prop_oneof![
        4 => Just(0_i64),
        6 => 0..500_000_i64,
        1 => 0..100_000_000_i64,
        1 => -3_000_000..0_i64,
        1 => -30_000_000..0_i64,
    ];
    (
        0..4_usize,
        operations(),
        prop::option::of(prop_oneof![6 => 1..4_u64, 1 => 1..20_u64, 1 => Just((1 << 53) - 1)]),
        prop::option::weighted(0.1, prop::collection::vec(0..3_u64, 4)),
        moves,
        prop::option::weighted(0.1, 0..10_usize),
    )
        .prop_map(|(key, operation, cost, each, moves, reopen)| Step {
            key,
            operation,
            cost,
            each,
            moves,
            reopen,
        })
}

fn limit(chosen: &[usize], variant: usize) -> Limit {
    let policies = chosen.iter().enumerate().map(|(index, &policy)| {
        let variants = POLICIES[policy];
        variants[(variant + index) % variants.len()]
    });
    Limit::new("any", policies).unwrap()
}

const KEYS: [&[u8]; 4] = [b"", b"alice", b"\0\xff{}\n", &[7; 300]];

fn run(chosen: &[usize], steps: &[Step], injected: bool) -> Result<(), TestCaseError> {
    let start = 1_700_000_000_000_000_u64;
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros(start).unwrap()));
    let store = MemoryStore::builder().clock(Arc::clone(&clock)).build();
    let time =
        if injected { TimeSource::Injected { run: "one".to_owned() } } else { TimeSource::Store };
    let mut naive = Naive::default();
    let mut limit_now = limit(chosen, 0);
    let mut handle = store.open(limit_now.clone(), OpenOptions::default().time(time.clone()));
    let mut now = start;
    for step in steps {
        if let Some(variant) = step.reopen {
            limit_now = limit(chosen, variant);
            handle = store.open(limit_now.clone(), OpenOptions::default().time(time.clone()));
        }
        now = now.saturating_add_signed(step.moves);
        let at = Timestamp::from_micros(now).unwrap();
        clock.set(at);
        let each: Vec<u64> = step
            .each
            .iter()
            .flatten()
            .copied()
            .cycle()
            .take(if step.each.is_some() { chosen.len() } else { 0 })
            .collect();
        let costs = match (&step.each, step.cost) {
            (Some(_), _) => Costs::Each(&each),
            (None, Some(cost)) => Costs::Same(Cost::new(cost).unwrap()),
            (None, None) => Costs::Own,
        };
        let request =
            Request::new(step.operation, KEYS[step.key]).costs(costs).at(injected.then_some(at));
        let judged_at = Now { micros: now, max_clock_back: (!injected).then_some(5_000_000) };
        let expected = naive.decide(&limit_now, request, judged_at);
        let got = handle.decide(request);
        match (expected, got) {
            (Ok(expected), Ok(got)) => prop_assert_eq!(got, expected, "{:?} at {}", request, now),
            (Err(expected), Err(got)) => prop_assert_eq!(got.to_string(), expected.to_string()),
            (expected, got) => prop_assert!(false, "{expected:?} against {got:?} for {request:?}"),
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_policy_answers_as_the_core_says(
        policy in 0..POLICIES.len(),
        steps in prop::collection::vec(steps(), 1..80),
        injected: bool,
    ) {
        run(&[policy], &steps, injected)?;
    }

    #[test]
    fn many_policies_answer_as_the_core_says(
        policies in prop::sample::subsequence((0..POLICIES.len()).collect::<Vec<_>>(), 2..=13),
        steps in prop::collection::vec(steps(), 1..60),
        injected: bool,
    ) {
        run(&policies, &steps, injected)?;
    }

    #[test]
    fn policies_of_the_bucket_family_are_reserved_as_the_core_says(
        policies in prop::sample::subsequence(vec![0_usize, 1, 3, 4, 5, 12], 1..=4),
        steps in prop::collection::vec(steps(), 1..60),
        injected: bool,
    ) {
        run(&policies, &steps, injected)?;
    }
}
