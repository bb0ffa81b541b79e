//! The positions of settings in the files of a configuration.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use sluicegate_core::Limit;

use super::problem::Spot;
use super::{FileName, LimitConfig};

/// The place in a file where a setting is written.
///
/// Prints as `FILE:LINE:COLUMN`.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct FilePlace {
    /// Name of the file. Control characters are escaped.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u64,
    /// The column in characters, from 1.
    pub column: u64,
}

/// The places of a configuration's settings. They don't count when two configurations are compared.
///
/// ```
/// use sluicegate::{Config, Registry};
///
/// let text = "limits:\n  login:\n    policies:\n      - gcra 5/min\n";
/// let registry = Registry::open(&Config::parse(text, "limits.yaml")?)?;
/// let origins = registry.origins();
/// let login = origins.limit("login").unwrap();
/// assert_eq!(login.name().to_string(), "limits.yaml:2:3");
/// assert_eq!(login.policy(0).unwrap().to_string(), "limits.yaml:4:9");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Origins {
    files: Arc<[FileName]>,
    settings: Vec<(&'static str, Spot)>,
    limits: HashMap<Box<str>, Arc<LimitOrigins>>,
}

/// The places of a limit's settings.
#[derive(Clone, Debug, Default)]
pub struct LimitOrigins {
    files: Arc<[FileName]>,
    /// The policies as they were read. Code may have changed the configuration since then.
    of: Option<Limit>,
    name: Spot,
    settings: Vec<(&'static str, Spot)>,
    policies: Box<[Spot]>,
    allow: Vec<Spot>,
    block: Vec<Spot>,
    overrides: Vec<OverrideSpots>,
}

/// The places of an override of the file.
#[derive(Clone, Debug, Default)]
pub(super) struct OverrideSpots {
    pub(super) key: Spot,
    /// The place of `times`, or of the first policy.
    pub(super) numbers: Spot,
    /// The places of further policies.
    pub(super) others: Box<[Spot]>,
}

impl Origins {
    /// Returns the places of a limit's settings; `None` if no file has the limit.
    #[must_use]
    pub fn limit(&self, name: &str) -> Option<&Arc<LimitOrigins>> {
        self.limits.get(name)
    }

    /// Returns the place of a field at the top of the file, such as `enabled`.
    #[must_use]
    pub fn setting(&self, field: &str) -> Option<FilePlace> {
        found(&self.settings, field).map(|spot| place(&self.files, spot))
    }

    /// Adds a field at the top of the file.
    pub(super) fn add_setting(&mut self, field: &'static str, spot: Spot) {
        self.settings.push((field, spot));
    }

    /// Adds a limit.
    pub(super) fn add(&mut self, name: &str, limit: LimitOrigins) {
        self.limits.insert(name.into(), Arc::new(limit));
    }

    /// Adds what is known when everything is read: the names of the files, and the limits.
    pub(super) fn finish(&mut self, files: &[FileName], limits: &[Arc<LimitConfig>]) {
        self.files = files.into();
        for limit in limits {
            let known = self.limits.get_mut(limit.limit.name().as_str()).and_then(Arc::get_mut);
            if let Some(known) = known {
                (known.files, known.of) = (Arc::clone(&self.files), Some(limit.limit.clone()));
            }
        }
    }

    /// Returns the places, without those of limits whose policies or lists code has changed since they were read.
    pub(super) fn of(&self, limits: &[Arc<LimitConfig>]) -> Self {
        let unchanged = limits.iter().filter_map(|limit| {
            let (name, known) = self.limits.get_key_value(limit.limit.name().as_str())?;
            known.is_of(limit).then(|| (name.clone(), Arc::clone(known)))
        });
        Self {
            files: Arc::clone(&self.files),
            settings: self.settings.clone(),
            limits: unchanged.collect(),
        }
    }
}

impl LimitOrigins {
    /// Makes the places of a limit whose name is at `name`.
    pub(super) fn at(name: Spot) -> Self {
        Self { name, ..Self::default() }
    }

    /// Returns the place of the limit's name.
    #[must_use]
    pub fn name(&self) -> FilePlace {
        place(&self.files, self.name)
    }

    /// Returns the place of a field, such as `deadline`; `None` if the file doesn't have it, so that its default counts.
    #[must_use]
    pub fn setting(&self, field: &str) -> Option<FilePlace> {
        found(&self.settings, field).map(|spot| place(&self.files, spot))
    }

    /// Returns the place of a policy, by its index in the limit. A policy is one line of text, so its numbers are there.
    #[must_use]
    pub fn policy(&self, index: usize) -> Option<FilePlace> {
        self.of_spot(self.policies.get(index))
    }

    /// Returns the place of an entry of `allow`, by its index.
    #[must_use]
    pub fn allow(&self, index: usize) -> Option<FilePlace> {
        self.of_spot(self.allow.get(index))
    }

    /// Returns the place of an entry of `block`, by its index.
    #[must_use]
    pub fn block(&self, index: usize) -> Option<FilePlace> {
        self.of_spot(self.block.get(index))
    }

    /// Returns the place of the key of an override, by its index.
    #[must_use]
    pub fn override_key(&self, index: usize) -> Option<FilePlace> {
        self.of_spot(self.overrides.get(index).map(|it| &it.key))
    }

    /// Returns the place of the numbers that an override gives a policy: that of the policy, or of `times`.
    #[must_use]
    pub fn override_numbers(&self, index: usize, policy: usize) -> Option<FilePlace> {
        let spots = self.overrides.get(index)?;
        let other = policy.checked_sub(1).and_then(|other| spots.others.get(other));
        self.of_spot(Some(other.unwrap_or(&spots.numbers)))
    }

    pub(super) fn add_setting(&mut self, field: &'static str, spot: Spot) {
        self.settings.push((field, spot));
    }

    pub(super) fn set_policies(&mut self, spots: impl Iterator<Item = Spot>) {
        self.policies = spots.collect();
    }

    pub(super) fn set_lists(&mut self, allow: Vec<Spot>, block: Vec<Spot>) {
        (self.allow, self.block) = (allow, block);
    }

    pub(super) fn set_overrides(&mut self, overrides: Vec<OverrideSpots>) {
        self.overrides = overrides;
    }

    /// Returns whether a limit has the policies and the lists whose places these are.
    fn is_of(&self, limit: &LimitConfig) -> bool {
        self.of.as_ref() == Some(&limit.limit)
            && self.allow.len() == limit.allow.len()
            && self.block.len() == limit.block.len()
            && self.overrides.len() == limit.overrides.len()
    }

    fn of_spot(&self, spot: Option<&Spot>) -> Option<FilePlace> {
        spot.map(|spot| place(&self.files, *spot))
    }
}

fn found(settings: &[(&'static str, Spot)], field: &str) -> Option<Spot> {
    settings.iter().find(|(known, _)| *known == field).map(|(_, spot)| *spot)
}

fn place(files: &[FileName], spot: Spot) -> FilePlace {
    let file = usize::try_from(spot.file).ok().and_then(|file| files.get(file));
    FilePlace {
        file: file.cloned().unwrap_or_default(),
        line: spot.line.into(),
        column: spot.column.into(),
    }
}

impl fmt::Display for FilePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}
