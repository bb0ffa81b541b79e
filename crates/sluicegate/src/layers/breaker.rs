//! A circuit breaker: a failing store isn't called for a while.

mod circuit;

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use sluicegate_core::{
    Answer, BoxFuture, Clock, Decision, Error, Limit, Measure, NodeId, OpenOptions, OpenedLimit,
    Request, Span, Store, StoreError, StoreErrorKind, StoreId,
};
use smallvec::SmallVec;

use super::clock::SuspendAwareClock;
use super::layer::show_briefly;
use circuit::{Change, Circuit, Outcome, Pass, Rules};

/// A store that isn't called while it fails.
///
/// An open breaker fails every request immediately instead of after its deadline, and `on_store_failure` decides
/// without a wait. One request at a time probes whether the store answers again. If the store has several nodes, each
/// has its own breaker.
///
/// It opens after a number of failures in a row, or when half of the calls fail. A store that is `Overloaded` still
/// decides other requests, so that error doesn't open it.
///
/// ```
/// use sluicegate::layers::Breaker;
/// use sluicegate::{Limiter, MemoryStore};
///
/// let store = Breaker::builder(MemoryStore::new())
///     .on_change(|event| eprintln!("{event}"))
///     .build();
/// let limiter = Limiter::new(store, sluicegate::Limit::new("login", ["gcra 5/min"])?);
/// assert!(limiter.check("alice").now()?.is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Breaker<S> {
    store: S,
    shared: Arc<Shared>,
}

/// A limit that a [`Breaker`] has opened.
pub struct BreakerLimit<L> {
    opened: L,
    shared: Arc<Shared>,
}

/// A builder of a [`Breaker`].
#[must_use = "a builder does nothing until `build`"]
pub struct BreakerBuilder<S> {
    store: S,
    rules: Rules,
    clock: Arc<dyn Clock>,
    on_change: Option<Arc<OnChange>>,
}

type OnChange = dyn Fn(&BreakerEvent) + Send + Sync;

/// A breaker opened or closed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BreakerEvent {
    /// The store.
    pub store: StoreId,
    /// The node, if the store has several.
    pub node: Option<NodeId>,
    /// The change.
    pub change: BreakerChange,
}

/// A change of a breaker.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum BreakerChange {
    /// The store isn't called any more.
    Opened {
        /// Pause without calls; then one request probes.
        pause: Duration,
        /// The failure that opened it.
        because: StoreError,
    },
    /// The store is called again.
    Closed {
        /// The time for which it was open.
        after: Duration,
    },
}

struct Shared {
    store: StoreId,
    rules: Rules,
    clock: Arc<dyn Clock>,
    on_change: Option<Arc<OnChange>>,
    /// The circuits of the whole store and of its nodes.
    whole: Guarded,
    nodes: RwLock<HashMap<NodeId, Arc<Guarded>>>,
}

/// The circuit of a store or node.
struct Guarded {
    circuit: Mutex<Circuit>,
    /// [`Circuit::clean`], to be read without its lock; [`NOT_CLEAN`] means `None`.
    clean: AtomicU64,
    /// The error for refused requests.
    error: Mutex<Option<StoreError>>,
    /// The number of times it opened, and the number of requests it refused.
    opened: AtomicU64,
    refused: AtomicU64,
}

const NOT_CLEAN: u64 = u64::MAX;

impl Default for Guarded {
    fn default() -> Self {
        let circuit = Circuit::default();
        let clean = AtomicU64::new(circuit.clean().unwrap_or(NOT_CLEAN));
        Self {
            circuit: Mutex::new(circuit),
            clean,
            error: Mutex::default(),
            opened: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }
}

impl<S: Store> Breaker<S> {
    /// Makes a breaker around a store, with the default rules of the [builder](Self::builder).
    pub fn new(store: S) -> Self {
        Self::builder(store).build()
    }

    /// Configures a breaker around a store.
    pub fn builder(store: S) -> BreakerBuilder<S> {
        let ms = |millis| Span::from_millis(millis).unwrap_or(Span::SECOND);
        BreakerBuilder {
            store,
            rules: Rules {
                failures: 5,
                percent: 50,
                least: 20,
                stretch: ms(10_000),
                pause: ms(150),
                longest_pause: ms(300),
                probe: ms(10_000),
            },
            clock: Arc::new(SuspendAwareClock::new()),
            on_change: None,
        }
    }
}

impl<S: Store> BreakerBuilder<S> {
    /// Sets the number of failures in a row that open it, at least 1. Default: 5.
    pub fn failures(mut self, failures: u32) -> Self {
        self.rules.failures = failures.max(1);
        self
    }

    /// Sets the pause without calls after it has opened. The pause doubles with every probe that fails, up to
    /// `longest`. A random reduction shortens each pause by up to a half. Default: 150 ms, up to 300 ms, so that a
    /// server that has recovered or been replaced is used within a second.
    pub fn pause(mut self, pause: Duration, longest: Duration) -> Self {
        self.rules.pause = pause.into();
        self.rules.longest_pause = longest.into();
        self
    }

    /// Sets the clock, for tests. Default: [`SuspendAwareClock`].
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets a function that is called whenever a breaker opens or closes, on the thread of the request that changed it.
    /// Changes are always logged.
    pub fn on_change(mut self, tell: impl Fn(&BreakerEvent) + Send + Sync + 'static) -> Self {
        self.on_change = Some(Arc::new(tell));
        self
    }

    /// Builds the breaker.
    #[must_use]
    pub fn build(self) -> Breaker<S> {
        let Self { store, rules, clock, on_change } = self;
        let shared = Shared {
            store: store.id(),
            rules,
            clock,
            on_change,
            whole: Guarded::default(),
            nodes: RwLock::default(),
        };
        Breaker { store, shared: Arc::new(shared) }
    }
}

impl<S: Store> Store for Breaker<S> {
    type Opened = BreakerLimit<S::Opened>;

    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.store)
    }

    fn id(&self) -> StoreId {
        self.store.id()
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> Self::Opened {
        BreakerLimit { opened: self.store.open(limit, options), shared: Arc::clone(&self.shared) }
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.store.ping()
    }

    fn measures(&self) -> Vec<Measure> {
        self.store.measures().into_iter().chain(self.shared.measures()).collect()
    }
}

impl<L: OpenedLimit> OpenedLimit for BreakerLimit<L> {
    fn inner(&self) -> Option<&dyn OpenedLimit> {
        Some(&self.opened)
    }

    fn limit(&self) -> &Limit {
        self.opened.limit()
    }

    fn ask<'a>(
        &'a self,
        request: Request<'a>,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
        let shared = &self.shared;
        let nodes = self.opened.nodes(&request);
        let later = match self.opened.ask(request) {
            // The store has answered already, so there is no call to guard.
            Answer::Now(answer) => return Answer::Now(answer),
            Answer::Later(later) => later,
        };
        let whole = nodes.is_empty().then_some(None);
        // A report that is dropped before the answer counts as unknown.
        let mut reports: SmallVec<[Report<'_>; 1]> = SmallVec::new();
        for node in nodes.into_iter().map(Some).chain(whole) {
            let guarded = shared.guarded(node);
            match shared.enter(&guarded) {
                Pass::Refuse(micros) => {
                    return Answer::Now(Err(guarded.refusal(micros).at(node).into()));
                }
                Pass::Ask(number) => {
                    reports.push(Report { shared, guarded, node, number, is_told: false });
                }
            }
        }
        Answer::Later(later)
            .inspect(move |answer| reports.into_iter().for_each(|report| report.tell(answer)))
    }
}

/// The guarded nodes. Most stores have none, so there is nothing to count references of.
enum Watched<'s> {
    Whole(&'s Guarded),
    Node(Arc<Guarded>),
}

impl Deref for Watched<'_> {
    type Target = Guarded;

    fn deref(&self) -> &Guarded {
        match self {
            Self::Whole(guarded) => guarded,
            Self::Node(guarded) => guarded,
        }
    }
}

/// Reports the outcome of a call at a node, once.
struct Report<'s> {
    shared: &'s Shared,
    guarded: Watched<'s>,
    node: Option<NodeId>,
    number: u64,
    is_told: bool,
}

impl Report<'_> {
    fn tell(mut self, answer: Result<&Decision, &Error>) {
        self.is_told = true;
        let outcome = match answer {
            Ok(_) => Outcome::Answered,
            Err(Error::Store(error))
                if error.node().is_some_and(|node| Some(node) != self.node) =>
            {
                Outcome::Unknown
            }
            // The server works, and decides for limits that need no replicas.
            Err(Error::Store(error)) if error.kind() == StoreErrorKind::Unacknowledged => {
                Outcome::Answered
            }
            Err(Error::Store(error)) if error.kind() != StoreErrorKind::Overloaded => {
                Outcome::Failed
            }
            Err(_) => Outcome::Unknown,
        };
        let error = answer.err().and_then(Error::as_store);
        self.shared.report(&self.guarded, self.node, self.number, outcome, error);
    }
}

impl Drop for Report<'_> {
    fn drop(&mut self) {
        if !self.is_told {
            let Self { shared, guarded, node, number, .. } = self;
            shared.report(guarded, *node, *number, Outcome::Unknown, None);
        }
    }
}

impl Shared {
    fn now(&self) -> u64 {
        self.clock.now().as_micros()
    }

    fn guarded(&self, node: Option<NodeId>) -> Watched<'_> {
        let Some(node) = node else { return Watched::Whole(&self.whole) };
        let nodes = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = nodes.get(&node) {
            return Watched::Node(Arc::clone(known));
        }
        drop(nodes);
        let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        Watched::Node(Arc::clone(nodes.entry(node).or_default()))
    }

    fn enter(&self, guarded: &Guarded) -> Pass {
        match guarded.clean.load(Ordering::Acquire) {
            NOT_CLEAN => {
                let now = self.now();
                guarded.change(|circuit| circuit.enter(&self.rules, now))
            }
            number => Pass::Ask(number),
        }
    }

    fn report(
        &self,
        guarded: &Guarded,
        node: Option<NodeId>,
        number: u64,
        outcome: Outcome,
        error: Option<&StoreError>,
    ) {
        if outcome == Outcome::Answered && guarded.clean.load(Ordering::Acquire) == number {
            return;
        }
        let (now, chance) = (self.now(), fastrand::u64(0..=1_000));
        let change =
            guarded.change(|circuit| circuit.report(&self.rules, now, number, outcome, chance));
        match (change, error) {
            (None, _) => {}
            (Some(Change::Opened(pause)), Some(error)) => {
                guarded.set_error(Some(error.clone()));
                guarded.opened.fetch_add(1, Ordering::Relaxed);
                let change = BreakerChange::Opened {
                    pause: Duration::from_micros(pause),
                    because: error.clone(),
                };
                self.tell(&BreakerEvent { store: self.store.clone(), node, change });
            }
            (Some(Change::StillOpen(_)), error) => guarded.set_error(error.cloned()),
            (Some(Change::Closed(after)), _) => {
                guarded.set_error(None);
                let change = BreakerChange::Closed { after: Duration::from_micros(after) };
                self.tell(&BreakerEvent { store: self.store.clone(), node, change });
            }
            (Some(Change::Opened(_)), None) => {}
        }
    }

    #[cold]
    fn tell(&self, event: &BreakerEvent) {
        match &event.change {
            BreakerChange::Opened { .. } => tracing::warn!("{event}"),
            BreakerChange::Closed { .. } => tracing::info!("{event}"),
        }
        if let Some(tell) = &self.on_change {
            tell(event);
        }
    }

    fn measures(&self) -> Vec<Measure> {
        let nodes = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = nodes.iter().map(|(node, it)| (node.0.to_string(), &**it)).collect();
        // For requests that don't go to specific nodes.
        all.push((String::new(), &self.whole));
        all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let each = |measure: &dyn Fn(&Guarded) -> Measure| {
            all.iter().map(|(node, guarded)| measure(guarded).label("node", node)).collect()
        };
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let help = "1 while the breaker of the store, or of this node, is open";
        let mut measures: Vec<Measure> = each(&|guarded| {
            Measure::gauge("breaker_open", help, u64::from(guarded.change(|it| it.is_open())))
        });
        let help = "Number of times that the breaker of the store, or of this node, opened";
        measures.extend(each(&|guarded| {
            Measure::counter("breaker_openings", help, read(&guarded.opened))
        }));
        let help = "Requests that failed without a call to the store, because the breaker is open";
        measures.extend(each(&|guarded| {
            Measure::counter("breaker_refusals", help, read(&guarded.refused))
        }));
        measures
    }
}

impl Guarded {
    fn change<T>(&self, change: impl FnOnce(&mut Circuit) -> T) -> T {
        // Nothing that is done under this lock panics half way.
        let mut circuit = self.circuit.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut circuit);
        self.clean.store(circuit.clean().unwrap_or(NOT_CLEAN), Ordering::Release);
        changed
    }

    fn set_error(&self, error: Option<StoreError>) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }

    fn refusal(&self, micros: u64) -> StoreError {
        self.refused.fetch_add(1, Ordering::Relaxed);
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let why = error.map_or_else(String::new, |error| {
            // The sentence is about the failed call, and this one ends with its own.
            let error = error.to_string();
            format!(": {}", error.strip_suffix("; nothing was charged").unwrap_or(&error))
        });
        let when = match micros.div_ceil(1_000) {
            0 => "one request is probing the store".to_owned(),
            millis => format!("the next attempt is in {millis} ms"),
        };
        StoreError::new(
            StoreErrorKind::Unavailable,
            format!(
                "the circuit breaker is open because the store failed{why}; {when}; nothing was charged"
            ),
        )
    }
}

impl fmt::Display for BreakerEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node {
            None => write!(f, "the store {}", self.store)?,
            Some(NodeId(node)) => write!(f, "node {node} of the store {}", self.store)?,
        }
        match &self.change {
            BreakerChange::Opened { pause, because } => {
                write!(
                    f,
                    " fails, so the breaker is open for {}: {because}",
                    Span::from(*pause).in_words()
                )
            }
            BreakerChange::Closed { after } => {
                write!(f, " has recovered after {}", Span::from(*after).in_words())
            }
        }
    }
}

show_briefly!(Breaker, BreakerLimit);

impl<S: Store> fmt::Debug for BreakerBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BreakerBuilder")
            .field("store", &self.store.id())
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}
