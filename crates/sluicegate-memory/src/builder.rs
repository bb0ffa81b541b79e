//! The builder of a [`MemoryStore`].

use std::fmt;
use std::num::NonZeroUsize;
use std::time::Duration;

use sluicegate_core::{Clock, Span};

use crate::budget::Load;
use crate::clock::SystemClock;
use crate::registry::Overflow;
use crate::store::MemoryStore;

/// A builder of a [`MemoryStore`].
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
    max_bytes: Option<NonZeroUsize>,
    overflow: Overflow,
    clock: Option<Box<dyn Clock>>,
    max_clock_back: Duration,
}

impl MemoryStore {
    /// Returns a store of up to a million keys on the machine's clock.
    #[must_use]
    pub fn new() -> Self {
        Builder::default().build()
    }

    /// Returns a builder, to set the size, the clock or the overflow rule.
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
    /// 256 bytes: enough for every state except a log or ring of more than eight entries.
    pub const DEFAULT_BYTES_PER_KEY: usize = 256;
    /// 64 MiB: enough for 60 of the longest logs, regardless of the number of keys.
    pub const DEFAULT_BYTES: usize = 64 << 20;
    /// 5 s.
    pub const DEFAULT_MAX_CLOCK_BACK: Duration = Duration::from_secs(5);

    /// Sets the maximum number of keys of all limits together. A key counts once for each policy
    /// that stores a state of it. The default is a million: about 45 MB for buckets.
    pub const fn max_keys(mut self, most: NonZeroUsize) -> Self {
        self.max_keys = most;
        self
    }

    /// Sets the maximum number of bytes of all keys of all limits together. The default is
    /// [`Builder::DEFAULT_BYTES_PER_KEY`] for each of the [maximum keys](Builder::max_keys), and at
    /// least [`Builder::DEFAULT_BYTES`].
    ///
    /// ```
    /// use std::num::NonZeroUsize;
    /// use sluicegate_memory::MemoryStore;
    ///
    /// let most = NonZeroUsize::new(8 << 20).unwrap();
    /// assert_eq!(MemoryStore::builder().max_bytes(most).build().stats().max_bytes, 8_388_608);
    /// assert_eq!(MemoryStore::new().stats().max_bytes, 256_000_000);
    /// ```
    pub const fn max_bytes(mut self, most: NonZeroUsize) -> Self {
        self.max_bytes = Some(most);
        self
    }

    /// Sets what happens when the store is full. By default it evicts another key.
    pub const fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }

    /// Sets the clock of the store. The default is the machine's wall clock, [`SystemClock`].
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(Box::new(clock));
        self
    }

    /// Sets how far ahead of the clock a state's time may be before the state is restamped. The
    /// default is 5 s.
    ///
    /// This is the longest time that a clock that was set back can delay a key.
    pub const fn max_clock_back(mut self, bound: Duration) -> Self {
        self.max_clock_back = bound;
        self
    }

    /// Builds the store.
    #[must_use]
    pub fn build(self) -> MemoryStore {
        let clock = self.clock.unwrap_or_else(|| Box::new(SystemClock::new()));
        let keys = self.max_keys.get();
        let usual = keys.saturating_mul(Self::DEFAULT_BYTES_PER_KEY).max(Self::DEFAULT_BYTES);
        let most = Load { keys, bytes: self.max_bytes.map_or(usual, NonZeroUsize::get) };
        let max_clock_back = Span::from(self.max_clock_back).as_micros();
        MemoryStore::with(clock, most, self.overflow, max_clock_back)
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            max_keys: Self::DEFAULT_MAX_KEYS,
            max_bytes: None,
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
            .field("max_bytes", &self.max_bytes)
            .field("overflow", &self.overflow)
            .field("max_clock_back", &self.max_clock_back)
            .finish_non_exhaustive()
    }
}
