//! Quotas: shares of limits that Envoys use without a call for each request (RLQS).
//!
//! A [`Quotas`] has what all streams share. A [`QuotaStream`] answers the reports of one Envoy. It needs no socket and no
//! timer, so a simulation can drive it.

mod board;
mod booking;
mod bucket;
mod counts;
mod fleet;
mod message;
mod stream;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sluicegate::Registry;
use sluicegate::layers::SuspendAwareClock;
use sluicegate::testing::Clock;
use sluicegate_core::LimitName;
use tokio::sync::watch;

use crate::quota::{Fund, Numbers};

use counts::Counts;

pub use counts::{Ignored, QuotaCounts};
pub use fleet::{KeyQuotas, LimitQuotas, QuotaFleet, QuotaShares};
pub use message::Outgoing;
pub use stream::QuotaStream;

use super::rights::Rights;

/// The quotas of a registry's limits, for the buckets that its configuration assigns to them (`envoy: domains:`). Cloning
/// is cheap, and clones share everything.
#[derive(Clone)]
pub struct Quotas {
    shared: Arc<Shared>,
}

struct Shared {
    registry: Registry,
    clock: Arc<dyn Clock>,
    /// The name of this process on boards.
    name: [u8; 16],
    state: Mutex<State>,
    counts: Counts,
    closing: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    funds: HashMap<Arc<FundKey>, KnownFund>,
    last_holder: u64,
    /// Limits that can't be assigned and that the log names.
    told: HashSet<LimitName>,
}

/// A limit and a key of it.
#[derive(Debug, Eq, Hash, PartialEq)]
struct FundKey {
    limit: LimitName,
    key: Box<[u8]>,
}

struct KnownFund {
    numbers: Numbers,
    fund: Fund,
    /// The instant of the latest exchange with other replicas.
    exchanged: Option<u64>,
    /// Whether the key was banned or paused then.
    is_refused: bool,
}

impl Quotas {
    /// Makes the quotas of a registry's limits. They follow its configuration.
    #[must_use]
    pub fn new(registry: Registry) -> Self {
        Self::with_clock(registry, Arc::new(SuspendAwareClock::new()))
    }

    /// Makes quotas with a clock for tests. It must not go back.
    #[must_use]
    pub fn with_clock(registry: Registry, clock: Arc<dyn Clock>) -> Self {
        Self {
            shared: Arc::new(Shared {
                registry,
                clock,
                name: fastrand::u128(..).to_be_bytes(),
                state: Mutex::default(),
                counts: Counts::default(),
                closing: watch::Sender::new(false),
            }),
        }
    }

    pub(super) fn registry(&self) -> &Registry {
        &self.shared.registry
    }

    /// Begins a stream of a client with these rights.
    #[must_use]
    pub fn open(&self, rights: Rights) -> QuotaStream {
        QuotaStream::new(Arc::clone(&self.shared), rights)
    }

    /// Ends all streams over the network, now and later. Their clients connect to another replica.
    pub fn close(&self) {
        self.shared.closing.send_replace(true);
    }

    /// Waits until the streams have to end.
    pub(super) async fn closing(&self) {
        let mut closing = self.shared.closing.subscribe();
        // The sender exists as long as `self`.
        let _ = closing.wait_for(|is_closing| *is_closing).await;
    }

    /// Returns the clock by which answers are fresh.
    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.shared.clock)
    }

    /// Returns what was counted since the start.
    #[must_use]
    pub fn counts(&self) -> QuotaCounts {
        self.shared.counts.read()
    }

    /// Notes an answer that couldn't be delivered in time.
    pub(super) fn was_late(&self) {
        self.shared.counts.late();
    }

    /// Returns the assigned shares of each limit, in the order of their names.
    #[must_use]
    pub fn fleet(&self) -> QuotaFleet {
        fleet::fleet(&self.shared)
    }
}

impl Shared {
    /// Returns the time in µs.
    fn now(&self) -> u64 {
        self.clock.now().as_micros()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns a number that names a new holder.
    const fn new_holder(&mut self) -> u64 {
        self.last_holder += 1;
        self.last_holder
    }

    /// Returns the fund of a limit and key with these numbers.
    fn fund(&mut self, key: &Arc<FundKey>, numbers: Numbers) -> &mut KnownFund {
        let new =
            || KnownFund { numbers, fund: Fund::default(), exchanged: None, is_refused: false };
        let known = self.funds.entry(Arc::clone(key)).or_insert_with(new);
        known.numbers = numbers;
        known
    }

    /// Forgets a holder, whose share stays booked until an instant.
    fn leave(&mut self, key: &Arc<FundKey>, holder: u64, booked: Option<(u64, u64)>) {
        let Some(known) = self.funds.get_mut(key) else { return };
        known.fund.forget(holder);
        if let Some((share, ends)) = booked {
            known.fund.retire(share, ends);
        }
        if known.fund.is_empty() {
            self.funds.remove(key);
        }
    }
}

impl fmt::Debug for Quotas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quotas").field("counts", &self.counts()).finish_non_exhaustive()
    }
}
