//! A service as a store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use hyper::header::HeaderValue;
use sluicegate_core::for_stores::Driver;
use sluicegate_core::{
    BoxFuture, Limit, OpenOptions, Span, Store, StoreError, StoreErrorKind, StoreId, TimeSource,
};
use tokio::time::Instant;

use crate::answer::Reply;
use crate::connections::{Connections, Deadline, NAME};
use crate::limit::RemoteLimit;
use crate::reply;
use crate::service::Service;
use crate::url::{ServiceUrl, UrlError};

/// A running service as a store. Cloning is cheap, and clones share connections.
///
/// ```
/// use sluicegate::{Error, Limiter};
/// use sluicegate::error::StoreErrorKind;
/// use sluicegate_client::RemoteStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// // Nobody listens there.
/// let store = RemoteStore::connect("http://127.0.0.1:1")?;
/// let limiter = Limiter::new(store, sluicegate::Limit::new("demo", ["token_bucket 10/s burst 20"])?);
/// let error = limiter.check("alice").await.unwrap_err();
/// assert_eq!(error.as_store().map(|error| error.kind()), Some(StoreErrorKind::Unavailable));
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct RemoteStore {
    service: Arc<Service>,
}

/// A builder for a [`RemoteStore`].
#[derive(Clone)]
#[must_use]
pub struct RemoteStoreBuilder {
    url: ServiceUrl,
    token: Option<HeaderValue>,
    sends_policies: bool,
    deadline: Span,
}

impl RemoteStore {
    /// Returns a store for the service at `http://HOST[:PORT]` or `https://HOST[:PORT]`. The URL
    /// may have a path in front of the service's own paths. Doesn't connect yet.
    ///
    /// # Errors
    /// Returns an error if the URL is invalid; the message says what to write.
    pub fn connect(url: &str) -> Result<Self, UrlError> {
        Ok(Self::builder(url)?.build())
    }

    /// Returns a builder for the service at `url`, to set a token and a deadline.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sluicegate_client::RemoteStore;
    /// use sluicegate_core::Store as _;
    ///
    /// let store = RemoteStore::builder("https://limits.example.org")?
    ///     .token("s3cret")
    ///     .deadline(Duration::from_millis(300))
    ///     .build();
    /// assert_eq!(store.id().to_string(), "https://limits.example.org");
    /// assert!(RemoteStore::builder("limits.example.org").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the URL is invalid; the message says what to write.
    pub fn builder(url: &str) -> Result<RemoteStoreBuilder, UrlError> {
        Ok(Self::at(url.parse()?))
    }

    /// Returns a builder for the service at a parsed URL.
    pub const fn at(url: ServiceUrl) -> RemoteStoreBuilder {
        RemoteStoreBuilder { url, token: None, sends_policies: false, deadline: Span::SECOND }
    }

    /// Sends a request in the service's format and returns the unparsed answer.
    ///
    /// Sends a POST with the JSON `body`, or a GET without one. `path` is a path of the OpenAPI
    /// document, with its query.
    ///
    /// Use it in programs that forward answers; limiters parse them. The request carries the
    /// token, if there is one. `wait` is the wait that the request specifies; it extends the deadline.
    /// While the service can't be reached, connecting is retried every 100 ms for that time.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sluicegate_client::{Method, RemoteStore};
    /// use sluicegate_core::StoreErrorKind;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// // Nobody listens there.
    /// let store = RemoteStore::connect("http://127.0.0.1:1")?;
    /// let body = br#"{"limit": "demo", "key": "alice"}"#.to_vec();
    /// let error = store.exchange(Method::POST, "/v1/check", Some(body), Duration::ZERO).await.unwrap_err();
    /// assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the service can't be reached, or doesn't answer by the deadline. An answer with an error is
    /// a [`Reply`].
    pub async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
        wait: Duration,
    ) -> Result<Reply, StoreError> {
        const PAUSE: Duration = Duration::from_millis(100);
        Driver::check_connection(NAME)?;
        let Service { connections, token, deadline, .. } = &*self.service;
        let (token, wait) = (token.as_ref(), Duration::from(Span::from(wait)));
        let deadline = Deadline::after(Duration::from(*deadline) + wait);
        let may_connect_until = Instant::now() + wait;
        loop {
            match connections.exchange((method.clone(), path), token, body.clone(), deadline).await
            {
                Err(error)
                    if error.kind() == StoreErrorKind::Unavailable
                        && Instant::now() < may_connect_until =>
                {
                    tokio::time::sleep(PAUSE).await;
                }
                sent => return sent,
            }
        }
    }
}

impl RemoteStoreBuilder {
    /// Sets the token: that of a client of the service, or its admin token. If the service has
    /// clients, all requests need one; otherwise charges, refunds, resets, bans and lists need the
    /// admin token, if there is one.
    ///
    /// A token that is invalid in an HTTP header field is omitted, so the service reports that it
    /// is missing.
    pub fn token(mut self, token: &str) -> Self {
        self.token = HeaderValue::try_from(format!("Bearer {}", token.trim())).ok();
        if let Some(token) = &mut self.token {
            token.set_sensitive(true);
        }
        self
    }

    /// Sends the policies of each opened limit with its requests. The service needs no limit of that
    /// name, but the setting `limits_in_requests: true`.
    pub const fn limits_in_requests(mut self) -> Self {
        self.sends_policies = true;
        self
    }

    /// Sets the deadline of an answer, connecting included. Default: 1 s.
    ///
    /// A limit that is opened with its own deadline uses that one. A caller that can wait has
    /// another second to connect. Choose a deadline longer than the service's deadline for its
    /// store.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline.into();
        self
    }

    /// Returns the store, which doesn't connect yet.
    #[must_use]
    pub fn build(self) -> RemoteStore {
        let Self { url, token, sends_policies, deadline } = self;
        let connections = Arc::new(Connections::new(url));
        RemoteStore { service: Arc::new(Service { connections, token, sends_policies, deadline }) }
    }
}

impl Store for RemoteStore {
    type Opened = RemoteLimit;

    fn inner(&self) -> Option<&dyn Store> {
        None
    }

    /// Returns the URL.
    fn id(&self) -> StoreId {
        self.service.id()
    }

    /// Opens a limit. The service must have a limit of this name with policies of these names.
    fn open(&self, limit: Limit, options: OpenOptions) -> RemoteLimit {
        let deadline = options.deadline.map_or(self.service.deadline, Span::from);
        let is_injected = matches!(options.time, TimeSource::Injected { .. });
        RemoteLimit::new(Arc::clone(&self.service), limit, deadline, is_injected)
    }

    /// Checks that the service is ready and that its store answers.
    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async {
            Driver::check_connection(NAME)?;
            let Service { connections, deadline, .. } = &*self.service;
            // Usually called at startup, before any connection exists.
            let deadline = Deadline::connecting_within(*deadline, Span::MAX);
            let reply = connections.exchange((Method::GET, "/readyz"), None, None, deadline).await;
            reply::readiness(&self.id(), &reply?)
        })
    }
}

impl fmt::Debug for RemoteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RemoteStore").field(&self.id()).finish()
    }
}

impl fmt::Debug for RemoteStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteStoreBuilder")
            .field("url", &self.url.to_string())
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
