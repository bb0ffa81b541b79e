//! The gates of limits whose numbers are in commands.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use lru::LruCache;
use sluicegate::config::LimitConfig;
use sluicegate::{Config, Gate, Registry};
use sluicegate_resp::{CommandError, Form, Numbers};

use crate::http::Service;

/// Keeps the gates of limits whose numbers are in commands, one for equal numbers.
///
/// Clients choose the numbers, so their number is bounded, and the least recently used gate leaves. The store keeps the
/// consumed units by the limit's name, so they stay when the numbers of a key change.
pub(super) struct ThrottleGates {
    registry: Registry,
    gates: Mutex<LruCache<(Form, Numbers), Gate>>,
}

impl ThrottleGates {
    /// Maximum number of gates.
    const MOST: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9_999);

    pub(super) fn new(registry: Registry) -> Self {
        let mut gates = LruCache::unbounded();
        gates.resize(Self::MOST);
        Self { registry, gates: Mutex::new(gates) }
    }

    /// Counts the commands in the metrics of a service, each as a limit.
    pub(super) fn count(service: &Service) {
        for form in [Form::RedisCell, Form::Throttlecrab] {
            // Any numbers: the counters are those of its name and its policies' names.
            let limit = Numbers { burst: 1, count: 1, seconds: 1 }.limit(form);
            limit.iter().for_each(|limit| service.count_limit(limit));
        }
    }

    /// Returns the gate of a limit with these numbers.
    ///
    /// # Errors
    /// Returns an error if the numbers form no limit.
    pub(super) fn get(&self, form: Form, numbers: Numbers) -> Result<Gate, CommandError> {
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = gates.get(&(form, numbers)) {
            return Ok(gate.clone());
        }
        drop(gates);
        let gate = self.open(form, numbers)?;
        gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        let left = gates.push((form, numbers), gate.clone());
        // To close a limit takes time.
        drop(gates);
        drop(left);
        Ok(gate)
    }

    fn open(&self, form: Form, numbers: Numbers) -> Result<Gate, CommandError> {
        let mut config = LimitConfig::new(numbers.limit(form)?);
        // As in a file.
        config.deadline = Some(Config::DEADLINE);
        Ok(self.registry.gate_with_numbers(config))
    }
}

impl fmt::Debug for ThrottleGates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrottleGates").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use sluicegate::MemoryStore;

    use super::*;

    #[test]
    fn equal_numbers_share_a_gate_and_the_number_of_gates_is_bounded() {
        let gates = ThrottleGates::new(Registry::builder(MemoryStore::new()).build());
        let kept = || gates.gates.lock().unwrap().len();
        for count in (1..=10_050).chain(10_000..=10_050) {
            let numbers = Numbers { burst: 3, count, seconds: 60 };
            assert_eq!(gates.get(Form::RedisCell, numbers).unwrap().name(), "cl.throttle");
        }
        assert_eq!(kept(), ThrottleGates::MOST.get());
        let wrong = Numbers { burst: 1 << 52, count: 1, seconds: 86_400 };
        assert!(gates.get(Form::Throttlecrab, wrong).is_err());
        assert_eq!(kept(), ThrottleGates::MOST.get());
    }
}
