//! One limit with numbers for each key, which code finds at run time.

mod cache;
mod flight;

use std::error::Error as StdError;
use std::fmt;
use std::future::ready;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{
    BoxFuture, Error, IntoPolicy, Policy, RequestError, RequestErrorKind, Store, StoreError,
    StoreErrorKind,
};

use crate::ask::Ask;
use crate::blocking;
use crate::limiter::Limiter;
use crate::question::{WithNumbers, policies_of};
#[cfg(feature = "config")]
use crate::registry::{Gate, Registry};
use crate::seldom::Seldom;
use cache::Cache;
use flight::Making;

/// One limit whose numbers depend on the key, such as the plan of a tenant in a database. A function of the program,
/// its maker, returns the policies for a key.
///
/// It is made from a [`Limiter`](Limiter::keyed), or by [`Registry::keyed`] from a limit of a registry, and has the
/// methods of both. Cloning is cheap, and clones share everything.
///
/// ```
/// use sluicegate::{Limit, Limiter, MemoryStore, Policy, Rate};
/// use std::collections::HashMap;
/// use std::sync::{Arc, Mutex};
///
/// // Stands for a database.
/// let rates = Arc::new(Mutex::new(HashMap::from([("acme".to_owned(), 50)])));
/// let plans = Arc::clone(&rates);
/// let api = Limiter::new(MemoryStore::new(), Limit::new("api", ["token_bucket 5/h"])?).keyed(move |tenant: String| {
///     let plans = Arc::clone(&plans);
///     async move {
///         let rate = plans.lock().unwrap().get(&tenant).copied().ok_or("there is no such tenant")?;
///         Ok::<_, Box<dyn std::error::Error + Send + Sync>>([Policy::token_bucket(Rate::per_hour(rate), rate.into())?])
///     }
/// });
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// assert_eq!(api.check("acme").await?.remaining(), Some(49));
/// let error = api.check("mallory").await.unwrap_err();
/// assert!(error.to_string().contains("there is no such tenant"));
///
/// rates.lock().unwrap().insert("acme".to_owned(), 500);
/// api.forget("acme");
/// assert_eq!(api.check("acme").await?.remaining(), Some(498), "the unit that was used counts");
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # The maker
///
/// - **It gets the key** of the request; for several limits that are decided together, it gets the first one. Its
///   argument is a `String`, a `Vec<u8>`, an array of bytes or any other type that converts from bytes. A key that
///   doesn't convert is an error of kind [`UnfitKey`](RequestErrorKind::UnfitKey).
/// - **It has no time limit**: give it one, such as the timeout of the query. Requests that need new numbers wait until
///   it returns; the time of [`within`](crate::question::Question::within) begins after that.
/// - **It runs once for a key**, regardless of how many requests of a runtime wait for it. If the request that runs it is dropped,
///   another request continues the run. If no request waits any more, the run is dropped.
/// - **Its error is the error of the requests that wait for it**: an [`Error::Store`] of kind
///   [`Unavailable`](StoreErrorKind::Unavailable), whose [source](StdError::source) is the maker's error. Nothing was
///   charged, and the next request calls the maker again. Policies that form no limit are an error of kind
///   [`Invalid`](RequestErrorKind::Invalid).
/// - **Its panic** is the panic of one request. Another one that waits calls the maker again.
/// - **Without it**: if the limit is off, or if the key is on a list, the maker isn't called.
///
/// # How long numbers stay
///
/// The numbers of 10,000 keys are kept ([`capacity`](Self::capacity)); those of the key that was used the longest time
/// ago leave first. Numbers older than 5 minutes ([`ttl`](Self::ttl)) are made again. Requests use the old numbers until
/// the maker has returned, so a slow database delays no request. If the maker fails then, the old numbers stay, and the
/// log says so. The maker is called again a second later at the earliest.
///
/// [`forget`](Self::forget) lets the next request of this process wait for new numbers. Other processes have numbers of
/// their own. Let each of them forget the key, for example on a message of the database, or wait until the numbers are
/// made again. The units that a key has used are in the store. They belong to the key, the name of the limit, and the
/// policy's name, algorithm and window. So they stay if numbers change, are forgotten or leave.
///
/// # Endings
///
/// `.await` and `blocking()` wait for the maker. [`now`](crate::question::Question::now) returns
/// [`WouldBlock`](RequestErrorKind::WouldBlock) if the numbers of the key aren't known yet; then nothing was sent. For
/// numbers that are at hand, use [`with`](crate::question::Question::with).
pub struct Keyed<T> {
    inner: Arc<Inner<T>>,
}

struct Inner<T> {
    base: T,
    maker: Maker,
    cache: Cache<T>,
    /// Failures that no request gets, because the numbers of the key are known.
    unrefreshed: Seldom,
}

/// Returns the policies for a key.
type Maker =
    Box<dyn Fn(&[u8]) -> BoxFuture<'static, Result<Vec<Policy>, Error>> + Send + Sync + 'static>;

impl<T: WithNumbers> Keyed<T> {
    /// The longest key whose numbers are kept, in bytes, because clients choose keys.
    const LONGEST_KEY: usize = 1_024;

    fn new<K, F, P, E>(base: T, maker: impl Fn(K) -> F + Send + Sync + 'static) -> Self
    where
        K: TryFrom<Vec<u8>>,
        F: Future<Output = Result<P, E>> + Send + 'static,
        P: IntoIterator<Item: IntoPolicy>,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        let name: Arc<str> = base.limit_name().into();
        let maker = move |key: &[u8]| -> BoxFuture<'static, Result<Vec<Policy>, Error>> {
            let Ok(key) = K::try_from(key.to_vec()) else {
                return Box::pin(ready(Err(unfit::<K>(&name))));
            };
            let (making, name) = (maker(key), Arc::clone(&name));
            Box::pin(async move {
                let policies = making.await.map_err(|error| failed(&name, error.into()))?;
                policies_of(&name, policies)
            })
        };
        let (maker, cache, unrefreshed) = (Box::new(maker), Cache::new(), Seldom::default());
        Self { inner: Arc::new(Inner { base, maker, cache, unrefreshed }) }
    }

    /// Sets the maximum number of keys whose numbers are kept. Default: 10,000. The number of different sets of
    /// policies is limited to 10,000, too.
    ///
    /// ```
    /// use std::num::NonZeroUsize;
    /// use sluicegate::{Limit, Limiter, MemoryStore};
    ///
    /// let limiter = Limiter::new(MemoryStore::new(), Limit::new("api", ["gcra 1/s"])?);
    /// let api = limiter.keyed(async |_: String| Ok::<_, std::io::Error>(["gcra 5/min burst 10"]));
    /// let api = api.capacity(NonZeroUsize::new(2).unwrap());
    /// for key in ["a", "b", "c"] {
    ///     assert!(api.check(key).blocking()?.is_allowed());
    /// }
    /// assert_eq!(api.len(), 2);
    /// assert_eq!(api.peek("a").blocking()?.remaining(), Some(9), "the unit that was used counts");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn capacity(self, most: NonZeroUsize) -> Self {
        self.inner.cache.set_capacity(most);
        self
    }

    /// Sets the time after which the numbers of a key are made again: 1 ms or more; a shorter time counts as 1 ms.
    /// Default: 5 minutes. It counts from the end of the maker's run, and for each key it is shortened at random, by at
    /// most a tenth. The numbers of a key that has no requests aren't made again before the next request.
    ///
    /// It applies to numbers that are made from then on.
    ///
    /// ```
    /// use std::time::Duration;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use sluicegate::{Limit, Limiter, MemoryStore};
    ///
    /// static RATE: AtomicU64 = AtomicU64::new(10);
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?.block_on(async {
    /// let limiter = Limiter::new(MemoryStore::new(), Limit::new("api", ["fixed_window 1/d"])?);
    /// let rate = async |_: String| {
    ///     Ok::<_, std::io::Error>([format!("fixed_window {}/d", RATE.load(Ordering::Relaxed))])
    /// };
    /// let api = limiter.keyed(rate).ttl(Duration::from_secs(60));
    /// assert_eq!(api.check("acme").await?.remaining(), Some(9));
    /// RATE.store(20, Ordering::Relaxed);
    /// tokio::time::sleep(Duration::from_secs(60)).await;
    /// assert_eq!(api.check("acme").await?.remaining(), Some(8), "the new numbers are being made");
    /// tokio::task::yield_now().await;
    /// assert_eq!(api.check("acme").await?.remaining(), Some(17));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn ttl(self, lasts: Duration) -> Self {
        self.inner.cache.set_ttl(lasts.into());
        self
    }

    /// Forgets the numbers of a key in this process, because they have changed. Returns whether they were known or
    /// being made.
    ///
    /// The next request waits for the maker. Requests that already wait for it get the earlier numbers, and so do
    /// requests that wait for units. The units that the key has used stay.
    pub fn forget<'k>(&self, key: impl Into<Ask<'k>>) -> bool {
        self.inner.cache.forget(key.into().key())
    }

    /// Forgets the numbers of all keys in this process, because the plans have changed.
    pub fn forget_all(&self) {
        self.inner.cache.forget_all();
    }

    /// Returns the number of keys whose numbers are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.cache.len()
    }

    /// Returns whether the numbers of no key are kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the limit with its own numbers.
    pub(crate) fn base(&self) -> &T {
        &self.inner.base
    }

    /// Returns the limit with the numbers of a key, if they are known. Numbers that are too old are made again in the
    /// background.
    pub(crate) fn known(&self, key: &[u8]) -> Option<T> {
        let known = self.inner.cache.known(key)?;
        if known.is_due {
            let (keyed, key) = (self.clone(), key.to_vec());
            blocking::in_background(async move { keyed.make_again(&key).await });
        }
        Some(known.target)
    }

    /// Returns the limit with the numbers of a key, and calls the maker if they aren't known.
    pub(crate) async fn find(&self, key: &[u8]) -> Result<T, Error> {
        if key.len() > Self::LONGEST_KEY {
            return self.making(key).await;
        }
        match self.known(key) {
            Some(known) => Ok(known),
            None => self.inner.cache.find(key, || self.making(key)).await,
        }
    }

    async fn make_again(&self, key: &[u8]) {
        if let Err(error) = self.inner.cache.find_again(key, || self.making(key)).await {
            let limit = self.inner.base.limit_name();
            self.inner.unrefreshed.tell(|more| {
                tracing::warn!(limit, "a key keeps its old numbers: {error}{more}");
            });
        }
    }

    fn making(&self, key: &[u8]) -> Making<T> {
        let (making, inner) = ((self.inner.maker)(key), Arc::clone(&self.inner));
        Box::pin(async move { inner.base.with_numbers(making.await?) })
    }
}

impl<S: Store> Limiter<S> {
    /// Returns this limit with numbers for each key, which `maker` returns.
    ///
    /// The name of the limit and the other settings are those of this limiter. See [`Keyed`].
    ///
    /// ```
    /// use sluicegate::{Limit, Limiter, MemoryStore};
    ///
    /// let limiter = Limiter::new(MemoryStore::new(), Limit::new("api", ["gcra 1/s"])?);
    /// let api = limiter.keyed(async |tenant: String| match tenant.as_str() {
    ///     "acme" => Ok(["gcra 50/s burst 100"]),
    ///     _ => Err(format!("there is no tenant `{tenant}`")),
    /// });
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// assert_eq!(api.check("acme").await?.remaining(), Some(99));
    /// assert!(api.check("mallory").await.is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keyed<K, F, P, E>(&self, maker: impl Fn(K) -> F + Send + Sync + 'static) -> Keyed<Self>
    where
        K: TryFrom<Vec<u8>>,
        F: Future<Output = Result<P, E>> + Send + 'static,
        P: IntoIterator<Item: IntoPolicy>,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        Keyed::new(self.clone(), maker)
    }
}

#[cfg(feature = "config")]
impl Registry {
    /// Returns the limit `name` with numbers for each key, which `maker` returns.
    ///
    /// Under this name, the configuration determines everything but the numbers: switches, lists, bans, the deadline
    /// and the answer when the store fails. Numbers and overrides of the configuration don't apply. A configuration
    /// without the limit is fine. See [`Keyed`].
    ///
    /// ```
    /// use sluicegate::{Config, Registry};
    ///
    /// let config = "limits: {api: {policies: [gcra 1/s], block: [mallory]}}";
    /// let registry = Registry::open(&Config::parse(config, "limits.yaml")?)?;
    /// let api = registry.keyed("api", async |_: String| Ok::<_, std::io::Error>(["gcra 50/s burst 100"]));
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// assert_eq!(api.check("acme").await?.remaining(), Some(99));
    /// assert!(api.check("mallory").await?.is_denied());
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keyed<K, F, P, E>(
        &self,
        name: &str,
        maker: impl Fn(K) -> F + Send + Sync + 'static,
    ) -> Keyed<Gate>
    where
        K: TryFrom<Vec<u8>>,
        F: Future<Output = Result<P, E>> + Send + 'static,
        P: IntoIterator<Item: IntoPolicy>,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        Keyed::new(self.gate(name), maker)
    }
}

impl<T> Clone for Keyed<T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<T: fmt::Debug> fmt::Debug for Keyed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed").field("base", &self.inner.base).finish_non_exhaustive()
    }
}

#[cold]
fn failed(name: &str, error: Box<dyn StdError + Send + Sync>) -> Error {
    let message = format!(
        "the numbers of limit `{name}` for the key can't be made, so nothing was charged: {error}"
    );
    StoreError::new(StoreErrorKind::Unavailable, message).with_cause(error).into()
}

#[cold]
fn unfit<K>(name: &str) -> Error {
    let message = format!(
        "limit `{name}`: the key doesn't convert to `{}`, which its maker takes",
        std::any::type_name::<K>()
    );
    RequestError::new(RequestErrorKind::UnfitKey, message).into()
}
