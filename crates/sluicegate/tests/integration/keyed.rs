//! Limits whose numbers are found at run time.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod endings;
mod failures;
mod lifetimes;
mod of_a_registry;
#[cfg(feature = "redis")]
mod on_a_server;
mod single_flight;
mod typed;
mod with;

use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use sluicegate::testing::ManualClock;
use sluicegate::{Keyed, Limit, Limiter, MemoryStore};
use tokio::sync::Notify;

/// A database of plans: the spec of each key, and what is wrong with the database.
#[derive(Default)]
pub(crate) struct Plans {
    spec: Mutex<String>,
    fails: Mutex<Option<&'static str>>,
    /// While set, queries wait.
    is_slow: Mutex<bool>,
    go_on: Notify,
    queries: AtomicUsize,
    answered: AtomicUsize,
}

/// An error of the database.
#[derive(Debug)]
pub(crate) struct Down(&'static str);

impl fmt::Display for Down {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for Down {}

impl Plans {
    pub(crate) fn new(spec: &str) -> Arc<Self> {
        let plans = Self::default();
        plans.change(spec);
        Arc::new(plans)
    }

    pub(crate) fn change(&self, spec: &str) {
        *self.spec.lock().unwrap() = spec.to_owned();
    }

    pub(crate) fn fail(&self, why: impl Into<Option<&'static str>>) {
        *self.fails.lock().unwrap() = why.into();
    }

    /// Lets queries wait for [`Self::go_on`].
    pub(crate) fn slow_down(&self) {
        *self.is_slow.lock().unwrap() = true;
    }

    /// Lets later queries be answered immediately.
    pub(crate) fn answer_new_queries(&self) {
        *self.is_slow.lock().unwrap() = false;
    }

    /// Lets all queries be answered.
    pub(crate) fn go_on(&self) {
        self.answer_new_queries();
        self.go_on.notify_waiters();
    }

    /// Returns the number of queries that were sent.
    pub(crate) fn queries(&self) -> usize {
        self.queries.load(Ordering::SeqCst)
    }

    /// Returns the number of queries that were answered.
    pub(crate) fn answered(&self) -> usize {
        self.answered.load(Ordering::SeqCst)
    }

    pub(crate) async fn of(self: Arc<Self>, key: String) -> Result<[String; 1], Down> {
        self.queries.fetch_add(1, Ordering::SeqCst);
        let spec = self.spec.lock().unwrap().clone();
        loop {
            let mut go_on = std::pin::pin!(self.go_on.notified());
            go_on.as_mut().enable();
            if !*self.is_slow.lock().unwrap() {
                break;
            }
            go_on.await;
        }
        self.answered.fetch_add(1, Ordering::SeqCst);
        if let Some(why) = *self.fails.lock().unwrap() {
            return Err(Down(why));
        }
        if key == "nobody" {
            return Err(Down("there is no such tenant"));
        }
        Ok([spec])
    }

    /// Returns the function that asks the database.
    pub(crate) fn maker(
        self: &Arc<Self>,
    ) -> impl Fn(String) -> futures_of::Boxed + Send + Sync + 'static {
        let plans = Arc::clone(self);
        move |key| Box::pin(Arc::clone(&plans).of(key))
    }
}

/// The future of a query.
pub(crate) mod futures_of {
    use std::pin::Pin;

    pub(crate) type Boxed =
        Pin<Box<dyn Future<Output = Result<[String; 1], super::Down>> + Send + 'static>>;
}

/// Returns a limiter over an embedded store whose clock stands still.
pub(crate) fn limiter() -> Limiter<MemoryStore> {
    let store = MemoryStore::builder().clock(Arc::new(ManualClock::default())).build();
    Limiter::new(store, Limit::new("api", ["fixed_window 1/d"]).unwrap())
}

pub(crate) fn keyed(plans: &Arc<Plans>) -> Keyed<Limiter<MemoryStore>> {
    limiter().keyed(plans.maker())
}

/// Returns the remaining units after a check.
pub(crate) async fn left(api: &Keyed<Limiter<MemoryStore>>, key: &str) -> u64 {
    api.check(key).await.unwrap().remaining().unwrap()
}

/// Lets tasks in the background run.
pub(crate) async fn settle_down() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}
