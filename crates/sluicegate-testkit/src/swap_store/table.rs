//! The database that the store needs: read, compare-and-swap and expiry, here as a map.

use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use sluicegate_core::{Clock, StoreId};

/// A table in a map. Clones share one table.
#[derive(Clone)]
pub struct Table(Arc<Inner>);

struct Inner {
    values: Mutex<HashMap<Vec<u8>, Value>>,
    clock: Box<dyn Clock>,
    /// Every n-th swap loses without a faster client; 0 means never.
    conflict_each: u64,
    swaps: AtomicU64,
}

/// The value of a key.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Value(Option<(Arc<[u8]>, u64)>);

impl Value {
    /// Creates a value that expires at a time, in µs since the epoch.
    #[must_use]
    pub fn new(bytes: Vec<u8>, expires: u64) -> Self {
        Self(Some((bytes.into(), expires)))
    }

    /// Creates the value of a missing key.
    #[must_use]
    pub const fn absent() -> Self {
        Self(None)
    }

    /// Returns the bytes, if there are any.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        self.0.as_ref().map(|(bytes, _)| &**bytes)
    }
}

impl Table {
    /// Creates an empty table whose values expire by `clock`.
    #[must_use]
    pub fn new(clock: impl Clock + 'static) -> Self {
        Self::with_conflicts(clock, 0)
    }

    /// Creates an empty table in which every `each`-th swap loses without a faster client.
    #[must_use]
    pub fn with_conflicts(clock: impl Clock + 'static, each: u64) -> Self {
        Self(Arc::new(Inner {
            values: Mutex::default(),
            clock: Box::new(clock),
            conflict_each: each,
            swaps: AtomicU64::new(0),
        }))
    }

    /// Returns the table's identity.
    #[must_use]
    pub fn id(&self) -> StoreId {
        StoreId::new(&format!("table:{:p}", Arc::as_ptr(&self.0)))
    }

    /// Returns the number of keys with a value.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live().len()
    }

    /// Returns `true` if no key has a value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads the values of some keys, all at the same time.
    pub async fn read(&self, keys: &[Vec<u8>]) -> Vec<Value> {
        elsewhere().await;
        let values = self.live();
        keys.iter().map(|key| values.get(key).cloned().unwrap_or_default()).collect()
    }

    /// Replaces the values of some keys if all are unchanged since they were read. Returns whether
    /// it did.
    pub async fn compare_and_swap(
        &self,
        keys: &[Vec<u8>],
        read: &[Value],
        after: Vec<Value>,
    ) -> bool {
        elsewhere().await;
        let swap = self.0.swaps.fetch_add(1, Ordering::Relaxed) + 1;
        if self.0.conflict_each > 0 && swap.is_multiple_of(self.0.conflict_each) {
            return false;
        }
        let mut values = self.live();
        let is_same = keys.iter().zip(read).all(|(key, read)| match values.get(key) {
            Some(value) => value == read,
            None => read.bytes().is_none(),
        });
        if is_same {
            for (key, value) in keys.iter().zip(after) {
                if value.bytes().is_some() {
                    values.insert(key.clone(), value);
                } else {
                    values.remove(key);
                }
            }
        }
        is_same
    }

    /// Removes expired values and returns the others.
    fn live(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Value>> {
        let now = self.0.clock.now().as_micros();
        let mut values = self.0.values.lock().unwrap_or_else(PoisonError::into_inner);
        values.retain(|_, value| value.0.as_ref().is_some_and(|(_, expires)| *expires > now));
        values
    }
}

/// Lets other tasks run, like a round trip to a server.
async fn elsewhere() {
    let mut is_back = false;
    poll_fn(|context| {
        if std::mem::replace(&mut is_back, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("id", &self.id()).finish_non_exhaustive()
    }
}
