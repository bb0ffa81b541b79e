//! A limit's configuration that isn't in force, to ask how it would treat keys.

use std::sync::Arc;

use sluicegate_core::{Limit, Purpose, SharedStore};
use sluicegate_memory::MemoryStore;

use super::Registry;
use super::opened::{Listing, Opened};
use crate::config_file::LimitConfig;
use crate::observe::Observers;

/// A limit's configuration that isn't in force, to ask how it would treat keys.
///
/// ```
/// use sluicegate::Config;
/// use sluicegate::admin::{Hypothetical, KeyTreatment};
///
/// let text = "limits: {api: {policies: [gcra 1/s], block: [mallory], overrides: [{key: acme, times: 5}]}}";
/// let config = Config::parse(text, "limits.yaml")?;
/// let limit = Hypothetical::new(config.limits[0].clone());
/// assert_eq!(limit.treatment(b"mallory"), KeyTreatment::Blocked);
/// let KeyTreatment::Counted(limit) = limit.treatment(b"acme") else { panic!("it is counted") };
/// assert_eq!(limit.members()[0].policy().to_string(), "gcra 5/s");
/// # Ok::<(), sluicegate::config::ConfigErrors>(())
/// ```
#[derive(Debug)]
pub struct Hypothetical {
    opened: Opened,
}

/// The treatment of a key by a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum KeyTreatment<'h> {
    /// Its requests pass, and aren't counted.
    Allowed,
    /// Its requests are denied.
    Blocked,
    /// Its requests are counted, by these policies.
    Counted(&'h Limit),
}

impl Hypothetical {
    /// Makes a limit without overrides at run time.
    #[must_use]
    pub fn new(config: impl Into<Arc<LimitConfig>>) -> Self {
        // Nothing is decided in this store.
        let store = SharedStore::new(MemoryStore::new());
        Self { opened: Opened::new(config.into(), &store, &Observers::default()) }
    }

    /// Adds the overrides at run time of a registry's limit with the same name, as far as this process knows them.
    /// `replaces_whole` leaves out the override of the whole limit.
    #[must_use]
    pub fn with_overrides_of(self, registry: &Registry, replaces_whole: bool) -> Self {
        let mut of_limit = registry.overrides().known_of_limit(self.opened.name());
        if replaces_whole {
            of_limit.whole = None;
        }
        Self { opened: self.opened.overridden(&of_limit, None) }
    }

    /// Returns the limit with the numbers of keys without an override.
    #[must_use]
    pub fn limit(&self) -> &Limit {
        &self.opened.config.limit
    }

    /// Returns the treatment of a key, in the form in which the limit counts it.
    #[must_use]
    pub fn treatment(&self, key: &[u8]) -> KeyTreatment<'_> {
        let view = self.opened.config.key.read(key);
        match self.opened.listing_of(key, view, Purpose::Admit) {
            Listing::Allowed => KeyTreatment::Allowed,
            Listing::Blocked => KeyTreatment::Blocked,
            Listing::Counted(set) => {
                let limiter =
                    usize::try_from(set).ok().and_then(|set| self.opened.limiters().get(set));
                KeyTreatment::Counted(limiter.map_or(self.limit(), |limiter| limiter.limit()))
            }
        }
    }
}
