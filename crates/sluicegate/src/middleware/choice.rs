//! Limits that a function chooses for each request.

use std::error::Error as StdError;
use std::fmt;
use std::future::ready;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;
use sluicegate_core::{BoxFuture, Error, StoreError, StoreErrorKind};
use sluicegate_http::RequestView;

use crate::registry::Gate;
use crate::seldom::Seldom;

/// The result of a function that chooses the limits of a request ([`Middleware::by`](super::Middleware::by)).
///
/// It is a [`Gate`], or a future of a gate or of a `Result` with one.
pub trait Choice {
    /// Returns the choice as a future.
    fn into_chosen(self) -> Chosen;
}

/// The future of a choice.
pub type Chosen = BoxFuture<'static, Result<Gate, Error>>;

impl Choice for Gate {
    fn into_chosen(self) -> Chosen {
        Box::pin(ready(Ok(self)))
    }
}

impl<F: Future<Output: GateOrError> + Send + 'static> Choice for F {
    fn into_chosen(self) -> Chosen {
        Box::pin(async move { self.await.gate_or_error() })
    }
}

/// A gate, or a `Result` with one.
pub trait GateOrError {
    /// Returns the gate.
    ///
    /// # Errors
    /// Returns the error of the choice.
    fn gate_or_error(self) -> Result<Gate, Error>;
}

impl GateOrError for Gate {
    fn gate_or_error(self) -> Result<Gate, Error> {
        Ok(self)
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>>> GateOrError for Result<Gate, E> {
    fn gate_or_error(self) -> Result<Gate, Error> {
        self.map_err(|error| match error.into().downcast::<Error>() {
            Ok(error) => *error,
            Err(other) => {
                let message = format!("the limits of the request can't be chosen: {other}");
                StoreError::new(StoreErrorKind::Unavailable, message).with_cause(other).into()
            }
        })
    }
}

/// The function that chooses the limits of a request.
pub(super) type Choose = Arc<dyn Fn(&dyn RequestView) -> Chosen + Send + Sync>;

/// The maximum number of gates with settings of their own.
const MOST: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1_023);

/// The settings for each of the gates that a function chose, made once. The least recently used ones leave.
pub(super) struct ByGate<R>(Mutex<LruCache<usize, (Gate, R)>>);

impl<R: Clone> ByGate<R> {
    /// Returns the settings for a gate, or those that `make` returns.
    pub(super) fn get_or_make(&self, gate: Gate, make: impl FnOnce(&Gate) -> R) -> R {
        let mut by_gate = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The entry has the gate, so no other gate gets its identity.
        let (_, rules) = by_gate.get_or_insert(gate.identity(), || {
            let rules = make(&gate);
            (gate, rules)
        });
        rules.clone()
    }
}

impl<R> Default for ByGate<R> {
    fn default() -> Self {
        let mut by_gate = LruCache::unbounded();
        by_gate.resize(MOST);
        Self(Mutex::new(by_gate))
    }
}

impl<R> Clone for ByGate<R> {
    /// Returns an empty one: the settings of a clone may change.
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// A middleware whose limits a function chooses.
#[derive(Clone)]
pub(super) struct Chooser<R> {
    pub(super) choose: Choose,
    pub(super) by_gate: ByGate<R>,
    /// Requests whose limits can't be chosen are logged.
    pub(super) unchosen: Arc<Seldom>,
}

impl<R> Chooser<R> {
    pub(super) fn new<C: Choice>(
        choose: impl Fn(&dyn RequestView) -> C + Send + Sync + 'static,
    ) -> Self {
        let choose = Arc::new(move |request: &dyn RequestView| choose(request).into_chosen());
        Self { choose, by_gate: ByGate::default(), unchosen: Arc::default() }
    }

    /// Logs that the limits of a request can't be chosen, because its client gets no details.
    #[cold]
    pub(super) fn tell(&self, error: &Error) {
        self.unchosen.tell(|more| {
            tracing::warn!(
                "the limits of a request can't be chosen, so it is refused: {error}{more}"
            );
        });
    }
}

impl<R> fmt::Debug for Chooser<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chooser").finish_non_exhaustive()
    }
}
