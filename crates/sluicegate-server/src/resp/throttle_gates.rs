//! The gates of limits whose numbers are in commands.

use sluicegate::{Gate, Registry};
use sluicegate_resp::{CommandError, Form, Numbers};

use crate::http::Service;
use crate::http::open_gates::{OpenGates, open};

/// Keeps the gates of limits whose numbers are in commands, one for equal numbers.
///
/// The store keeps the consumed units by the limit's name, so they stay when the numbers of a key change.
#[derive(Debug)]
pub(super) struct ThrottleGates {
    registry: Registry,
    gates: OpenGates<(Form, Numbers)>,
}

impl ThrottleGates {
    pub(super) fn new(registry: Registry) -> Self {
        Self { registry, gates: OpenGates::new() }
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
        let make = || Ok(open(&self.registry, numbers.limit(form)?));
        self.gates.get_or_make((form, numbers), 1, make)
    }
}

#[cfg(test)]
mod tests {
    use sluicegate::MemoryStore;

    use super::*;

    #[test]
    fn equal_numbers_share_a_gate_and_the_number_of_gates_is_bounded() {
        let gates = ThrottleGates::new(Registry::builder(MemoryStore::new()).build());
        let kept = || gates.gates.size();
        let most = OpenGates::<(Form, Numbers)>::MOST;
        for count in (1..=10_050).chain(10_000..=10_050) {
            let numbers = Numbers { burst: 3, count, seconds: 60 };
            assert_eq!(gates.get(Form::RedisCell, numbers).unwrap().name(), "cl.throttle");
        }
        assert_eq!(kept(), most);
        let wrong = Numbers { burst: 1 << 52, count: 1, seconds: 86_400 };
        assert!(gates.get(Form::Throttlecrab, wrong).is_err());
        assert_eq!(kept(), most);
    }
}
