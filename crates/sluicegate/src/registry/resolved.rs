//! The limits of a gate, resolved in one configuration.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use sluicegate_core::Error;
use sluicegate_http::{FieldFormat, Partition};

use super::generation::{Generation, Origin};
use super::joint::{Joint, Numbers};
use super::opened::Opened;
use super::prepared::{Partitions, Prepared, Shown, ShownPartition};
use super::target::Target;
use crate::config::HttpConfig;
use crate::config::{Switch, UnknownLimit};
use crate::limiter::Limiter;

/// The limits of a gate, resolved in one configuration.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    /// The number of the configuration; the default is older than any.
    pub(super) number: u64,
    pub(super) parts: Box<[Part]>,
    /// Set if every key is counted, with the same numbers.
    pub(super) plain: Option<Arc<Prepared>>,
    /// Whether a limit that is in force counts units in flight, so that who takes of it has to hold.
    pub(super) has_permits: bool,
    pub(super) joint: Joint,
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
    prepared: Box<[Arc<Prepared>]>,
}

impl Resolved {
    pub(super) fn new(targets: &[Target], shown: &Shown, generation: &Generation) -> Self {
        let format = shown.format.unwrap_or(generation.http.fields);
        let part = |(index, target): (usize, &Target)| {
            Part::new(target, shown.partitions.get(index), format, generation)
        };
        let mut resolved = Self {
            number: generation.number,
            parts: targets.iter().enumerate().map(part).collect(),
            format,
            http: Arc::clone(&generation.http),
            ..Self::default()
        };
        resolved.has_permits = resolved.parts.iter().filter_map(Part::in_force).any(|known| {
            known.opened.limiters().iter().any(|limiter| limiter.limit().has_permits())
        });
        if resolved.parts.iter().all(Part::is_plain) {
            resolved.plain = resolved.with_own_numbers().and_then(Result::ok);
        }
        resolved
    }

    /// All limits in force, each with its own numbers; `None` if none is in force.
    pub(super) fn with_own_numbers(&self) -> Option<Result<Arc<Prepared>, Error>> {
        let numbers: Numbers = self.parts.iter().map(|part| part.in_force().map(|_| 0)).collect();
        let first = self.parts.iter().find_map(Part::in_force)?;
        if self.parts.len() == 1 {
            return Some(Ok(Arc::clone(first.prepared(0))));
        }
        Some(self.joint.limiter(&numbers, self))
    }
}

impl Part {
    fn new(
        target: &Target,
        partition: Option<&ShownPartition>,
        format: FieldFormat,
        generation: &Generation,
    ) -> Self {
        let entry = generation.entry(target.name());
        let switch = entry.map_or(Switch::On, |entry| entry.switch).and(generation.switch);
        let opened = match (target, entry) {
            (Target::Named(_), Some(entry)) => Arc::clone(&entry.opened),
            (Target::Inline(_), Some(entry)) if entry.origin == Origin::Config => {
                Arc::clone(&entry.opened)
            }
            (Target::Inline(given), _) | (Target::Keyed(given), None) => Arc::clone(given),
            (Target::Keyed(given), Some(entry)) => {
                Arc::new(entry.opened.with_numbers_of(&given.config.limit))
            }
            // The switch for all limits covers unknown ones too.
            (Target::Named(_), None) => {
                let then = match generation.switch {
                    Switch::On => generation.unknown,
                    Switch::Off => UnknownLimit::Pass,
                };
                return Self::Unknown { then, told: AtomicBool::new(false) };
            }
        };
        let partition = partition.map(|partition| match partition {
            ShownPartition::Given(partition) => partition.clone(),
            ShownPartition::Configured => Partition::of(&opened.config.key),
        });
        let partitions: Partitions = partition.clone().into_iter().collect();
        let prepare = |limiter: &Limiter| {
            Arc::new(Prepared::new(limiter.clone(), format, partitions.clone()))
        };
        let prepared = opened.limiters().iter().map(prepare).collect();
        Self::Known(Known { opened, switch, partition, prepared })
    }

    pub(super) const fn known(&self) -> Option<&Known> {
        match self {
            Self::Known(known) => Some(known),
            Self::Unknown { .. } => None,
        }
    }

    pub(super) fn in_force(&self) -> Option<&Known> {
        self.known().filter(|known| known.switch == Switch::On)
    }

    fn is_plain(&self) -> bool {
        self.in_force().is_some_and(|known| known.opened.is_plain())
    }
}

impl Known {
    /// The limiter with a set of numbers; 0 is the limit's own.
    pub(super) fn prepared(&self, numbers: u32) -> &Arc<Prepared> {
        let index = usize::try_from(numbers).unwrap_or(usize::MAX);
        self.prepared.get(index).unwrap_or(&self.prepared[0])
    }
}
