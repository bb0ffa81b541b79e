//! Resolving the names of a gate in a configuration.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use sluicegate_http::Partition;

use super::gate_cache::GateCache;
use super::generation::{Entry, Generation, Origin};
use super::resolved::{Known, Part, Resolved};
use super::response_fields::{Shown, ShownPartition};
use super::target::Target;
use crate::config_file::{Switch, UnknownLimit};

impl GateCache {
    /// Resolves the names in a configuration, unless a later one was used already.
    pub(super) fn resolve(&self, generation: &Generation) {
        let resolved = Arc::new(Resolved::new(self.targets(), &self.shown, generation));
        self.resolved.rcu(|known| {
            Arc::clone(if known.number > resolved.number { known } else { &resolved })
        });
    }
}

impl Resolved {
    fn new(targets: &[Target], shown: &Shown, generation: &Generation) -> Self {
        let format = shown.format.unwrap_or(generation.http.fields);
        let part = |(index, target): (usize, &Target)| {
            Part::new(target, shown.partitions.get(index), generation)
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
}

impl Part {
    fn new(target: &Target, partition: Option<&ShownPartition>, generation: &Generation) -> Self {
        let entry = generation.entry(target.name());
        let switch = entry.map_or(Switch::On, |entry| entry.switch).and(generation.switch);
        let opened = match (target, entry) {
            (Target::Named(_), Some(entry)) => Arc::clone(&entry.opened),
            (Target::Inline(_), Some(entry)) if entry.origin == Origin::Config => {
                Arc::clone(&entry.opened)
            }
            // Call sites that share a limit have numbers of their own, to which its overrides apply.
            (Target::Inline(given), Some(Entry { opened, .. })) => match opened.overrides() {
                Some(overrides) => Arc::new(given.overridden(overrides, None)),
                None => Arc::clone(given),
            },
            (Target::Inline(given) | Target::Keyed(given), None) => Arc::clone(given),
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
        Self::Known(Known { opened, switch, partition })
    }
}
