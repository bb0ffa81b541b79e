//! Registries whose clock is driven, to be handed to limited functions.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sluicegate::error::DeniedReason;
use sluicegate::testing::{Clock, ManualClock, Timestamp};
use sluicegate::{Config, Denied, MemoryStore, Registry};
use tokio::time::Instant;

/// A registry with an embedded store of its own, and its clock.
pub(crate) struct Setup {
    pub(crate) limits: Registry,
    pub(crate) clock: Arc<ManualClock>,
}

impl Setup {
    /// Makes a setup without limits other than those of the functions.
    pub(crate) fn empty() -> Self {
        let clock = Arc::new(ManualClock::default());
        Self { limits: Registry::builder(store(clock.clone())).build(), clock }
    }

    /// Makes a setup with the limits of a config file.
    pub(crate) fn new(limits: &str) -> Self {
        let setup = Self::empty();
        setup.limits.replace(&config(limits)).unwrap();
        setup
    }

    /// Returns a registry without limits that uses the process's clock.
    pub(crate) fn real_time() -> Registry {
        Registry::builder(MemoryStore::new()).build()
    }

    pub(crate) fn pass(&self, seconds: u64) {
        (0..seconds).for_each(|_| self.clock.advance(Duration::from_secs(1)));
    }

    /// Returns the remaining units of a key.
    pub(crate) fn left(&self, limit: &str, key: &str) -> u64 {
        left(&self.limits, limit, key)
    }
}

pub(crate) fn config(limits: &str) -> Config {
    let text = format!("limits: {limits}");
    Config::parse(&text, "limits.yaml").unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

/// Returns an embedded store that uses this clock.
pub(crate) fn store(clock: Arc<dyn Clock>) -> MemoryStore {
    MemoryStore::builder().clock(clock).build()
}

/// Returns the remaining units of a key.
pub(crate) fn left(limits: &Registry, limit: &str, key: &str) -> u64 {
    let gate = limits.find(limit).unwrap_or_else(|| panic!("no `{limit}` in {limits:?}"));
    now(gate.peek(key)).unwrap().remaining().unwrap()
}

/// The time of a runtime, which is paused.
struct RuntimeClock(Instant);

impl Clock for RuntimeClock {
    fn now(&self) -> Timestamp {
        let elapsed = u64::try_from(self.0.elapsed().as_micros()).unwrap();
        Timestamp::from_micros(1_700_000_000_000_000 + elapsed).unwrap()
    }
}

/// Returns a registry without limits whose time is the runtime's.
pub(crate) fn on_runtime_time() -> Registry {
    Registry::builder(store(Arc::new(RuntimeClock(Instant::now())))).build()
}

/// The error of the functions that are tested.
#[derive(Debug)]
pub(crate) enum Error {
    Denied(Denied),
    /// The body's own.
    Own,
}

impl From<Denied> for Error {
    fn from(denied: Denied) -> Self {
        Self::Denied(denied)
    }
}

impl Error {
    pub(crate) fn reason(&self) -> Option<DeniedReason> {
        match self {
            Self::Denied(denied) => Some(denied.reason()),
            Self::Own => None,
        }
    }
}

/// Returns how many of `many` calls pass. The others must be denied by the limit.
pub(crate) fn admitted<T>(many: usize, mut call: impl FnMut() -> Result<T, Denied>) -> usize {
    let passes = |call: &mut dyn FnMut() -> Result<T, Denied>| match call() {
        Ok(_) => true,
        Err(denied) => {
            assert_eq!(denied.reason(), DeniedReason::Limited, "{denied}");
            false
        }
    };
    (0..many).filter(|_| passes(&mut call)).count()
}

/// Returns the output of a future that doesn't wait.
pub(crate) fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

/// Runs futures together. Returns the output of each, and the result of `look` at its end.
pub(crate) async fn all<F: Future, L>(
    futures: impl Iterator<Item = F>,
    look: impl Fn() -> L,
) -> Vec<(F::Output, L)> {
    let mut futures: Vec<_> = futures.map(Box::pin).collect();
    let mut ended: Vec<_> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, ended) in futures.iter_mut().zip(&mut ended) {
            if ended.is_none()
                && let Poll::Ready(output) = future.as_mut().poll(context)
            {
                *ended = Some((output, look()));
            }
        }
        if ended.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    ended.into_iter().flatten().collect()
}
