//! Reasons why a request got no decision: it is invalid, or the store failed.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::kernel::Overflow;

/// The reason why a request got no decision. A denial isn't an error.
///
/// The two variants call for different reactions. An invalid request is a bug in the caller. For a
/// failed store, the limit's `on_store_failure` decides.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The request is invalid for this limit. Nothing was charged.
    Request(RequestError),
    /// The store couldn't answer.
    Store(StoreError),
}

/// A request that is invalid for its limit, regardless of the store's state.
#[derive(Clone, Debug)]
pub struct RequestError(Box<(RequestErrorKind, String)>);

/// The reason why a limit can't answer a request.
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
    /// The id of the hold or request belongs to another one. Nothing was charged.
    Conflict,
    /// The subject has the maximum number of holds or request ids. Nothing was charged.
    Full,
    /// The caps of a bounded store don't fit one key of each open limit, including this one.
    /// Nothing was charged.
    StoreTooSmall,
    /// The limit doesn't count this key: it is empty, or doesn't fit the limit's `key`. Nothing was
    /// charged. For registries of limits by name.
    UnfitKey,
    /// No limit has the requested name, a mistake in the program or its configuration. No request
    /// was sent. For registries of limits by name.
    UnknownLimit,
    /// The store must be awaited, but the caller wanted an immediate answer, or awaits outside of a
    /// tokio runtime. No request was sent.
    WouldBlock,
}

/// The failure of a store to answer.
#[derive(Clone, Debug)]
pub struct StoreError(Box<Failure>);

#[derive(Clone, Debug)]
struct Failure {
    kind: StoreErrorKind,
    node: Option<NodeId>,
    message: String,
    cause: Option<Arc<dyn StdError + Send + Sync>>,
}

/// One of a store's nodes.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NodeId(pub u64);

/// The reason why a store couldn't answer.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The connection broke before the answer arrived. It is unknown whether the store charged;
    /// treat the units as charged.
    Disconnected,
    /// The store didn't answer within the deadline. It is unknown whether the store charged; treat
    /// the units as charged.
    Timeout,
    /// The store can't be reached. Nothing was charged.
    Unavailable,
    /// The store is too busy to answer within the deadline, so no request was sent. Nothing was
    /// charged.
    Overloaded,
    /// The store decided, but too few replicas acknowledged the decision in time.
    /// [`OpenOptions::acknowledged`](crate::OpenOptions::acknowledged) sets their number. The store
    /// may have charged, and a failover may lose the charge.
    Unacknowledged,
    /// The store refused the command, or its answer is malformed.
    Unexpected,
}

impl Error {
    /// Returns `true` if the store failed, so `on_store_failure` applies.
    #[must_use]
    pub const fn is_store_failure(&self) -> bool {
        matches!(self, Self::Store(_))
    }

    /// Returns the store's failure, if the store failed.
    #[must_use]
    pub const fn as_store(&self) -> Option<&StoreError> {
        match self {
            Self::Store(error) => Some(error),
            Self::Request(_) => None,
        }
    }

    /// Returns the problem of the request, if the request is invalid.
    #[must_use]
    pub const fn as_request(&self) -> Option<&RequestError> {
        match self {
            Self::Request(error) => Some(error),
            Self::Store(_) => None,
        }
    }
}

impl RequestError {
    /// Creates an error of `kind`. `message` should say what to change.
    #[cold]
    #[must_use]
    pub fn new(kind: RequestErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new((kind, message.into())))
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> RequestErrorKind {
        self.0.0
    }
}

impl StoreError {
    /// Creates an error of `kind`. `message` should say what to change.
    #[cold]
    #[must_use]
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Failure { kind, node: None, message: message.into(), cause: None }))
    }

    /// Adds the cause of the error. The message should contain its text.
    #[must_use]
    pub fn with_cause(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.cause = Some(Arc::from(cause.into()));
        self
    }

    /// Returns the cause of the error, such as an I/O error or that of a limit's maker.
    ///
    /// It isn't the error's [source](StdError::source): the message contains its text, and a report of
    /// all sources would repeat it.
    #[must_use]
    pub fn cause(&self) -> Option<&(dyn StdError + Send + Sync + 'static)> {
        self.0.cause.as_deref()
    }

    /// Adds the node that failed, if the request went to several nodes.
    #[must_use]
    pub fn at(mut self, node: Option<NodeId>) -> Self {
        self.0.node = node;
        self
    }

    /// Returns the kind of the failure.
    #[must_use]
    pub fn kind(&self) -> StoreErrorKind {
        self.0.kind
    }

    /// Returns `true` if the store may have decided and its decision is unknown.
    ///
    /// A retry is safe only with the request's [id](crate::Request::idempotent).
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

    /// Returns `true` if the store was unreachable or too busy, so it charged nothing.
    ///
    /// The same request may pass soon, and a retry is safe.
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

    /// Returns the node that failed. `None` if the request went to one node only, or if the node is
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

impl StdError for Error {}

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

impl StdError for StoreError {}

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
