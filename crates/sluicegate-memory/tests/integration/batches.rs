//! Batches get the same answers as single requests, for any contents and with concurrent callers.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use sluicegate_core::{
    Cost, Costs, Decision, Error, Limit, ManualClock, OpenOptions, Operation, Request, Store,
    Timestamp,
};
use sluicegate_memory::{MemoryLimit, MemoryStore, Overflow};

const START: u64 = 1_750_000_000_000_000;

fn open(store: &MemoryStore, policies: &[&str]) -> MemoryLimit {
    let limit = Limit::new("batch", policies).unwrap();
    store.open(limit, OpenOptions::default())
}

fn set_up(most: usize, overflow: Overflow) -> (Arc<ManualClock>, MemoryStore) {
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros_clamped(START)));
    let most = NonZeroUsize::new(most).unwrap();
    let builder = MemoryStore::builder().max_keys(most).overflow(overflow);
    let store = builder.clock(Arc::clone(&clock)).max_clock_back(Duration::from_secs(1)).build();
    (clock, store)
}

/// The action and costs of a request.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Check,
    Costs(u64),
    Peek,
    Charge(u64),
    Reset,
}

fn request(kind: Kind, key: &[u8]) -> Request<'_> {
    let cost = |units| Cost::new(units).unwrap();
    match kind {
        Kind::Check => Request::check(key),
        Kind::Costs(units) => Request::check(key).costs(Costs::Same(cost(units))),
        Kind::Peek => Request::new(Operation::Peek, key),
        Kind::Charge(units) => Request::new(Operation::Charge, key).costs(Costs::Same(cost(units))),
        Kind::Reset => Request::new(Operation::Reset, key),
    }
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        12 => Just(Kind::Check),
        3 => (1..5_u64).prop_map(Kind::Costs),
        1 => Just(Kind::Peek),
        1 => (1..3_u64).prop_map(Kind::Charge),
        1 => Just(Kind::Reset),
    ]
}

/// Returns an answer as text, without the retry time of a full store, which is a guess.
fn said(answer: Result<Decision, Error>) -> String {
    match answer {
        Ok(decision) if decision.warnings().full => "no room".to_owned(),
        answer => format!("{answer:?}"),
    }
}

proptest! {
    #[test]
    fn a_batch_says_what_its_requests_would_say_one_by_one(
        policies in prop_oneof![
            // Slow, and without refunds, so that nothing is swept: two stores sweep at different
            // times.
            Just(&["token_bucket 3/h burst 3"][..]),
            Just(&["shaper 3/h queue 2"][..]),
            Just(&["fixed_window 3/h"][..]),
            Just(&["gcra 3/h burst 3", "fixed_window 5/h"][..]),
        ],
        most in prop_oneof![Just(1_usize), Just(1_000)],
        batches in prop::collection::vec(
            // The clock may step back by more than the store tolerates.
            (-2_000_000..2_000_000_i64, prop::collection::vec((kinds(), 0..40_u8), 0..70)),
            1..12,
        ),
    ) {
        let (clock, store) = set_up(most, Overflow::Deny);
        let (other_clock, other) = set_up(most, Overflow::Deny);
        let (limit, one_by_one) = (open(&store, policies), open(&other, policies));
        for (step, batch) in batches {
            let now = clock_at(&clock, step);
            other_clock.set(now);
            let keys: Vec<_> = batch.iter().map(|&(kind, key)| (kind, [key])).collect();
            let mut answers = Vec::new();
            limit.decide_many(keys.iter().map(|(kind, key)| request(*kind, key)), |index, answer| {
                assert_eq!(index, answers.len());
                answers.push(said(answer.cloned().map_err(Error::clone)));
            });
            let expected: Vec<_> = keys
                .iter()
                .map(|(kind, key)| said(one_by_one.decide(request(*kind, key))))
                .collect();
            prop_assert_eq!(answers, expected);
        }
    }
}

fn clock_at(clock: &ManualClock, step: i64) -> Timestamp {
    use sluicegate_core::Clock as _;
    let now = Timestamp::from_micros_clamped(clock.now().as_micros().saturating_add_signed(step));
    clock.set(now);
    now
}

#[test]
fn batches_of_several_threads_admit_what_there_is_and_never_wait_for_each_other_in_a_circle() {
    const THREADS: usize = 4;
    const KEYS: usize = 200;
    let (_, store) = set_up(100_000, Overflow::Evict);
    let limit = open(&store, &["token_bucket 1/d burst 100"]);
    let keys: Vec<String> = (0..KEYS).map(|key| format!("user:{key}")).collect();
    let admitted: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (limit, keys) = (&limit, &keys);
                scope.spawn(move || {
                    let mut admitted = 0;
                    for round in 0..100 {
                        // Each thread checks the keys in its own order.
                        let order = (0..KEYS).map(|index| {
                            keys[(index * (2 * thread + 1) + round * 7) % KEYS].as_bytes()
                        });
                        limit.decide_many(order.map(Request::check), |_, answer| {
                            admitted += usize::from(answer.unwrap().is_allowed());
                        });
                    }
                    admitted
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(admitted, KEYS * 100);
}

#[test]
fn an_answer_may_ask_the_same_store() {
    let (_, store) = set_up(1_000, Overflow::Evict);
    let limit = open(&store, &["token_bucket 1/d burst 3"]);
    let keys: Vec<[u8; 1]> = (0..50).map(|key| [key]).collect();
    let mut left = 0;
    limit.decide_many(keys.iter().map(|key| Request::check(key)), |index, answer| {
        assert!(answer.unwrap().is_allowed());
        let again = limit.decide(Request::check(&keys[index])).unwrap();
        left += again.remaining().unwrap();
        limit.decide_many([Request::check(&keys[index])], |_, answer| {
            assert!(answer.unwrap().is_allowed());
        });
    });
    assert_eq!(left, 50);
}
