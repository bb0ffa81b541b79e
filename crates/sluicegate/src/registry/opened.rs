//! A limit opened in its store.

use std::sync::Arc;

use sluicegate_core::{Limit, OpenOptions, Purpose, SharedStore};
use sluicegate_http::{KeyMap, KeyView};

use super::at_run_time::{AtRunTime, OverrideProblems, Said};
use super::number_sets::NumberSets;
use super::standing::Treatment;
use crate::ask::Subject;
use crate::config_file::{LimitConfig, Switch};
use crate::layers::{FallsBack, RemembersDenials, RetriesUnknown};
use crate::limiter::Limiter;
use crate::observe::Observers;
use crate::on_store_failure::OnStoreFailure;
use crate::overrides::{ChangedKeys, OfLimit};

/// One limit of a configuration, opened in its store with each of its sets of numbers. It outlives
/// its configuration as long as the next one has the same limit.
#[derive(Clone, Debug)]
pub(super) struct Opened {
    pub(super) config: Arc<LimitConfig>,
    sets: NumberSets,
    /// The number of sets when all of them were needed.
    needed: usize,
    lists: Arc<KeyMap<Listed>>,
    /// The set of numbers of each override of the configuration, and its index there.
    overrides: Arc<KeyMap<(u32, u32)>>,
    at_run_time: AtRunTime,
    /// The overrides at run time, if there are any.
    of_limit: Option<OfLimit>,
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
        self.sets.own().store()
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

    /// Returns this limit with overrides at run time. `before` is an earlier result, with the keys whose overrides changed
    /// since then. Its limiters stay open.
    pub(super) fn overridden(
        &self,
        overrides: &OfLimit,
        before: Option<(&Self, &ChangedKeys)>,
    ) -> Self {
        if let Some((before, changed)) = before
            && !changed.contains(&None)
            && !before.has_grown()
        {
            return self.with_changes(before, overrides, changed);
        }
        let mut made =
            Self::with_overrides(Arc::clone(&self.config), overrides, |config, limit| {
                let mut known = before.into_iter().map(|(before, _)| before).chain([self]);
                let known = known.find_map(|opened| opened.sets.find(limit)).cloned();
                known.unwrap_or_else(|| self.open_like(config, limit))
            });
        made.of_limit = Some(overrides.clone());
        made
    }

    /// Returns `before` with other overrides of some keys, in a time that doesn't depend on the number of the others.
    fn with_changes(&self, before: &Self, overrides: &OfLimit, changed: &ChangedKeys) -> Self {
        let mut made = before.clone();
        for key in changed.iter().flatten() {
            let kept = overrides.keys.get(key).map(|kept| &**kept);
            made.at_run_time.set(&self.config, key, kept, |limit| {
                made.sets.index_of(limit, |limit| self.open_like(&before.config, limit))
            });
        }
        made.of_limit = Some(overrides.clone());
        made
    }

    /// Returns whether most sets of numbers may be those of earlier overrides.
    fn has_grown(&self) -> bool {
        self.sets.limiters().len() > 2 * self.needed + 64
    }

    fn open_like(&self, config: &LimitConfig, limit: &Limit) -> Limiter {
        let own = self.sets.own();
        open(config, limit, own.store(), own.observers())
    }

    fn with_overrides(
        mut config: Arc<LimitConfig>,
        overrides: &OfLimit,
        open: impl Fn(&LimitConfig, &Limit) -> Limiter,
    ) -> Self {
        let base = Arc::clone(&config);
        let (mut at_run_time, own) = AtRunTime::of_whole(&base, overrides.whole.as_deref());
        if let Some(limit) = own {
            config = Arc::new(config.with_numbers_of(limit));
        }
        let mut sets = NumberSets::new(open(&config, &config.limit));
        let mut set_of = |limit: &Limit| sets.index_of(limit, |limit| open(&config, limit));
        for (key, kept) in &overrides.keys {
            at_run_time.set(&base, key, Some(kept), &mut set_of);
        }
        let overrides = (0..).zip(&config.overrides);
        let overrides: Vec<_> = overrides
            .map(|(index, entry)| (entry.key().clone(), (set_of(entry.limit()), index)))
            .collect();
        let blocked = (0..).zip(&config.block);
        let blocked = blocked.map(|(index, matcher)| (matcher.clone(), Listed::Blocked(index)));
        let allowed = (0..).zip(&config.allow);
        let allowed = allowed.map(|(index, matcher)| (matcher.clone(), Listed::Allowed(index)));
        Self {
            // The first one of equal entries counts.
            lists: Arc::new(KeyMap::new(&config.key, blocked.chain(allowed))),
            overrides: Arc::new(KeyMap::new(&config.key, overrides)),
            at_run_time,
            of_limit: None,
            needed: sets.limiters().len(),
            sets,
            config,
        }
    }

    pub(super) fn name(&self) -> &str {
        self.config.limit.name().as_str()
    }

    /// Returns the limit with other numbers and its own settings, without the numbers of overrides.
    pub(super) fn with_numbers_of(&self, limit: &Limit) -> Self {
        let limit = limit.otherwise_as(&self.config.limit, 0);
        let own = self.sets.own();
        let config = Arc::new(self.config.with_numbers_of(limit));
        let made = Self::new(config, own.store(), own.observers());
        Self { at_run_time: self.at_run_time.without_numbers(), ..made }
    }

    /// Returns the overrides at run time, if there are any.
    pub(super) const fn overrides(&self) -> Option<&OfLimit> {
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
    pub(super) fn limiters(&self) -> &[Limiter] {
        self.sets.limiters()
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
