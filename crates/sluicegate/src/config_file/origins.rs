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

    /// Adds the limits of other files.
    pub(super) fn extend(&mut self, others: Self) {
        self.limits.extend(others.limits);
    }

    /// Adds what is known when everything is read: the names of the files, and the limits.
    pub(super) fn finish<'l>(
        &mut self,
        files: &[FileName],
        limits: impl Iterator<Item = &'l LimitConfig>,
    ) {
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

#[cfg(test)]
mod tests {
    use crate::{Config, Registry};

    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(text, "limits.yaml").unwrap()
    }

    fn origins(text: &str) -> Arc<Origins> {
        Registry::open(&config(text)).unwrap().origins()
    }

    #[track_caller]
    fn at(place: Option<FilePlace>) -> (u64, u64) {
        let place = place.unwrap();
        assert_eq!(&*place.file, "limits.yaml");
        (place.line, place.column)
    }

    const YAML: &str = "enabled: true
limits:
  api:
    policies:
      - token_bucket 10/s burst 20
      - >-
        fixed_window
        100/d
    key: user
    deadline: 20ms
    allow: [alice,
      \"t\\u0007m\"]
    block:
      - mallory
    overrides:
      - {key: acme, times: 10}
      - key: big
        policies:
          - token_bucket 50/s
          - fixed_window 900/d
";

    #[test]
    fn each_setting_has_its_place() {
        let origins = origins(YAML);
        assert_eq!(at(origins.setting("enabled")), (1, 1));
        let api = origins.limit("api").unwrap();
        assert_eq!(at(Some(api.name())), (3, 3));
        assert_eq!((at(api.policy(0)), at(api.policy(1)).0), ((5, 9), 7));
        assert_eq!((at(api.setting("key")), at(api.setting("deadline"))), ((9, 5), (10, 5)));
        assert_eq!((at(api.allow(0)), at(api.allow(1))), ((11, 13), (12, 7)));
        assert_eq!(at(api.block(0)), (14, 9));
        assert_eq!((at(api.override_key(0)), at(api.override_numbers(0, 1))), ((16, 15), (16, 28)));
        assert_eq!((at(api.override_key(1)), at(api.override_numbers(1, 1))), ((17, 14), (20, 13)));
        let absent = [api.policy(2), api.allow(2), api.setting("ban"), api.override_key(2)];
        assert_eq!(absent, [None, None, None, None]);
    }

    #[test]
    fn json_has_places_too() {
        let json = "{\"limits\": {\n\"a|\\u0022\": 1,\n\"b\": {\"policies\": [\n\"gcra 1/s\"]}}}";
        assert!(Config::parse(json, "limits.yaml").is_err(), "the first name is none");
        let json = json.replace("\"a|\\u0022\": 1,", "");
        let origins = origins(&json);
        let limit = origins.limit("b").unwrap();
        assert_eq!((at(Some(limit.name())), at(limit.policy(0))), ((3, 1), (4, 1)));
    }

    #[test]
    fn entries_of_other_files_have_the_lines_of_those() {
        let path = std::env::temp_dir().join(format!("sluicegate-origins-{}", std::process::id()));
        std::fs::write(&path, "# keys\n\nmallory\n  eve\n").unwrap();
        let text = "limits: {a: {policies: [gcra 1/s], block: [x], block_file: FILE}}";
        let origins = origins(&text.replace("FILE", path.to_str().unwrap()));
        std::fs::remove_file(&path).unwrap();
        let limit = origins.limit("a").unwrap();
        assert_eq!(at(limit.block(0)), (1, 44));
        let places = [1, 2].map(|index| limit.block(index).unwrap());
        assert_eq!(places.clone().map(|it| (it.line, it.column)), [(3, 1), (4, 3)]);
        assert_eq!(&*places[0].file, path.to_str().unwrap());
    }

    #[test]
    fn a_reload_that_moves_lines_changes_nothing_else() {
        let registry = Registry::open(&config(YAML)).unwrap();
        let (generation, limit) = (registry.generation(), registry.limit("api").unwrap());
        let moved = format!("# moved\n{YAML}");
        assert_eq!(config(YAML), config(&moved), "places don't count");
        assert!(registry.replace(&config(&moved)).unwrap().is_empty());
        assert_eq!(registry.generation(), generation);
        assert!(Arc::ptr_eq(&limit, &registry.limit("api").unwrap()));
        let origins = registry.origins();
        assert_eq!(at(origins.limit("api").unwrap().block(0)), (15, 9));
    }

    #[test]
    fn limits_that_code_makes_or_changes_have_no_place() {
        let mut changed = config(YAML);
        Arc::make_mut(&mut changed.limits[0]).block.clear();
        let registry = Registry::open(&changed).unwrap();
        let _inline = registry.inline(Limit::new("inline", ["gcra 1/s"]).unwrap());
        let origins = registry.origins();
        assert!(origins.limit("api").is_none() && origins.limit("inline").is_none());
        let demo = Registry::open(&Config::default()).unwrap();
        assert!(demo.origins().limit("demo").is_none(), "there is no file");
    }
}
