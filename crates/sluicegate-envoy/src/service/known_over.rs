//! The local cache of counters that are over their limit.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::incumbent::CounterKey;

/// Bytes of an entry in addition to those of its key.
const ENTRY_BYTES: usize = 64;

/// Counters that are over their limit until their window ends, in bounded memory.
#[derive(Debug)]
pub(super) struct KnownOver {
    most_bytes: usize,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The end of each counter's window, in µs since the epoch.
    ends: HashMap<CounterKey, u64>,
    bytes: usize,
    /// Generation of the limits by which the counters were compared.
    generation: u64,
}

impl KnownOver {
    /// Returns an empty cache of at most `most_bytes`; 0 switches it off.
    pub(super) fn new(most_bytes: u64) -> Self {
        let most_bytes = usize::try_from(most_bytes).unwrap_or(usize::MAX);
        Self { most_bytes, known: Mutex::default() }
    }

    /// Forgets all counters if the limits have changed since they were added.
    pub(super) fn follow(&self, generation: u64) {
        if self.most_bytes == 0 {
            return;
        }
        let mut known = self.known();
        if known.generation != generation {
            *known = Known { generation, ..Known::default() };
        }
    }

    /// Returns whether the cache has a counter, at a time in µs since the epoch.
    pub(super) fn has(&self, counter: &CounterKey, now: u64) -> bool {
        self.most_bytes > 0 && self.known().ends.get(counter).is_some_and(|end| now < *end)
    }

    /// Adds a counter that is over its limit until `end`. A full cache first removes ended windows, and then everything.
    pub(super) fn add(&self, counter: &CounterKey, end: u64, now: u64) {
        let bytes = bytes_of(counter);
        if bytes > self.most_bytes {
            return;
        }
        let mut known = self.known();
        if known.bytes + bytes > self.most_bytes {
            known.ends.retain(|_, end| now < *end);
            known.bytes = known.ends.keys().map(bytes_of).sum();
        }
        if known.bytes + bytes > self.most_bytes {
            *known = Known { generation: known.generation, ..Known::default() };
        }
        if known.ends.insert(counter.clone(), end).is_none() {
            known.bytes += bytes;
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // No code under this lock panics halfway.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bytes_of(counter: &CounterKey) -> usize {
    ENTRY_BYTES + counter.as_str().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incumbent::Unit;

    #[test]
    fn the_cache_is_bounded_and_forgets_ended_windows() {
        let counter = |number: usize| {
            CounterKey::new("", Unit::Hour, "d", [("k", number.to_string().as_str())].into_iter())
        };
        let cache = KnownOver::new(1_000);
        for number in 0..1_000 {
            cache.add(&counter(number), 10, 5);
            assert!(cache.has(&counter(number), 9) && !cache.has(&counter(number), 10));
            let known = cache.known();
            assert!(known.bytes <= 1_000 && known.ends.len() <= 15);
        }
        let off = KnownOver::new(0);
        off.add(&counter(1), 10, 5);
        assert!(!off.has(&counter(1), 5));
    }
}
