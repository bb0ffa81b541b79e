//! How a store is set up.

use std::fmt;
use std::num::NonZeroUsize;

use sluicegate_core::{Clock, Span};

use crate::clock::SystemClock;
use crate::registry::Overflow;
use crate::store::MemoryStore;

/// Sets up a [`MemoryStore`].
///
/// ```
/// use std::num::NonZeroUsize;
/// use sluicegate_memory::{MemoryStore, Overflow};
///
/// let most = NonZeroUsize::new(50_000).unwrap();
/// let store = MemoryStore::builder().max_keys(most).overflow(Overflow::Deny).build();
/// assert_eq!(store.stats().max_keys, 50_000);
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    max_keys: NonZeroUsize,
    overflow: Overflow,
    clock: Option<Box<dyn Clock>>,
    max_clock_back: Span,
}

impl MemoryStore {
    /// A store of a million keys on the machine's clock.
    #[must_use]
    pub fn new() -> Self {
        Builder::default().build()
    }

    /// A store of another size, on another clock, or strict at its cap.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// One million keys.
    pub const DEFAULT_MAX_KEYS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(999_999);
    /// 5 s.
    pub const DEFAULT_MAX_CLOCK_BACK: Span = match Span::from_micros(5_000_000) {
        Ok(span) => span,
        Err(_) => Span::SECOND,
    };

    /// The most keys the store keeps, all limits together; a key counts once for each policy that
    /// keeps something of it. By default a million: some 45 MB for buckets.
    pub const fn max_keys(mut self, most: NonZeroUsize) -> Self {
        self.max_keys = most;
        self
    }

    /// What happens to a new key when there is no room. By default another one is evicted.
    pub const fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }

    /// Where the store gets its time from. By default a [`SystemClock`].
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(Box::new(clock));
        self
    }

    /// How far ahead of the clock a state may be stamped before it is restamped: what a clock
    /// that is set back can hold up a key at most. By default 5 s.
    pub fn max_clock_back(mut self, span: impl Into<Span>) -> Self {
        self.max_clock_back = span.into();
        self
    }

    /// The store.
    #[must_use]
    pub fn build(self) -> MemoryStore {
        let clock = self.clock.unwrap_or_else(|| Box::new(SystemClock::new()));
        MemoryStore::with(
            clock,
            self.max_keys.get(),
            self.overflow,
            self.max_clock_back.as_micros(),
        )
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            max_keys: Self::DEFAULT_MAX_KEYS,
            overflow: Overflow::default(),
            clock: None,
            max_clock_back: Self::DEFAULT_MAX_CLOCK_BACK,
        }
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("max_keys", &self.max_keys)
            .field("overflow", &self.overflow)
            .field("max_clock_back", &self.max_clock_back)
            .finish_non_exhaustive()
    }
}
