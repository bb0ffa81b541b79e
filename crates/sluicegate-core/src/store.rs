//! Where state lives and decisions are made atomically.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::decision::Decision;
use crate::limit::Limit;
use crate::request::{Request, TimeSource};
use crate::slices::SliceCounts;

/// A place where state lives and decisions are made atomically.
///
/// Stores stack: whatever adds something to a store is a store around a store, and its handle
/// holds the inner store's handle.
pub trait Store: Send + Sync + 'static {
    /// What the store prepares once per limit, so that a decision looks nothing up by name.
    type Handle: Send + Sync + 'static;

    /// What it takes to give a reservation back.
    type Receipt: Send + Sync + 'static;

    /// Prepares a limit. Handles of one limit name share state: policies find theirs by name.
    fn open(&self, limit: Arc<Limit>, time: TimeSource) -> Self::Handle;

    /// Answers one request.
    fn decide<'a>(
        &'a self,
        handle: &'a Self::Handle,
        request: Request<'a>,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send + 'a;

    /// Answers a request at once if that takes no waiting; `None` when it does.
    ///
    /// A caller that is itself not asynchronous, or that wants no future for what needs none,
    /// asks here first.
    fn decide_at_once(
        &self,
        _handle: &Self::Handle,
        _request: Request<'_>,
    ) -> Option<Result<Decision, StoreError>> {
        None
    }

    /// Answers a request of [`Operation::Reserve`](crate::Operation::Reserve); an admitted one
    /// has a receipt, with which it can be cancelled.
    fn reserve<'a>(
        &'a self,
        handle: &'a Self::Handle,
        request: Request<'a>,
    ) -> impl Future<Output = Result<(Decision, Option<Self::Receipt>), StoreError>> + Send + 'a;

    /// Gives the units of a reservation back if nothing was charged after it to any of its
    /// subjects, and tells whether that was so. Otherwise they are lost: whoever came later was
    /// told an instant that counts on them.
    fn cancel<'a>(
        &'a self,
        handle: &'a Self::Handle,
        receipt: &'a Self::Receipt,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send + 'a;

    /// Reads the slices of a limit that is a ring ([`SliceCounts::ring`]). The request's operation
    /// and costs are of no matter; nothing is written.
    fn slices<'a>(
        &'a self,
        handle: &'a Self::Handle,
        request: Request<'a>,
    ) -> impl Future<Output = Result<SliceCounts, StoreError>> + Send + 'a;
}

/// A store that answers without waiting for anything.
pub trait EmbeddedStore: Store {
    /// Answers one request at once.
    ///
    /// # Errors
    /// See [`StoreErrorKind`].
    fn decide_now(
        &self,
        handle: &Self::Handle,
        request: Request<'_>,
    ) -> Result<Decision, StoreError>;
}

/// A store that could not answer, or a question that it can't answer.
#[derive(Clone, Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The connection broke before the answer came. Whether it charged is unknown; it counts as
    /// charged.
    Disconnected,
    /// The question is malformed: a cost out of range, a time missing or not wanted.
    InvalidRequest,
    /// The cost or debt is beyond what a state can hold (2^53 − 1; a log: 65,536 entries).
    Overflow,
    /// The store did not answer within the deadline. Whether it charged is unknown; it counts as
    /// charged.
    Timeout,
    /// The store can't be reached. Nothing was charged.
    Unavailable,
    /// The store answered something that makes no sense, or refused the command.
    Unexpected,
    /// The limit's policies don't offer the operation.
    Unsupported,
}

impl StoreError {
    /// An error of a kind, with a message that says what to change.
    #[must_use]
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// The same error with its cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Why there is no answer.
    #[must_use]
    pub const fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Whether the store is at fault rather than the question: what `on_store_failure` is for.
    #[must_use]
    pub const fn is_store_failure(&self) -> bool {
        matches!(
            self.kind,
            StoreErrorKind::Disconnected
                | StoreErrorKind::Timeout
                | StoreErrorKind::Unavailable
                | StoreErrorKind::Unexpected
        )
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

impl From<crate::kernel::Overflow> for StoreError {
    #[cold]
    fn from(overflow: crate::kernel::Overflow) -> Self {
        Self::new(StoreErrorKind::Overflow, overflow.to_string())
    }
}
