//! The entry of a process in its fleet.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A process of the fleet.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Entry {
    /// Random text, which no other process has.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    /// Hash of the configuration's content; `None` without a configuration.
    pub(crate) config: Option<String>,
    /// Time for which that configuration has been in force.
    pub(crate) config_age_ms: u64,
    pub(crate) uptime_ms: u64,
    pub(crate) decisions_per_s: u64,
    pub(crate) leased_units: u64,
    /// Why the content of the config file isn't in force; `None` if it is.
    pub(crate) refused: Option<Refused>,
    /// The highest shares of capacity that keys use here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) used: Vec<UsedShare>,
}

/// The units that the key with the highest use of a limit took in a process.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct UsedShare {
    pub(crate) limit: String,
    /// Hash of the key.
    pub(crate) key: u64,
    /// The units, in thousandths of what the key could take.
    pub(crate) permille: u64,
}

/// A configuration that a process rejected.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Refused {
    pub(crate) message: String,
    pub(crate) age_ms: u64,
}

impl Refused {
    /// Maximum number of characters of a message.
    pub(super) const MOST: usize = 2_000;
}

impl Entry {
    /// Returns the entry as it is some time later.
    pub(super) fn older_by(mut self, passed: Duration) -> Self {
        let passed = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        let refused = self.refused.as_mut().map(|refused| &mut refused.age_ms);
        for age in [&mut self.config_age_ms, &mut self.uptime_ms].into_iter().chain(refused) {
            *age = age.saturating_add(passed);
        }
        self
    }
}

/// Returns for how long two configurations have decided at the same time; `None` if there is only one.
///
/// That is since the first process took over the newest one.
pub(crate) fn differing_for_ms(entries: &[Entry]) -> Option<u64> {
    let of_config = |config: &Option<String>| {
        entries
            .iter()
            .filter(|entry| entry.config == *config)
            .map(|entry| entry.config_age_ms)
            .max()
    };
    let first = entries.first()?;
    if entries.iter().all(|entry| entry.config == first.config) {
        return None;
    }
    entries.iter().filter_map(|entry| of_config(&entry.config)).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, config: &str, config_age_ms: u64) -> Entry {
        Entry {
            id: name.to_owned(),
            name: name.to_owned(),
            version: "1".to_owned(),
            config: Some(config.to_owned()),
            config_age_ms,
            uptime_ms: 100_000,
            ..Entry::default()
        }
    }

    #[test]
    fn configurations_differ_since_the_newest_was_first_taken_over() {
        assert_eq!(differing_for_ms(&[]), None);
        assert_eq!(differing_for_ms(&[entry("a", "x", 5), entry("b", "x", 900)]), None);
        let fleet = [entry("a", "x", 90_000), entry("b", "y", 700), entry("c", "y", 400)];
        assert_eq!(differing_for_ms(&fleet), Some(700));
    }

    #[test]
    fn ages_grow() {
        let mut young = entry("a", "x", 5);
        young.refused = Some(Refused { message: "no".to_owned(), age_ms: 7 });
        let old = young.older_by(Duration::from_secs(1));
        assert_eq!(
            (old.config_age_ms, old.uptime_ms, old.refused.unwrap().age_ms),
            (1_005, 101_000, 1_007)
        );
    }
}
