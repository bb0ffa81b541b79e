//! Checks with many expired records.

use std::time::Duration;

use sluicegate_core::{
    Costs, Hold, HoldId, Limit, OpenedLimit as _, Operation, Request, Span, Store, Ticket,
};

use super::{START, assert_same, fresh_run, limit, open, timestamp};
use crate::kernels::Kernels;
use crate::reference::Clock;

/// Checks that a request that expired holds deny is allowed by its 10th attempt.
///
/// A request examines only some of the expired records. If it is denied for more units than those
/// release, it still removes them. So it is allowed soon, however many holders crashed at the same
/// time.
pub async fn the_dead_make_room_for_whoever_is_denied<S: Store>(store: &S) {
    let permits = "concurrency 200 hold 1min";
    let alone = limit("crowd", &[permits]);
    let beside = limit("crowd-beside", &[permits, "token_bucket 1000/s"]);
    let both = Limit::together(vec![
        limit("crowd-together", &[permits]),
        limit("other", &["gcra 1000/s"]),
    ]);
    for limit in [alone, beside, both.unwrap()] {
        assert_the_dead_make_room(store, &limit).await;
    }
}

/// Checks that a request without a ticket that expired tickets deny is allowed by its 5th attempt.
pub async fn dead_waiters_make_room_for_whoever_is_denied<S: Store>(store: &S) {
    let limit = limit("waiters", &["concurrency 2 hold 1h queue 100"]);
    let opened = open(store, &limit, &fresh_run());
    let mut kernels = Kernels::of_limit(limit.clone(), Clock::Injected);
    let mut ask = async |at: u64, request: Request<'_>| {
        let request = request.at(timestamp(START + at));
        let (expected, got) = (kernels.ask(START + at, &request), opened.ask(request).wait().await);
        assert_same(&got, &expected, &(at, &request));
        got.unwrap().is_allowed()
    };
    let hold = |number: u128| Hold {
        id: HoldId::from_bytes(number.to_be_bytes()),
        lasts: Duration::from_secs(60),
    };
    let ticket = Ticket { priority: 0, lives: Span::SECOND };
    for number in 0..2 {
        assert!(ask(0, Request::check(b"k").hold(&hold(number))).await);
    }
    for number in 2..72 {
        assert!(!ask(1, Request::check(b"k").hold(&hold(number)).waiting(&ticket)).await);
    }
    let later = 2_000_000;
    for number in 0..2 {
        let settle = Request::settle(b"k", hold(number).id, &[]);
        assert!(ask(later, settle).await);
    }
    let mut denied = 0;
    while !ask(later, Request::check(b"k").hold(&hold(100 + denied))).await {
        denied += 1;
        assert!(denied < 5);
    }
    assert!(denied > 0, "all that have ended were looked at");
}

async fn assert_the_dead_make_room<S: Store>(store: &S, limit: &Limit) {
    let opened = open(store, limit, &fresh_run());
    let mut kernels = Kernels::of_limit(limit.clone(), Clock::Injected);
    let mut ids = 0_u128..;
    let mut hold = || Hold {
        id: HoldId::from_bytes(ids.next().unwrap().to_be_bytes()),
        lasts: Duration::from_secs(1),
    };
    let subjects: Vec<&[u8]> = vec![b"crowded"; limit.parts().len()];
    let mut ask = async |at: u64, operation: Operation<'_>, cost: u64| {
        let hold = hold();
        let costs = vec![cost; limit.members().len()];
        let request = Request::new(operation, subjects[0]).at(timestamp(START + at));
        let request = request.also(&subjects[1..]).costs(Costs::Each(&costs));
        let request = if operation == Operation::Peek { request } else { request.hold(&hold) };
        let (expected, got) = (kernels.ask(START + at, &request), opened.ask(request).wait().await);
        assert_same(&got, &expected, &(at, operation, cost, limit));
        got.unwrap().is_allowed()
    };
    for at in 0..200 {
        assert!(ask(at, Operation::Check, 1).await);
    }
    let later = 5_000_000;
    let mut denied = 0;
    while !ask(later, Operation::Check, 100).await {
        denied += 1;
        assert!(denied < 10, "{limit:?}");
        assert!(!ask(later, Operation::Check, 201).await);
        let _ = ask(later, Operation::Peek, 1).await;
    }
    assert!(denied > 0, "all that has ended was looked at: {limit:?}");
}
