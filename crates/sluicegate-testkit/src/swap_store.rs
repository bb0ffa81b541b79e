//! A store over nothing but read, compare-and-swap and expiry: all that a store takes whose
//! database runs no code of ours, such as DynamoDB or FoundationDB.
//!
//! Copy this file and put the database in the place of the [`Table`]. The rule of a decision, the
//! stored format, lives and receipts are the core's ([`step_values`]); what is left is names, time
//! and trying again.

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

/// How often a decision is made anew when others were faster. Where a network lies between, fewer
/// would do, each after a wait that is random and grows.
const ATTEMPTS: usize = 1_000;

/// A store over a [`Table`]. Clones are one store.
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
    /// One for each part of the limit.
    keys: Box<[StoreKey]>,
    /// `None` under injected time.
    max_clock_back: Option<u64>,
}

impl SwapStore {
    /// A store over `table`. Every process has a clock of its own, which judges: how far they are
    /// apart is how far the limits are off.
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

    /// Writes all parts or none: none when any of them, unwritten ones too, is not as it was read.
    async fn swap(&self, keys: &[Vec<u8>], read: &[Value], writes: &[Write], now: Now) -> bool {
        // Nobody knows what time the next request of a run brings: its keys go with the run.
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

    /// It is in this process.
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
