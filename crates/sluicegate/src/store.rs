//! For authors of stores and layers: the traits of a store, and the parts of requests and states.
//!
//! [`Store`] is the trait of stores. Implement it for a store of your own, or for a layer around another store.

pub use sluicegate_core::for_stores::*;
pub use sluicegate_core::{
    Acknowledgement, Answer, BoxFuture, Costs, Histogram, HistogramCounts, Hold, Idempotency,
    KeyPrefix, Measure, MeasureKind, OpenOptions, OpenedLimit, Operation, Queued, Request,
    RequestId, SharedLimit, SharedStore, Span, Store, StoreId, StoreStats, Ticket, TimeSource,
};
pub use sluicegate_memory::MemoryLimit;
#[cfg(feature = "redis")]
pub use sluicegate_redis::RedisLimit;

#[cfg(feature = "config")]
pub use crate::open_store::StoreOptions;
#[cfg(feature = "config")]
pub use crate::registry::{Counted, CountedKey, Leased};
