//! A limit opened in its store.

use std::collections::HashMap;
use std::sync::Arc;

use sluicegate_core::{Limit, OpenOptions, Purpose, SharedStore};
use sluicegate_http::{KeyMap, KeyView};

use super::at_run_time::{AtRunTime, Numbers, OverrideProblems, Said, text_of};
use super::standing::Treatment;
use crate::ask::Subject;
use crate::config_file::{LimitConfig, Switch};
use crate::layers::{FallsBack, RemembersDenials, RetriesUnknown};
use crate::limiter::Limiter;
use crate::observe::Observers;
use crate::on_store_failure::OnStoreFailure;
use crate::overrides::OfLimit;

/// One limit of a configuration, opened in its store with each of its sets of numbers. It outlives
/// its configuration as long as the next one has the same limit.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) config: Arc<LimitConfig>,
    /// One limiter with the limit's own numbers, then one for each different set of numbers of the overrides.
    limiters: Box<[Limiter]>,
    lists: KeyMap<Listed>,
    /// The set of numbers of each override of the configuration, and its index there.
    overrides: KeyMap<(u32, u32)>,
    at_run_time: AtRunTime,
    /// The overrides at run time, if there are any.
    of_limit: Option<Arc<OfLimit>>,
}

/// The list that an entry is on, and its index there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Listed {
    Allowed(u32),
    Blocked(u32),
}

/// The setting that decides about a key, before the numbers of the configuration.
#[derive(Clone, Copy, Debug)]
enum Deciding {
    /// An override at run time of the key.
    OfKey(Said),
    List(Listed),
    /// An override at run time of the whole limit.
    OfAll(Said),
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
        Self::with_overrides(config, &OfLimit::default(), |config, limit| {
            open(config, limit, store, observers)
        })
    }

    /// Returns this limit with overrides at run time. Limiters of `before`, an earlier result, stay open.
    pub(super) fn overridden(&self, overrides: &Arc<OfLimit>, before: Option<&Self>) -> Self {
        let opened = before.into_iter().chain([self]);
        let opened: HashMap<String, &Limiter> = opened
            .flat_map(|opened| &*opened.limiters)
            .map(|limiter| (text_of(limiter.limit()), limiter))
            .collect();
        let made = Self::with_overrides(Arc::clone(&self.config), overrides, |config, limit| {
            let first = &self.limiters[0];
            let known = opened.get(&text_of(limit)).map(|known| Limiter::clone(known));
            known.unwrap_or_else(|| open(config, limit, first.store(), first.observers()))
        });
        Self { of_limit: Some(Arc::clone(overrides)), ..made }
    }

    fn with_overrides(
        mut config: Arc<LimitConfig>,
        at_run_time: &OfLimit,
        open: impl Fn(&LimitConfig, &Limit) -> Limiter,
    ) -> Self {
        // Keys with the same numbers share one limiter. The first one has the limit's own numbers.
        let (mut known, mut sets): (HashMap<String, u32>, Vec<Limit>) =
            (HashMap::new(), Vec::new());
        let mut set_of = |limit: &Limit| {
            *known.entry(text_of(limit)).or_insert_with(|| {
                sets.push(limit.clone());
                u32::try_from(sets.len()).unwrap_or(0)
            })
        };
        let Numbers { own, at_run_time } = AtRunTime::of(&config, at_run_time, &mut set_of);
        if let Some(limit) = own {
            config = Arc::new(config.with_numbers_of(limit));
        }
        let overrides = (0..).zip(&config.overrides);
        let overrides: Vec<_> = overrides
            .map(|(index, entry)| (entry.key().clone(), (set_of(entry.limit()), index)))
            .collect();
        let limiters = std::iter::once(&config.limit).chain(&sets);
        let limiters = limiters.map(|limit| open(&config, limit)).collect();
        let blocked = (0..).zip(&config.block);
        let blocked = blocked.map(|(index, matcher)| (matcher.clone(), Listed::Blocked(index)));
        let allowed = (0..).zip(&config.allow);
        let allowed = allowed.map(|(index, matcher)| (matcher.clone(), Listed::Allowed(index)));
        Self {
            // The first one of equal entries counts.
            lists: KeyMap::new(&config.key, blocked.chain(allowed)),
            overrides: KeyMap::new(&config.key, overrides),
            at_run_time,
            of_limit: None,
            limiters,
            config,
        }
    }

    pub(super) fn name(&self) -> &str {
        self.config.limit.name().as_str()
    }

    /// Returns the limit with other numbers and its own settings, without the numbers of overrides.
    pub(super) fn with_numbers_of(&self, limit: &Limit) -> Self {
        let limit = limit.otherwise_as(&self.config.limit, 0);
        let limiter = &self.limiters[0];
        let config = Arc::new(self.config.with_numbers_of(limit));
        let made = Self::new(config, limiter.store(), limiter.observers());
        Self { at_run_time: self.at_run_time.without_numbers(), ..made }
    }

    /// Returns the overrides at run time, if there are any.
    pub(super) const fn overrides(&self) -> Option<&Arc<OfLimit>> {
        self.of_limit.as_ref()
    }

    /// Returns why overrides at run time aren't in force.
    pub(super) const fn override_problems(&self) -> &OverrideProblems {
        self.at_run_time.problems()
    }

    /// Returns whether every key is counted, with the same numbers.
    pub(super) fn is_plain(&self) -> bool {
        self.lists.is_empty() && self.overrides.is_empty() && self.at_run_time.is_empty()
    }

    /// Returns one limiter with the limit's own numbers, then one for each different set of numbers of the overrides.
    pub(super) const fn limiters(&self) -> &[Limiter] {
        &self.limiters
    }

    /// Returns the set of numbers by which a key is counted, regardless of lists.
    pub(super) fn numbers_of(&self, key: &[u8]) -> u32 {
        match self.at_run_time.of_key(key) {
            Some(Said::Counted(set)) => set,
            _ => self.overrides.find(self.config.key.read(key)).map_or(0, |(set, _)| *set),
        }
    }

    pub(super) fn listing(&self, subject: &Subject<'_>, purpose: Purpose) -> Listing {
        self.listing_of(subject.key, self.view(subject), purpose)
    }

    /// Returns the result for a key. `view` is the key as entries match it.
    pub(super) fn listing_of(&self, key: &[u8], view: KeyView<'_>, purpose: Purpose) -> Listing {
        let said = self.deciding(key, view).map(|deciding| match deciding {
            Deciding::OfKey(said) | Deciding::OfAll(said) => said,
            Deciding::List(Listed::Allowed(_)) => Said::Allowed,
            Deciding::List(Listed::Blocked(_)) => Said::Blocked,
        });
        match (said, purpose) {
            (Some(Said::Counted(set)), _) => Listing::Counted(set),
            (Some(Said::Allowed), Purpose::Admit | Purpose::Settle) => Listing::Allowed,
            (Some(Said::Blocked), Purpose::Admit) => Listing::Blocked,
            _ => Listing::Counted(self.overrides.find(view).map_or(0, |(set, _)| *set)),
        }
    }

    /// Returns the setting that decides about a key that a request gives.
    pub(super) fn treatment(&self, key: &[u8]) -> Treatment {
        let view = self.config.key.read(key);
        // Numbers for the whole limit are those of its configuration by now.
        let has_other_numbers = || {
            let whole = self.of_limit.as_ref().and_then(|of_limit| of_limit.whole.as_ref());
            whole.is_some() && self.override_problems().of(None).is_none()
        };
        match self.deciding(key, view) {
            Some(Deciding::OfKey(_)) => Treatment::KeyOverride,
            Some(Deciding::List(Listed::Allowed(index))) => Treatment::Allowed(to_usize(index)),
            Some(Deciding::List(Listed::Blocked(index))) => Treatment::Blocked(to_usize(index)),
            Some(Deciding::OfAll(_)) => Treatment::LimitOverride,
            None if has_other_numbers() => Treatment::LimitOverride,
            None => match self.overrides.find(view) {
                Some((_, index)) => Treatment::Override(to_usize(*index)),
                None => Treatment::Own,
            },
        }
    }

    /// Returns the first setting in their order that is about a key; `None` if only the numbers of the configuration are.
    fn deciding(&self, key: &[u8], view: KeyView<'_>) -> Option<Deciding> {
        let of_key = self.at_run_time.of_key(key).map(Deciding::OfKey);
        let listed = || self.lists.find(view).copied().map(Deciding::List);
        of_key.or_else(listed).or_else(|| self.at_run_time.of_all().map(Deciding::OfAll))
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

fn to_usize(index: u32) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

/// Opens a limit with the settings of its configuration.
fn open(
    config: &LimitConfig,
    limit: &Limit,
    store: &SharedStore,
    observers: &Observers,
) -> Limiter {
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
}
