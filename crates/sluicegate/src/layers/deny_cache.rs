//! A deny cache: a denied request is denied again without calling the store.

mod memory;

use std::fmt;
use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::Arc;

use sluicegate_core::{
    Answer, BoxFuture, Clock, Decision, DeniedCharge, Enforcement, Error, Limit, Measure,
    OpenOptions, OpenedLimit, Operation, Request, RetryAfter, Source, Span, Store, StoreError,
    StoreId, TimeSource,
};

use super::clock::SuspendAwareClock;
use super::fingerprint::Fingerprint;
use super::layer::show_briefly;
use super::options::RemembersDenials;
use memory::{Denial, Memory, Unknown};

/// A store that remembers denials.
///
/// After a denial, a check of the same key at the same or a higher cost is denied immediately. That lasts until the
/// first one could pass, for a second at most. The cache never admits. It never denies what the store would admit,
/// except after another process gave units back: it notices that after a second at most. It notices immediately when
/// this process gives units back, cancels or resets. A denial by a pause isn't remembered. A check that costs more gets the minimum of its wait: the wait of
/// the remembered denial.
///
/// The cache serves single limits, not several decided together. It doesn't serve limits with a shadow policy or with
/// one that charges denials, because those have to see every request. Its decisions have the source
/// [`Source::DenyCache`]. Their remaining units, and when states are fresh, are those of the store's last answer.
///
/// ```
/// use sluicegate::layers::DenyCache;
/// use sluicegate::{Limiter, MemoryStore};
/// use sluicegate::decision::Source;
///
/// let store = DenyCache::new(MemoryStore::new());
/// let limiter = Limiter::new(store, sluicegate::Limit::new("login", ["gcra 1/h"])?);
/// assert!(limiter.check("alice").now()?.is_allowed());
/// assert_eq!(limiter.check("alice").now()?.source(), Source::Store);
/// let again = limiter.check("alice").now()?;
/// assert!(again.is_denied());
/// assert_eq!(again.source(), Source::DenyCache);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct DenyCache<S> {
    store: S,
    shared: Arc<Shared>,
    serves: bool,
}

/// A limit that a [`DenyCache`] has opened.
pub struct DenyCacheLimit<L> {
    opened: L,
    shared: Arc<Shared>,
    /// Whether checks may be answered from memory.
    serves: bool,
}

/// A builder of a [`DenyCache`].
#[must_use = "a builder does nothing until `build`"]
pub struct DenyCacheBuilder<S> {
    store: S,
    most: NonZeroUsize,
    clock: Arc<dyn Clock>,
    serves: bool,
}

struct Shared {
    clock: Arc<dyn Clock>,
    memory: Memory,
}

/// Maximum time for which a denial is remembered.
const LONGEST: Span = Span::SECOND;
/// Default number of denials that are remembered.
const MOST: NonZeroUsize = NonZeroUsize::MIN.saturating_add(65_535);

impl<S: Store> DenyCache<S> {
    /// Makes a store that remembers up to 65,536 denials, of all its limits.
    pub fn new(store: S) -> Self {
        Self::builder(store).build()
    }

    /// Configures a store that remembers denials.
    pub fn builder(store: S) -> DenyCacheBuilder<S> {
        DenyCacheBuilder {
            store,
            most: MOST,
            clock: Arc::new(SuspendAwareClock::new()),
            serves: true,
        }
    }
}

impl<S: Store> DenyCacheBuilder<S> {
    /// Sets the maximum number of denials that are remembered; each takes about 400 bytes. Default: 65,536.
    pub const fn most(mut self, most: NonZeroUsize) -> Self {
        self.most = most;
        self
    }

    /// Sets whether it serves limits that are opened without [`RemembersDenials`]. Default: yes.
    pub const fn by_default(mut self, serves: bool) -> Self {
        self.serves = serves;
        self
    }

    /// Sets the clock, for tests; it must not go back. Default: [`SuspendAwareClock`].
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Builds the store.
    #[must_use]
    pub fn build(self) -> DenyCache<S> {
        let Self { store, most, clock, serves } = self;
        DenyCache { store, shared: Arc::new(Shared { clock, memory: Memory::new(most) }), serves }
    }
}

impl<S: Store> Store for DenyCache<S> {
    type Opened = DenyCacheLimit<S::Opened>;

    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.store)
    }

    fn id(&self) -> StoreId {
        self.store.id()
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> Self::Opened {
        let wanted = options.for_layer::<RemembersDenials>();
        let serves = wanted.map_or(self.serves, |wanted| wanted.0)
            && matches!(options.time, TimeSource::Store)
            && is_served(&limit);
        DenyCacheLimit {
            opened: self.store.open(limit, options),
            shared: Arc::clone(&self.shared),
            serves,
        }
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.store.ping()
    }

    fn measures(&self) -> Vec<Measure> {
        self.store.measures().into_iter().chain(self.shared.measures()).collect()
    }
}

impl<L: OpenedLimit> OpenedLimit for DenyCacheLimit<L> {
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
        let kind = self.kind(&request);
        let mut remembers = None;
        if let Kind::Check = kind {
            let limit = self.opened.limit();
            let subject = self.shared.memory.subject(limit.parts()[0].as_str(), request.key());
            let cost_of = |index| request.cost_of(limit, index);
            let sent = self.shared.now();
            match self.shared.memory.find(subject, limit, cost_of, sent) {
                Ok(denial) => return Answer::Now(Ok(denial)),
                Err(unknown) => {
                    let shared = &self.shared;
                    remembers = Some(Remembers { shared, subject, request, sent, unknown });
                }
            }
        }
        // Before the call, and again after it.
        let forgets = matches!(kind, Kind::GivesBack).then(|| Forgets::new(self, &request));
        self.opened.ask(request).inspect(move |answer| {
            match (answer, remembers) {
                (Ok(decision), Some(remembers)) => remembers.decision(self.limit(), decision),
                // The wait of an earlier denial is now longer.
                (Ok(decision), None) if decision.taken_at().is_some() => {
                    self.subjects(&request).for_each(|subject| self.shared.memory.drop(subject));
                }
                _ => {}
            }
            drop(forgets);
        })
    }
}

/// The effect of a request on the cache.
enum Kind {
    /// A check, which may be answered from memory and is remembered.
    Check,
    /// Earlier denials may be wrong after it.
    GivesBack,
    Other,
}

impl<L: OpenedLimit> DenyCacheLimit<L> {
    fn subjects(&self, request: &Request<'_>) -> impl Iterator<Item = Fingerprint> {
        let parts = self.opened.limit().parts().iter().enumerate();
        parts.map(|(part, name)| self.shared.memory.subject(name.as_str(), request.subject(part)))
    }

    fn kind(&self, request: &Request<'_>) -> Kind {
        match request.operation() {
            Operation::Check
                if self.serves
                    && !request.wants_receipt()
                    && request.holds().is_none()
                    && request.idempotency().is_none()
                    && request.validate(self.opened.limit()).is_ok() =>
            {
                Kind::Check
            }
            Operation::Refund
            | Operation::GiveBack { .. }
            | Operation::Reset
            | Operation::Cancel(_)
            | Operation::Settle { .. } => Kind::GivesBack,
            _ => Kind::Other,
        }
    }
}

/// A check that was sent, and may be denied.
struct Remembers<'s> {
    shared: &'s Shared,
    subject: Fingerprint,
    request: Request<'s>,
    /// In µs.
    sent: u64,
    unknown: Unknown,
}

impl Remembers<'_> {
    fn decision(self, limit: &Limit, decision: &Decision) {
        let Self { shared, subject, request, sent, unknown } = self;
        if decision.is_allowed() {
            // The wait of a denial for other costs is now longer.
            if unknown.is_known_otherwise {
                shared.memory.drop(subject);
            }
            return;
        }
        let is_ours = decision.source() == Source::Store && decision.binding_index().is_some();
        if let RetryAfter::After(retry) = decision.retry_after()
            && is_ours
        {
            let until = sent.saturating_add(Span::from(retry).min(LONGEST).as_micros());
            let costs = (0..limit.members().len()).map(|index| request.cost_of(limit, index));
            let (costs, decision) = (costs.collect(), decision.clone());
            let (limit, came) = (limit.clone(), shared.now());
            let denial = Denial { limit, costs, decision, came, until };
            shared.memory.remember(subject, unknown.era, denial);
        }
    }
}

/// The subjects of a request that gives units back. Their denials are forgotten now, and again when the request has
/// ended, regardless of its outcome.
struct Forgets<'s> {
    shared: &'s Shared,
    subjects: Vec<Fingerprint>,
}

impl<'s> Forgets<'s> {
    fn new<L: OpenedLimit>(limit: &'s DenyCacheLimit<L>, request: &Request<'_>) -> Self {
        let subjects = limit.subjects(request).collect();
        let forgets = Self { shared: &limit.shared, subjects };
        forgets.now();
        forgets
    }

    fn now(&self) {
        self.subjects.iter().for_each(|subject| self.shared.memory.forget(*subject));
    }
}

impl Drop for Forgets<'_> {
    fn drop(&mut self) {
        self.now();
    }
}

impl Shared {
    fn now(&self) -> u64 {
        self.clock.now().as_micros()
    }

    fn measures(&self) -> Vec<Measure> {
        let help = "Denials that were repeated without a call to the store";
        vec![Measure::counter("deny_cache_answers", help, self.memory.answers())]
    }
}

/// Returns whether denials of a limit depend only on the units taken.
fn is_served(limit: &Limit) -> bool {
    limit.parts().len() == 1
        && !limit.has_permits()
        && !limit.has_bans()
        && limit.members().iter().all(|member| {
            let policy = member.policy();
            policy.enforcement() == Enforcement::Enforced
                && policy.denied_charge() == DeniedCharge::Free
        })
}

show_briefly!(DenyCache, DenyCacheLimit);

impl<S: Store> fmt::Debug for DenyCacheBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DenyCacheBuilder")
            .field("store", &self.store.id())
            .field("most", &self.most)
            .finish_non_exhaustive()
    }
}
