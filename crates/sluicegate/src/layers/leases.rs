//! Leases: units that are taken ahead of use, and spent without calling the store.

mod holding;
mod holdings;
mod returning;
mod uses;

use std::fmt;
use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use smallvec::SmallVec;

use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::for_stores::{LeaseReport, Leasing};
use sluicegate_core::{
    Answer, BoxFuture, Clock, Decision, Error, Histogram, Limit, MAX_EXACT, Measure, OpenOptions,
    OpenedLimit, Operation, Request, Span, Store, StoreError, StoreId, TimeSource,
};

use holding::{Granted, Local, Owner};
use holdings::Holdings;
use returning::Lessees;

use super::clock::SuspendAwareClock;
use super::fingerprint::Fingerprint;
use super::layer::show_briefly;
use super::options::LeaseOptions;

/// A store that leases units for frequently used keys, and spends them without calling the store that it wraps.
///
/// It admits **never more than the limit in any interval**, even if processes crash. Units that a process holds and
/// doesn't spend before its lease expires are used up. So under load near the limit it may admit less, by the units
/// held at that time.
///
/// The size of a lease follows the recent request rate of the key, up to [`LeaseOptions::most`]. Near the end of the
/// limit nothing is leased, and the store decides every request. It serves single limits, not several decided together.
/// All their policies must be token buckets, GCRAs, leaky buckets or fixed windows, without shadows and charged
/// denials. The store has to grant leases, as Redis stores do. Requests that wait, hold, or want a receipt go to the
/// store.
///
/// Local decisions have the source [`Source::Lease`](crate::decision::Source::Lease). They report the store's last
/// numbers, plus the units held locally.
///
/// ```
/// use std::time::Duration;
///
/// use sluicegate::layers::{LeaseOptions, Leases};
/// use sluicegate::{Limiter, RedisStore};
///
/// let store = RedisStore::builder("redis://127.0.0.1")?.build();
/// let leases = LeaseOptions { most: 100, lasts: Duration::from_millis(500) };
/// let store = Leases::builder(store).by_default(Some(leases)).build();
/// let limiter = Limiter::new(store, sluicegate::Limit::new("api", ["token_bucket 10000/s"])?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Leases<S> {
    store: S,
    shared: Arc<Shared>,
    default: Option<LeaseOptions>,
}

/// A limit that a [`Leases`] has opened.
pub struct LeasesLimit<L> {
    /// Shared with the calls that give units back at the end.
    opened: Arc<L>,
    shared: Arc<Shared>,
    /// `None` if the limit isn't leased.
    serves: Option<Serves>,
}

/// A builder of [`Leases`].
#[must_use = "a builder does nothing until `build`"]
pub struct LeasesBuilder<S> {
    store: S,
    most_keys: NonZeroUsize,
    clock: Arc<dyn Clock>,
    default: Option<LeaseOptions>,
}

/// Totals of leases since the start, in units of all policies together.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct LeaseStats {
    /// Decisions made without calling the store.
    pub decided: u64,
    /// Calls to the store by limits that are leased.
    pub asked: u64,
    /// Units that the store granted ahead.
    pub granted: u64,
    /// Granted units that were spent.
    pub spent: u64,
    /// Granted units that were given back unspent.
    pub returned: u64,
    /// Granted units that weren't spent before their lease expired.
    pub expired: u64,
}

struct Shared {
    clock: Arc<dyn Clock>,
    holdings: Holdings,
    lessees: Lessees,
    /// Distinguishes opened limits: the holdings of one are in terms of its own policies.
    opened: AtomicU64,
    /// Time of the store to answer requests for leases.
    asking: Histogram,
}

/// The terms of a limit's leases.
#[derive(Clone, Copy, Debug)]
struct Serves {
    number: u64,
    most: u64,
    /// Width of a slot.
    width: Span,
}

/// The costs of a request, per policy.
type Units = SmallVec<[u64; 2]>;

/// Default number of keys with held units.
const MOST_KEYS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(65_535);

impl<S: Store> Leases<S> {
    /// Makes a store that takes leases of at most 1,000 requests and one second, for every limit that it can serve.
    pub fn new(store: S) -> Self {
        Self::builder(store).build()
    }

    /// Configures a store that takes leases.
    pub fn builder(store: S) -> LeasesBuilder<S> {
        LeasesBuilder {
            store,
            most_keys: MOST_KEYS,
            clock: Arc::new(SuspendAwareClock::new()),
            default: Some(LeaseOptions::default()),
        }
    }

    /// Returns the totals of leases since the start.
    #[must_use]
    pub fn lease_stats(&self) -> LeaseStats {
        self.shared.holdings.stats()
    }
}

impl<S: Store> LeasesBuilder<S> {
    /// Sets the maximum number of keys with held units; each takes about 600 bytes and its key. Units of further keys are not
    /// spent. The request rates of a quarter as many keys are counted at a time, in 16 bytes each from the start.
    /// Default: 65,536.
    pub const fn most_keys(mut self, most: NonZeroUsize) -> Self {
        self.most_keys = most;
        self
    }

    /// Sets the leases of limits that are opened without [`LeaseOptions`]; `None` takes none. Default:
    /// [`LeaseOptions::default`].
    pub const fn by_default(mut self, leases: Option<LeaseOptions>) -> Self {
        self.default = leases;
        self
    }

    /// Sets the clock, for tests: it must not go back, and must continue while the machine is suspended. Default:
    /// [`SuspendAwareClock`].
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Builds the store.
    #[must_use]
    pub fn build(self) -> Leases<S> {
        let Self { store, most_keys, clock, default } = self;
        let (holdings, lessees) = (Holdings::new(most_keys), Lessees::default());
        let (opened, asking) = (AtomicU64::new(0), Histogram::new());
        Leases {
            store,
            shared: Arc::new(Shared { clock, holdings, lessees, opened, asking }),
            default,
        }
    }
}

impl<S: Store> Store for Leases<S> {
    type Opened = LeasesLimit<S::Opened>;

    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.store)
    }

    fn id(&self) -> StoreId {
        self.store.id()
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> Self::Opened {
        let leases = options.for_layer().copied().or(self.default);
        let serves = leases.filter(|leases| {
            leases.most > 0
                && limit.can_lease()
                && limit.parts().len() == 1
                && matches!(options.time, TimeSource::Store)
        });
        let serves = serves.map(|LeaseOptions { most, lasts }| {
            let width = Span::from_micros(Span::from(lasts).as_micros() / Leasing::SLOTS_AHEAD);
            let width = width.unwrap_or(Leasing::MIN_WIDTH);
            Serves {
                number: self.shared.opened.fetch_add(1, Ordering::Relaxed),
                most,
                width: width.clamp(Leasing::MIN_WIDTH, Leasing::MAX_WIDTH),
            }
        });
        let opened = Arc::new(self.store.open(limit, options));
        if let Some(serves) = serves {
            self.shared.lessees.add(serves, &opened);
        }
        LeasesLimit { opened, shared: Arc::clone(&self.shared), serves }
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.store.ping()
    }

    fn return_leases(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.shared.lessees.report(self.shared.holdings.give_up_all()).await;
            self.store.return_leases().await;
        })
    }

    fn measures(&self) -> Vec<Measure> {
        self.store.measures().into_iter().chain(self.shared.measures()).collect()
    }
}

impl<L: OpenedLimit> OpenedLimit for LeasesLimit<L> {
    fn inner(&self) -> Option<&dyn OpenedLimit> {
        Some(&*self.opened)
    }

    fn limit(&self) -> &Limit {
        self.opened.limit()
    }

    fn ask<'a>(
        &'a self,
        request: Request<'a>,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
        match self.way(&request) {
            Way::Here(decision) => Answer::Now(Ok(decision)),
            Way::Telling(tells, asks) => {
                let sent = self.shared.now();
                // A caller whose answer is available must not wait.
                match self.opened.ask_now(request.leasing(&tells.leasing())) {
                    Some(answer) => Answer::Now(self.learn(answer, asks, sent)),
                    None => Answer::Later(Later::Telling {
                        later: Box::pin(self.tell(request, tells, asks)),
                    }),
                }
            }
            Way::On => match self.opened.ask(request) {
                Answer::Now(answer) => Answer::Now(answer),
                Answer::Later(later) => Answer::Later(Later::Passed { later }),
            },
        }
    }
}

impl<L: OpenedLimit> LeasesLimit<L> {
    fn way<'a>(&'a self, request: &Request<'a>) -> Way<'a> {
        let Some(serves) = self.serves.filter(|_| request.leases().is_none()) else {
            return Way::On;
        };
        let subject = || self.shared.holdings.fingerprint(serves.number, request.key());
        match request.operation() {
            Operation::Check
                if !request.wants_receipt()
                    && request.holds().is_none()
                    && request.idempotency().is_none() =>
            {
                self.check(serves, subject(), request)
            }
            Operation::Peek
            | Operation::Slices
            | Operation::Cancel(_)
            | Operation::Settle { .. }
            | Operation::Renew { .. } => Way::On,
            // Held units are given back first, so that the store decides about all units.
            _ => match self.shared.holdings.give_up(subject()) {
                reports if reports.is_empty() => Way::On,
                reports => Way::Telling(Tells::new(serves, 0, reports), None),
            },
        }
    }

    fn check<'a>(&'a self, serves: Serves, subject: Fingerprint, request: &Request<'a>) -> Way<'a> {
        if request.validate(self.opened.limit()).is_err() {
            return Way::On;
        }
        let limit = self.opened.limit();
        let costs: Units =
            (0..limit.members().len()).map(|index| request.cost_of(limit, index)).collect();
        match self.shared.holdings.check(subject, &costs, serves, self.shared.now()) {
            Local::Spent(decision) => Way::Here(decision),
            Local::Ask { want: 0, reports } if reports.is_empty() => Way::On,
            Local::Ask { want, reports } => Way::Telling(
                Tells::new(serves, want, reports),
                Some(Asks {
                    shared: &self.shared,
                    limit: serves.number,
                    key: request.key(),
                    subject,
                    costs,
                    want,
                }),
            ),
        }
    }

    /// Calls the store with a report.
    async fn tell(
        &self,
        request: Request<'_>,
        tells: Tells,
        asks: Option<Asks<'_>>,
    ) -> Result<Decision, Error> {
        let sent = self.shared.now();
        let answer = self.opened.ask(request.leasing(&tells.leasing())).wait().await;
        self.learn(answer, asks, sent)
    }

    /// Keeps the lease that came with the answer to a call sent at `sent`, and passes the rest on.
    fn learn(
        &self,
        answer: Result<Decision, Error>,
        asks: Option<Asks<'_>>,
        sent: u64,
    ) -> Result<Decision, Error> {
        let Some(asks) = asks else {
            return answer;
        };
        if asks.want > 0 {
            let took = self.shared.now().saturating_sub(sent);
            self.shared.asking.observe(Duration::from_micros(took));
        }
        let holdings = &self.shared.holdings;
        if let Ok(decision) = &answer
            && let Some(lease) = decision.lease()
        {
            let owner = Owner { limit: asks.limit, key: asks.key.into() };
            let granted =
                Granted { owner, lease, sent, decision: decision.clone().without_lease() };
            holdings.add(asks.subject, &asks.costs, granted);
        }
        match answer {
            Ok(decision) if decision.is_allowed() => Ok(decision.without_lease()),
            // The store has no units left or is down, but this process may hold some.
            other => match holdings.spend(asks.subject, &asks.costs, self.shared.now()) {
                Some(decision) => Ok(decision),
                None => other,
            },
        }
    }
}

/// The route of a request.
enum Way<'s> {
    Here(Decision),
    /// To the store, with a report and possibly a request for a lease.
    Telling(Tells, Option<Asks<'s>>),
    /// To the store alone.
    On,
}

/// The report that a request carries to the store.
struct Tells {
    want: u64,
    width: Span,
    tag: u64,
    reports: Vec<LeaseReport>,
}

impl Tells {
    fn new(serves: Serves, want: u64, reports: Vec<LeaseReport>) -> Self {
        // No two slots of a key may ever have the same tag.
        let tag = fastrand::u64(..=MAX_EXACT);
        Self { want, width: serves.width, tag, reports }
    }

    fn leasing(&self) -> Leasing<'_> {
        Leasing {
            want: self.want,
            width: self.width,
            tag: self.tag,
            reports: &self.reports,
            pace: None,
        }
    }
}

/// A request for a lease, until it is answered or abandoned.
struct Asks<'s> {
    shared: &'s Shared,
    /// The number of the opened limit.
    limit: u64,
    key: &'s [u8],
    subject: Fingerprint,
    costs: Units,
    want: u64,
}

impl Drop for Asks<'_> {
    fn drop(&mut self) {
        self.shared.holdings.asked(self.subject, self.want);
    }
}

impl Shared {
    fn now(&self) -> u64 {
        self.clock.now().as_micros()
    }

    fn measures(&self) -> Vec<Measure> {
        let LeaseStats { decided, asked, granted, spent, returned, expired } =
            self.holdings.stats();
        let counter = Measure::counter;
        vec![
            counter(
                "lease_answers",
                "Requests decided with leased units, without a call to the store",
                decided,
            ),
            counter(
                "lease_asked",
                "Requests of leased limits that the store was asked about",
                asked,
            ),
            counter("lease_units_granted", "Units that the store granted ahead", granted),
            counter("lease_units_spent", "Leased units that were spent", spent),
            counter("lease_units_returned", "Leased units that were given back", returned),
            counter("lease_units_expired", "Leased units that expired unused", expired),
            Measure::histogram(
                "lease_seconds",
                "Time of the store to answer a request for a lease",
                self.asking.counts(),
            ),
        ]
    }
}

pin_project! {
    /// The store's answer as it is, or with a report.
    #[project = LaterProjection]
    enum Later<'a, F> {
        Passed { #[pin] later: F },
        // Boxed because it is rare.
        Telling { later: BoxFuture<'a, Result<Decision, Error>> },
    }
}

impl<F: Future<Output = Result<Decision, Error>>> Future for Later<'_, F> {
    type Output = Result<Decision, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            LaterProjection::Passed { later } => later.poll(context),
            LaterProjection::Telling { later } => later.as_mut().poll(context),
        }
    }
}

show_briefly!(Leases, LeasesLimit);

impl<S: Store> fmt::Debug for LeasesBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeasesBuilder")
            .field("store", &self.store.id())
            .field("most_keys", &self.most_keys)
            .field("default", &self.default)
            .finish_non_exhaustive()
    }
}
