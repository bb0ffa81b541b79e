//! The limits that a gate names, as one configuration has them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use sluicegate_core::StoreError;

use super::cell::Target;
use super::generation::{Generation, Origin};
use super::joint::{Joint, Numbers};
use super::opened::Opened;
use super::switch::{Switch, UnknownLimit};
use crate::any_store::AnyStore;
#[cfg(any(feature = "actix", feature = "tower"))]
use crate::config::HttpConfig;
use crate::limiter::Limiter;

/// The limits that a gate names, as one configuration has them.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    /// Of the configuration; the default is older than all.
    pub(super) number: u64,
    pub(super) parts: Box<[Part]>,
    /// Where every key is counted, and each with the same numbers.
    pub(super) plain: Option<Limiter<AnyStore>>,
    pub(super) joint: Joint,
    /// How requests over HTTP are looked at and answered.
    #[cfg(any(feature = "actix", feature = "tower"))]
    pub(super) http: Arc<HttpConfig>,
}

/// One limit that a gate names.
#[derive(Debug)]
pub(super) enum Part {
    Known(Arc<Opened>, Switch),
    Unknown {
        then: UnknownLimit,
        /// Whether that was said.
        told: AtomicBool,
    },
}

impl Resolved {
    pub(super) fn new(targets: &[Target], generation: &Generation) -> Self {
        let parts: Box<[Part]> =
            targets.iter().map(|target| Part::new(target, generation)).collect();
        let mut resolved = Self {
            number: generation.number,
            parts,
            #[cfg(any(feature = "actix", feature = "tower"))]
            http: Arc::clone(&generation.http),
            ..Self::default()
        };
        if resolved.parts.iter().all(Part::is_plain) {
            resolved.plain = resolved.with_own_numbers().and_then(Result::ok);
        }
        resolved
    }

    /// All that are in force, each with its own numbers; `None` when none is.
    pub(super) fn with_own_numbers(&self) -> Option<Result<Limiter<AnyStore>, StoreError>> {
        let numbers: Numbers = self.parts.iter().map(|part| part.in_force().map(|_| 0)).collect();
        let first = self.parts.iter().find_map(Part::in_force)?;
        if self.parts.len() == 1 {
            return Some(Ok(first.limiter(0).clone()));
        }
        let joint = self.joint.limiter(&numbers, &self.parts);
        Some(joint.map(|limiter| Limiter::clone(&limiter)))
    }
}

impl Part {
    fn new(target: &Target, generation: &Generation) -> Self {
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
            // What is off is off for names that nobody knows too.
            (Target::Named(_), None) => {
                let then = match generation.switch {
                    Switch::On => generation.unknown,
                    Switch::Off => UnknownLimit::Pass,
                };
                return Self::Unknown { then, told: AtomicBool::new(false) };
            }
        };
        Self::Known(opened, switch)
    }

    pub(super) fn in_force(&self) -> Option<&Arc<Opened>> {
        match self {
            Self::Known(opened, Switch::On) => Some(opened),
            _ => None,
        }
    }

    fn is_plain(&self) -> bool {
        self.in_force().is_some_and(|opened| opened.is_plain())
    }
}
