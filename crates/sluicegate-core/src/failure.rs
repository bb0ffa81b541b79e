//! Why a request got no decision: it is invalid, or the store failed.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::kernel::Overflow;

/// Why a request got no decision. A denial is not an error.
///
/// The two variants call for different reactions: an invalid request is a bug in the caller, while
/// the limit's `on_store_failure` says what a failing store means.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The request is invalid for this limit. Nothing was charged.
    Request(RequestError),
    /// The store could not answer.
    Store(StoreError),
}

/// A request that is invalid for its limit, whatever the state of the store.
#[derive(Clone, Debug)]
pub struct RequestError(Box<(RequestErrorKind, String)>);

/// Why a limit can't answer a request.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum RequestErrorKind {
    /// The request is malformed: for example a cost is out of range, a time is missing or
    /// unexpected, or there are too many subjects.
    Invalid,
    /// The cost or debt is beyond what a state can hold (2^53 − 1; a log: 65,536 entries).
    Overflow,
    /// The limit's policies don't offer the operation.
    Unsupported,
    /// The id of a hold, or of a request, is that of another one. Nothing was charged.
    Conflict,
    /// The subject has as many holds, or ids of requests, as it may. Nothing was charged.
    Full,
    /// The caps of a bounded store can't hold one key of each open limit, this one included. Nothing was
    /// charged.
    StoreTooSmall,
    /// The key isn't one that the limit counts: it is empty, or doesn't fit the limit's `key`. Nothing was
    /// charged. For registries of limits by name.
    UnfitKey,
    /// There is no limit of the name that was asked: a mistake in the program or its configuration.
    /// Nothing was asked. For registries of limits by name.
    UnknownLimit,
    /// The caller wanted an immediate answer from a store that has to be awaited. Nothing was
    /// asked.
    WouldBlock,
}

/// A store that could not answer.
#[derive(Clone, Debug)]
pub struct StoreError(Box<Failure>);

#[derive(Clone, Debug)]
struct Failure {
    kind: StoreErrorKind,
    node: Option<NodeId>,
    message: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// One of a store's nodes.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NodeId(pub u64);

/// Why a store could not answer.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The connection broke before the answer came. Whether it charged is unknown; it counts as
    /// charged.
    Disconnected,
    /// The store did not answer within the deadline. Whether it charged is unknown; it counts as
    /// charged.
    Timeout,
    /// The store can't be reached. Nothing was charged.
    Unavailable,
    /// The store has more to do than it can within the deadline, and was not asked. Nothing was
    /// charged.
    Overloaded,
    /// The store decided, but fewer replicas than asked for
    /// ([`OpenOptions::acknowledged`](crate::OpenOptions::acknowledged)) have said in time that they know
    /// it. It may have charged, and a failover may lose that.
    Unacknowledged,
    /// The store refused the command, or its answer makes no sense.
    Unexpected,
}

impl Error {
    /// Whether the store failed, so that `on_store_failure` applies.
    #[must_use]
    pub const fn is_store_failure(&self) -> bool {
        matches!(self, Self::Store(_))
    }

    /// The store's failure, if the store failed.
    #[must_use]
    pub const fn as_store(&self) -> Option<&StoreError> {
        match self {
            Self::Store(error) => Some(error),
            Self::Request(_) => None,
        }
    }

    /// What is wrong with the request, if the request is invalid.
    #[must_use]
    pub const fn as_request(&self) -> Option<&RequestError> {
        match self {
            Self::Request(error) => Some(error),
            Self::Store(_) => None,
        }
    }
}

impl RequestError {
    /// An error of `kind`. `message` should say what to change.
    #[cold]
    #[must_use]
    pub fn new(kind: RequestErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new((kind, message.into())))
    }

    /// What kind of error this is.
    #[must_use]
    pub fn kind(&self) -> RequestErrorKind {
        self.0.0
    }
}

impl StoreError {
    /// An error of `kind`. `message` should say what to change.
    #[cold]
    #[must_use]
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Failure { kind, node: None, message: message.into(), source: None }))
    }

    /// The same error with its cause.
    #[must_use]
    pub fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// The same error, of one of the nodes that the request went to.
    #[must_use]
    pub fn at(mut self, node: Option<NodeId>) -> Self {
        self.0.node = node;
        self
    }

    /// What kind of failure this is.
    #[must_use]
    pub fn kind(&self) -> StoreErrorKind {
        self.0.kind
    }

    /// Whether the store may have decided, and what it decided is unknown: asking again is safe only under
    /// the [id](crate::Request::once) that the request had.
    ///
    /// ```
    /// use sluicegate_core::{StoreError, StoreErrorKind};
    ///
    /// assert!(StoreError::new(StoreErrorKind::Timeout, "no answer").is_outcome_unknown());
    /// assert!(!StoreError::new(StoreErrorKind::Overloaded, "too much").is_outcome_unknown());
    /// ```
    #[must_use]
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(self.kind(), StoreErrorKind::Timeout | StoreErrorKind::Disconnected)
    }

    /// Returns `true` if the store has charged nothing because it couldn't be reached or has too much to do: the
    /// same request may pass soon, and sending it again is safe.
    ///
    /// ```
    /// use sluicegate_core::{StoreError, StoreErrorKind};
    ///
    /// assert!(StoreError::new(StoreErrorKind::Unavailable, "no connection").is_worth_a_retry());
    /// assert!(!StoreError::new(StoreErrorKind::Timeout, "no answer").is_worth_a_retry());
    /// ```
    #[must_use]
    pub fn is_worth_a_retry(&self) -> bool {
        matches!(self.kind(), StoreErrorKind::Unavailable | StoreErrorKind::Overloaded)
    }

    /// Which of the nodes failed that the request went to. `None` where there was one, and where it is
    /// unknown.
    #[must_use]
    pub fn node(&self) -> Option<NodeId> {
        self.0.node
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(error) => error.fmt(f),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Request(error) => error.source(),
            Self::Store(error) => error.source(),
        }
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.1)
    }
}

impl StdError for RequestError {}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl StdError for StoreError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

impl From<RequestError> for Error {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Overflow> for RequestError {
    #[cold]
    fn from(overflow: Overflow) -> Self {
        Self::new(RequestErrorKind::Overflow, overflow.to_string())
    }
}

impl From<Overflow> for Error {
    #[cold]
    fn from(overflow: Overflow) -> Self {
        Self::Request(overflow.into())
    }
}
