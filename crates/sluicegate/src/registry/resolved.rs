//! The limits of a gate, resolved in one configuration.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use sluicegate_http::{FieldFormat, Partition};

use super::combinations::Combinations;
use super::limiter_with_fields::LimiterWithFields;
use super::opened::Opened;
use crate::config::HttpConfig;
use crate::config::{Switch, UnknownLimit};

/// The limits of a gate, resolved in one configuration.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    /// The number of the configuration; the default is older than any.
    pub(super) number: u64,
    pub(super) parts: Box<[Part]>,
    /// Set if every key is counted, with the same numbers.
    pub(super) plain: Option<Arc<LimiterWithFields>>,
    /// Whether a limit that is in force counts units in flight, so that who takes of it has to hold.
    pub(super) has_permits: bool,
    pub(super) combinations: Combinations,
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
    /// With the limit's own numbers, and then with each other set.
    pub(super) prepared: Box<[Arc<LimiterWithFields>]>,
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
    /// The limiter with a set of numbers; 0 is the limit's own.
    pub(super) fn prepared(&self, numbers: u32) -> &Arc<LimiterWithFields> {
        let index = usize::try_from(numbers).unwrap_or(usize::MAX);
        self.prepared.get(index).unwrap_or(&self.prepared[0])
    }
}
