//! A limit opened in its store.

use std::collections::HashMap;
use std::sync::Arc;

use sluicegate_core::{Limit, OpenOptions, SharedStore};
use sluicegate_http::{Cidr, KeyComponent};

use super::key_index::KeyIndex;
use super::purpose::Purpose;
use crate::ask::Subject;
use crate::config::LimitConfig;
use crate::limiter::Limiter;
use crate::observe::Observers;

/// One limit of a configuration, opened in its store with each of its sets of numbers. It outlives
/// its configuration as long as the next one has the same limit.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) config: Arc<LimitConfig>,
    /// With the limit's own numbers, and then with those of the overrides, each set once.
    limiters: Box<[Limiter]>,
    lists: KeyIndex<Listed>,
    overrides: KeyIndex<u32>,
    /// Whether a key given as text that parses as a network is the client's network.
    is_by_address: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Listed {
    Allowed,
    Blocked,
}

/// What a limit's lists and overrides say about a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Listing {
    Allowed,
    Blocked,
    /// The key is counted, with this set of numbers.
    Counted(u32),
}

impl Opened {
    /// The store it was opened in.
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
            Limiter::builder(store.clone(), limit.clone())
                .options(options)
                .on_store_failure(config.on_store_failure)
                .observers(observers.clone())
                .build()
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
            overrides.push((entry.key(), set));
        }
        let blocked = config.block.iter().map(|matcher| (matcher, Listed::Blocked));
        let allowed = config.allow.iter().map(|matcher| (matcher, Listed::Allowed));
        Self {
            lists: KeyIndex::new(blocked.chain(allowed)),
            overrides: KeyIndex::new(overrides),
            limiters: limiters.into(),
            is_by_address: config.key.alternatives().eq([[KeyComponent::Ip]]),
            config,
        }
    }

    pub(super) fn name(&self) -> &str {
        self.config.limit.name().as_str()
    }

    /// The same limit with other numbers, and without overrides.
    pub(super) fn with_numbers_of(&self, limit: &Limit) -> Self {
        let mut config = self.config.as_ref().clone();
        config.limit = limit.clone();
        config.overrides.clear();
        let limiter = &self.limiters[0];
        Self::new(Arc::new(config), limiter.store(), limiter.observers())
    }

    /// Whether every key is counted, with the same numbers.
    pub(super) fn is_plain(&self) -> bool {
        self.lists.is_empty() && self.overrides.is_empty()
    }

    /// With the limit's own numbers, and then with those of the overrides, each set once.
    pub(super) const fn limiters(&self) -> &[Limiter] {
        &self.limiters
    }

    pub(super) fn listing(&self, subject: &Subject<'_>, purpose: Purpose) -> Listing {
        let network = self.network(subject);
        match (self.lists.find(subject.key, network), purpose) {
            (Some(Listed::Allowed), Purpose::Admit | Purpose::Settle) => Listing::Allowed,
            (Some(Listed::Blocked), Purpose::Admit) => Listing::Blocked,
            _ => Listing::Counted(self.overrides.find(subject.key, network).unwrap_or(0)),
        }
    }

    /// The client's network, if the key is or contains one and a list needs it.
    fn network(&self, subject: &Subject<'_>) -> Option<Cidr> {
        if !(self.lists.has_ranges() || self.overrides.has_ranges()) {
            return None;
        }
        match subject.made {
            Some(key) => key.network(),
            None if self.is_by_address => network_of_text(subject.key),
            None => None,
        }
    }
}

/// Parses a network.
fn network_of_text(text: &[u8]) -> Option<Cidr> {
    /// An IPv6 address of 45 characters, a slash and three digits.
    const MOST: usize = 49;
    let is_valid = |byte: &u8| byte.is_ascii_hexdigit() || b":./".contains(byte);
    // Checked first, because the parser's error needs an allocation.
    let may_be_one = text.len() <= MOST && text.iter().all(is_valid);
    str::from_utf8(text).ok().filter(|_| may_be_one)?.parse().ok()
}
