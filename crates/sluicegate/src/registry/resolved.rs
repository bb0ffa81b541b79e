//! The limits of a gate, resolved in one configuration.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use sluicegate_core::{Limit, LimitName};
use sluicegate_http::{FieldFormat, LimitFields, Partition};

use super::combinations::Combinations;
use super::opened::Opened;
use super::response_fields::ResponseFields;
use crate::config_file::{HttpConfig, Switch, UnknownLimit};
use crate::limiter::Limiter;

/// The limits of a gate, resolved in one configuration.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    /// The number of the configuration; the default is older than any.
    pub(super) number: u64,
    pub(super) parts: Box<[Part]>,
    /// Set if every key is counted, with the same numbers.
    pub(super) plain: Option<Limiter>,
    /// Whether a limit that is in force counts units in flight, so that requests have to hold its units.
    pub(super) has_permits: bool,
    pub(super) combinations: Combinations,
    pub(super) fields: ResponseFields,
    pub(super) format: FieldFormat,
    /// The settings for HTTP requests and responses.
    pub(super) http: Arc<HttpConfig>,
}

/// One limit of a gate.
#[derive(Debug)]
pub(super) enum Part {
    Known(Known),
    Unknown {
        then: UnknownLimit,
        /// Whether the warning was logged.
        told: AtomicBool,
    },
}

/// A limit that exists, whether or not it is in force.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) opened: Arc<Opened>,
    pub(super) switch: Switch,
    /// The partition key, if clients get it.
    pub(super) partition: Option<Partition>,
}

impl Resolved {
    /// Returns the response fields for decisions of a limit.
    pub(super) fn fields(&self, limit: &Limit) -> LimitFields {
        self.fields.of(limit, || {
            let partition = |name: &LimitName| {
                let mut known = self.parts.iter().filter_map(Part::known);
                known.find(|known| known.opened.config.limit.name() == name)?.partition.clone()
            };
            let partitions: Option<Vec<Partition>> = limit.parts().iter().map(partition).collect();
            LimitFields::new(limit, self.format).with_partitions(&partitions.unwrap_or_default())
        })
    }
}

impl Part {
    pub(super) const fn known(&self) -> Option<&Known> {
        match self {
            Self::Known(known) => Some(known),
            Self::Unknown { .. } => None,
        }
    }

    pub(super) fn in_force(&self) -> Option<&Known> {
        self.known().filter(|known| known.switch == Switch::On)
    }

    pub(super) fn is_plain(&self) -> bool {
        self.in_force().is_some_and(|known| known.opened.is_plain())
    }
}

impl Known {
    /// Returns the limiter with a set of numbers; 0 is the limit's own.
    pub(super) fn limiter(&self, numbers: u32) -> &Limiter {
        let (index, limiters) =
            (usize::try_from(numbers).unwrap_or(usize::MAX), self.opened.limiters());
        limiters.get(index).unwrap_or(&limiters[0])
    }
}
