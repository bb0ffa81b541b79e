//! Checks that the simple forms don't allocate.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use allocation_counter::measure;
use sluicegate::store::SharedStore;
use sluicegate::{Ask, Limiter, MemoryStore};

#[test]
fn asking_about_a_known_key_allocates_nothing() {
    let limit = || {
        sluicegate::Limit::new("l", ["token_bucket 9/s burst 50000", "fixed_window 50000/d"])
            .unwrap()
    };
    let limiter = Limiter::new(MemoryStore::new(), limit());
    let any = Limiter::new(SharedStore::new(MemoryStore::new()), limit());
    let ask = || {
        let costs = Ask::new("alice").cost_of("fixed_window", 2).cost_of("token_bucket", 0);
        assert!(limiter.check("alice").now().unwrap().is_allowed());
        assert!(limiter.check(Ask::new("alice").cost(2)).now().unwrap().is_allowed());
        assert!(limiter.check(costs).now().unwrap().is_allowed());
        assert!(at_once(any.check("alice")).unwrap().unwrap().is_allowed());
    };
    ask();
    let allocated = measure(|| (0..1_000).for_each(|_| ask()));
    assert_eq!(allocated.count_total, 0);
}

/// Polls a future once. The embedded store never waits, so a second poll is unnecessary.
fn at_once<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
