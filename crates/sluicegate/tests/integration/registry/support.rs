//! A registry whose clock is driven.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use sluicegate::config::Changes;
use sluicegate::testing::ManualClock;
use sluicegate::{Ask, Config, Decision, Error, Gate, MemoryStore, Registry};

/// A registry with an embedded store of its own, and its clock.
pub(crate) struct Setup {
    pub(crate) registry: Registry,
    pub(crate) clock: Arc<ManualClock>,
}

pub(crate) fn config(text: &str) -> Config {
    Config::parse(text, "limits.yaml").unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

/// Returns an embedded store, and its clock.
pub(crate) fn store() -> (MemoryStore, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    (MemoryStore::builder().clock(clock.clone()).build(), clock)
}

impl Setup {
    pub(crate) fn new(text: &str) -> Self {
        let (store, clock) = store();
        Self { registry: Registry::builder(store).config(&config(text)).build(), clock }
    }

    pub(crate) fn replace(&self, text: &str) -> Changes {
        self.registry.replace(&config(text)).unwrap()
    }

    /// Returns how many of `many` requests about `key` pass.
    pub(crate) fn admitted(&self, limit: &str, key: &str, many: usize) -> usize {
        admitted(&self.registry.gate(limit), key, many)
    }
}

pub(crate) fn admitted(gate: &Gate, key: &str, many: usize) -> usize {
    (0..many).filter(|_| check(gate, key).is_allowed()).count()
}

/// Sends a check without waiting, since the embedded store answers immediately. Both ways of sending give the same
/// answer.
pub(crate) fn check<'a>(gate: &Gate, ask: impl Into<Ask<'a>>) -> Decision {
    try_check(gate, ask).unwrap()
}

pub(crate) fn try_check<'a>(gate: &Gate, ask: impl Into<Ask<'a>>) -> Result<Decision, Error> {
    static TURN: AtomicUsize = AtomicUsize::new(0);
    if TURN.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
        gate.check(ask).now()
    } else {
        now(gate.check(ask))
    }
}

/// Returns the output of a future that doesn't wait.
pub(crate) fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}
