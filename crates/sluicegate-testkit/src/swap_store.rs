//! A store on read, compare-and-swap and expiry alone.
//!
//! This is all that a store needs whose database can't run the store's code, such as DynamoDB or
//! FoundationDB. Copy this file and replace the [`Table`] by the database. The core contains the
//! decision rules, the stored format, TTLs and receipts ([`step_values`]). The store only adds
//! names, time and retries.

mod table;

pub use table::{Table, Value};

use std::fmt;
use std::future::{Future, ready};
use std::sync::Arc;

use sluicegate_core::for_stores::{Now, StoreKey};
use sluicegate_core::value::{Write, step_values};
use sluicegate_core::{
    Answer, BoxFuture, Clock, Decision, Error, Holder, KeyPrefix, Limit, Listing, OpenOptions,
    OpenedLimit, Page, Request, Span, Store, StoreError, StoreErrorKind, StoreId, TimeSource,
};

/// Maximum number of attempts for a decision when other clients are faster. Over a network, fewer
/// attempts with a random and growing delay between them would be enough.
const ATTEMPTS: usize = 1_000;

/// A store on a [`Table`]. Clones share one store.
#[derive(Clone)]
pub struct SwapStore {
    table: Table,
    clock: Arc<dyn Clock>,
}

/// A limit that a [`SwapStore`] has opened.
#[derive(Debug)]
pub struct SwapLimit {
    store: SwapStore,
    limit: Limit,
    /// One key for each part of the limit.
    keys: Box<[StoreKey]>,
    /// `None` under injected time.
    max_clock_back: Option<u64>,
}

impl SwapStore {
    /// Creates a store on `table`. Each process evaluates requests by its own clock, so the error
    /// of the limits is the difference between the clocks.
    #[must_use]
    pub fn new(table: Table, clock: impl Clock + 'static) -> Self {
        Self { table, clock: Arc::new(clock) }
    }
}

impl SwapLimit {
    async fn decide(&self, request: Request<'_>) -> Result<Decision, Error> {
        request.validate_time(&self.limit, self.max_clock_back.is_none())?;
        request.validate(&self.limit)?;
        let keys = self.keys(&request);
        for _ in 0..ATTEMPTS {
            let read = self.store.table.read(&keys).await;
            let time = request.time().unwrap_or_else(|| self.store.clock.now());
            let now = Now { micros: time.as_micros(), max_clock_back: self.max_clock_back };
            let values: Vec<Option<&[u8]>> = read.iter().map(Value::bytes).collect();
            // An error writes nothing.
            let (step, writes) = step_values(&self.limit, &request, now, &values)?;
            let is_unchanged = writes.iter().all(|write| *write == Write::Nothing);
            if is_unchanged || self.swap(&keys, &read, &writes, now).await {
                return Ok(step.decision);
            }
        }
        let message = format!(
            "others changed the states of limit `{}` {ATTEMPTS} times before this request could; \
             nothing was charged: try again later, or use a store that decides by itself",
            self.limit.name()
        );
        Err(StoreError::new(StoreErrorKind::Unavailable, message).into())
    }

    /// Writes all parts or none. It writes none if any part has changed since it was read,
    /// including unwritten parts.
    async fn swap(&self, keys: &[Vec<u8>], read: &[Value], writes: &[Write], now: Now) -> bool {
        // The time of a run's next request is unknown, so its keys never expire.
        let expires = |life: u64| match self.max_clock_back {
            Some(_) => now.micros.saturating_add(life),
            None => u64::MAX,
        };
        let after = read.iter().zip(writes).map(|(read, write)| match write {
            Write::Nothing => read.clone(),
            Write::Set { value, life } => Value::new(value.clone(), expires(*life)),
            Write::Remove => Value::absent(),
        });
        self.store.table.compare_and_swap(keys, read, after.collect()).await
    }

    async fn list_holders(&self, key: &[u8], page: Page<'_>) -> Result<Listing<Holder>, Error> {
        Listing::<Holder>::validate(&self.limit, &page, self.max_clock_back.is_none())?;
        let read = self.store.table.read(&self.keys(&Request::check(key))).await;
        let now = page.time().unwrap_or_else(|| self.store.clock.now()).as_micros();
        let value = read.first().and_then(Value::bytes).unwrap_or_default();
        Ok(Listing::<Holder>::of_value(&self.limit, value, &page, now)?)
    }

    fn keys(&self, request: &Request<'_>) -> Vec<Vec<u8>> {
        let parts = self.keys.iter().enumerate().map(|(part, name)| {
            let mut key = Vec::with_capacity(64);
            name.write(request.subject(part), &mut key);
            key
        });
        parts.collect()
    }
}

impl Store for SwapStore {
    type Opened = SwapLimit;

    fn inner(&self) -> Option<&dyn Store> {
        None
    }

    fn id(&self) -> StoreId {
        self.table.id()
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> SwapLimit {
        let prefix = KeyPrefix::default();
        let keys = limit.parts().iter().map(|name| StoreKey::new(&prefix, name, &options.time));
        SwapLimit {
            store: self.clone(),
            keys: keys.collect(),
            max_clock_back: (options.time == TimeSource::Store)
                .then_some(5 * Span::SECOND.as_micros()),
            limit,
        }
    }

    /// Always succeeds, because the table is in this process.
    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(ready(Ok(())))
    }
}

impl OpenedLimit for SwapLimit {
    fn inner(&self) -> Option<&dyn OpenedLimit> {
        None
    }

    fn limit(&self) -> &Limit {
        &self.limit
    }

    fn ask<'a>(
        &'a self,
        request: Request<'a>,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
        Answer::Later(self.decide(request))
    }

    fn holders<'a>(
        &'a self,
        key: &'a [u8],
        page: Page<'a>,
    ) -> BoxFuture<'a, Result<Listing<Holder>, Error>> {
        Box::pin(self.list_holders(key, page))
    }
}

impl fmt::Debug for SwapStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SwapStore").field(&self.id()).finish()
    }
}
