//! A limit opened in its store.

use std::collections::HashMap;
use std::sync::Arc;

use sluicegate_core::{Limit, OpenOptions, Purpose, SharedStore};
use sluicegate_http::{KeyMap, KeyView};

use crate::ask::Subject;
use crate::config_file::{LimitConfig, Switch};
use crate::layers::{FallsBack, RemembersDenials, RetriesUnknown};
use crate::limiter::Limiter;
use crate::observe::Observers;
use crate::on_store_failure::OnStoreFailure;

/// One limit of a configuration, opened in its store with each of its sets of numbers. It outlives
/// its configuration as long as the next one has the same limit.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) config: Arc<LimitConfig>,
    /// One limiter with the limit's own numbers, then one for each different set of numbers of the overrides.
    limiters: Box<[Limiter]>,
    lists: KeyMap<Listed>,
    overrides: KeyMap<u32>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Listed {
    Allowed,
    Blocked,
}

/// The result of a limit's lists and overrides for a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Listing {
    Allowed,
    Blocked,
    /// The key is counted, with this set of numbers.
    Counted(u32),
}

impl Opened {
    /// Returns the store it was opened in.
    pub(super) fn store(&self) -> &SharedStore {
        self.limiters[0].store()
    }

    pub(super) fn new(
        config: Arc<LimitConfig>,
        store: &SharedStore,
        observers: &Observers,
    ) -> Self {
        let open = |limit: &Limit| {
            let mut options = OpenOptions::default();
            options.deadline = config.deadline;
            options.acknowledged = config.replicas;
            let options = options
                .layer(RemembersDenials(config.deny_cache == Switch::On))
                .layer(config.leases)
                .layer(RetriesUnknown(config.retry_unknown == Switch::On))
                .layer(FallsBack(config.on_store_failure == OnStoreFailure::Local));
            Limiter::builder(store.clone(), limit.clone())
                .options(options)
                .on_store_failure(config.on_store_failure)
                .observers(observers.clone())
                .build_for_registry()
        };
        let mut limiters = vec![open(&config.limit)];
        // Keys with the same numbers share one limiter.
        let mut known: HashMap<String, u32> = HashMap::new();
        let mut overrides = Vec::with_capacity(config.overrides.len());
        for entry in &config.overrides {
            let numbers = entry.limit().members().iter().map(|member| member.policy().to_string());
            let set = *known.entry(numbers.collect::<Vec<_>>().join("\n")).or_insert_with(|| {
                limiters.push(open(entry.limit()));
                u32::try_from(limiters.len() - 1).unwrap_or(0)
            });
            overrides.push((entry.key().clone(), set));
        }
        let blocked = config.block.iter().map(|matcher| (matcher.clone(), Listed::Blocked));
        let allowed = config.allow.iter().map(|matcher| (matcher.clone(), Listed::Allowed));
        Self {
            // The first one of equal entries counts.
            lists: KeyMap::new(&config.key, blocked.chain(allowed)),
            overrides: KeyMap::new(&config.key, overrides),
            limiters: limiters.into(),
            config,
        }
    }

    pub(super) fn name(&self) -> &str {
        self.config.limit.name().as_str()
    }

    /// Returns the limit with other numbers and its own settings, without overrides.
    pub(super) fn with_numbers_of(&self, limit: &Limit) -> Self {
        let limit = limit.otherwise_as(&self.config.limit, 0);
        let limiter = &self.limiters[0];
        let config = Arc::new(self.config.with_numbers_of(limit));
        Self::new(config, limiter.store(), limiter.observers())
    }

    /// Returns whether every key is counted, with the same numbers.
    pub(super) fn is_plain(&self) -> bool {
        self.lists.is_empty() && self.overrides.is_empty()
    }

    /// Returns one limiter with the limit's own numbers, then one for each different set of numbers of the overrides.
    pub(super) const fn limiters(&self) -> &[Limiter] {
        &self.limiters
    }

    /// Returns the set of numbers by which a key is counted, regardless of lists.
    pub(super) fn numbers_of(&self, key: &[u8]) -> u32 {
        self.overrides.find(self.config.key.read(key)).copied().unwrap_or(0)
    }

    pub(super) fn listing(&self, subject: &Subject<'_>, purpose: Purpose) -> Listing {
        let key = self.view(subject);
        match (self.lists.find(key), purpose) {
            (Some(Listed::Allowed), Purpose::Admit | Purpose::Settle) => Listing::Allowed,
            (Some(Listed::Blocked), Purpose::Admit) => Listing::Blocked,
            _ => Listing::Counted(self.overrides.find(key).copied().unwrap_or(0)),
        }
    }

    /// Returns the key as entries match it.
    fn view<'k>(&self, subject: &Subject<'k>) -> KeyView<'k> {
        match subject.made {
            Some(key) if key.as_bytes() == subject.key => key.view(),
            // The key is text without a network.
            Some(_) => self.config.key.read(subject.key).without_network(),
            None => self.config.key.read(subject.key),
        }
    }
}
