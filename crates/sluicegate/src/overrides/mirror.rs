//! A process' copy of the overrides in its store.
//!
//! It is pure: times are arguments. The ends of overrides are by the clock of the store. The copy knows how far that
//! clock is from its own.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use rpds::RedBlackTreeMapSync;
use sluicegate_core::Timestamp;
use sluicegate_core::for_stores::{Mark, NewSettings, News, Setting, SettingValue};

use super::stored::{Stored, name_of, subject_of};
use super::terms::OverrideTo;

/// An override that is in the store.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kept {
    pub(crate) to: OverrideTo,
    pub(super) note: Option<String>,
    pub(super) by: Option<String>,
    /// By the clock of the store.
    pub(super) since: Timestamp,
    /// By the clock of the store.
    pub(super) ends: Option<Timestamp>,
}

/// The overrides of one limit. A copy costs as much for many as for few.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OfLimit {
    pub(crate) whole: Option<Arc<Kept>>,
    pub(crate) keys: RedBlackTreeMapSync<Box<[u8]>, Arc<Kept>>,
}

/// The keys of a limit whose overrides changed; `None` is the override of the whole limit.
pub(crate) type ChangedKeys = BTreeSet<Option<Box<[u8]>>>;

/// The copy.
#[derive(Debug, Default)]
pub(super) struct Mirror {
    mark: Mark,
    limits: BTreeMap<String, OfLimit>,
    /// The names of overrides that end, in that order.
    ends: BTreeSet<(Timestamp, Vec<u8>)>,
    /// The time of the store's clock, and of the process' own at the same moment.
    clocks: (Timestamp, Timestamp),
}

/// The limits whose overrides changed.
pub(super) type ChangedLimits = BTreeMap<String, ChangedKeys>;

impl OfLimit {
    pub(crate) fn is_empty(&self) -> bool {
        self.whole.is_none() && self.keys.is_empty()
    }

    fn get(&self, key: Option<&[u8]>) -> Option<&Arc<Kept>> {
        key.map_or(self.whole.as_ref(), |key| self.keys.get(key))
    }

    fn insert(&mut self, key: Option<&[u8]>, kept: Arc<Kept>) {
        match key {
            Some(key) => self.keys.insert_mut(key.into(), kept),
            None => self.whole = Some(kept),
        }
    }

    fn remove(&mut self, key: Option<&[u8]>) {
        match key {
            Some(key) => drop(self.keys.remove_mut(key)),
            None => self.whole = None,
        }
    }

    /// Returns the names of the settings of a limit with this name.
    fn names(&self, limit: &str) -> impl Iterator<Item = Vec<u8>> {
        let keys = self.keys.keys().map(|key| name_of(limit, Some(key)));
        self.whole.iter().map(|_| name_of(limit, None)).chain(keys)
    }
}

impl Mirror {
    /// Returns the place in the log until which the copy is complete.
    pub(super) const fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Makes the next query read all overrides.
    pub(super) fn read_all_next(&mut self) {
        self.mark = Mark::default();
    }

    /// Returns the number of overrides of a limit's keys.
    pub(super) fn count(&self, limit: &str) -> usize {
        self.limits.get(limit).map_or(0, |of_limit| of_limit.keys.size())
    }

    /// Returns the number of overrides.
    pub(super) fn len(&self) -> usize {
        let count =
            |of_limit: &OfLimit| of_limit.keys.size() + usize::from(of_limit.whole.is_some());
        self.limits.values().map(count).sum()
    }

    /// Takes over what changed in the store. `own` is the time of the process' own clock.
    pub(super) fn apply(&mut self, news: News, own: Timestamp) -> ChangedLimits {
        let mut changed = ChangedLimits::new();
        self.clocks = (news.now, own);
        match news.settings {
            NewSettings::All(settings) => {
                let names: BTreeSet<&Vec<u8>> =
                    settings.iter().map(|setting| &setting.name).collect();
                let known = self.limits.iter().flat_map(|(limit, of_limit)| of_limit.names(limit));
                let gone: Vec<Vec<u8>> = known.filter(|name| !names.contains(name)).collect();
                for name in gone {
                    self.set(Setting { name, value: None }, &mut changed);
                }
                settings.into_iter().for_each(|setting| self.set(setting, &mut changed));
            }
            NewSettings::Changed(settings) => {
                settings.into_iter().for_each(|setting| self.set(setting, &mut changed));
            }
        }
        self.mark = news.mark;
        self.end(own, &mut changed);
        changed
    }

    /// Drops the overrides that have ended.
    pub(super) fn expire(&mut self, own: Timestamp) -> ChangedLimits {
        let mut changed = ChangedLimits::new();
        self.end(own, &mut changed);
        changed
    }

    /// Returns the time of the process' own clock at which the next override ends.
    pub(super) fn next_end(&self) -> Option<Timestamp> {
        let (ends, _) = self.ends.first()?;
        let (of_store, own) = self.clocks;
        let rest = ends.as_micros().saturating_sub(of_store.as_micros());
        Some(Timestamp::from_micros_clamped(own.as_micros().saturating_add(rest)))
    }

    /// Returns the time of the store's clock.
    pub(super) fn store_time(&self, own: Timestamp) -> Timestamp {
        let (of_store, own_then) = self.clocks;
        let passed = own.as_micros().saturating_sub(own_then.as_micros());
        Timestamp::from_micros_clamped(of_store.as_micros().saturating_add(passed))
    }

    /// Returns an override.
    pub(super) fn get(&self, limit: &str, key: Option<&[u8]>) -> Option<Arc<Kept>> {
        self.limits.get(limit)?.get(key).cloned()
    }

    /// Returns the overrides of a limit.
    pub(super) fn of_limit(&self, limit: &str) -> OfLimit {
        self.limits.get(limit).cloned().unwrap_or_default()
    }

    /// Returns the overrides of a limit's keys, in the order of the keys, from the one after `after`.
    pub(super) fn keys_after<'m>(
        &'m self,
        limit: &str,
        after: Option<&'m [u8]>,
    ) -> impl Iterator<Item = (&'m [u8], &'m Arc<Kept>)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let of_limit = self.limits.get(limit).into_iter();
        of_limit.flat_map(move |of_limit| {
            let keys = of_limit.keys.range::<[u8], _>((from, Bound::Unbounded));
            keys.map(|(key, kept)| (&**key, kept))
        })
    }

    fn set(&mut self, Setting { name, value }: Setting, changed: &mut ChangedLimits) {
        let Some((limit, key)) = subject_of(&name) else { return };
        let new = value.and_then(|value| Kept::read(&value)).map(Arc::new);
        let old = self.get(limit, key);
        if old == new {
            return;
        }
        if let Some(ends) = old.and_then(|old| old.ends) {
            self.ends.remove(&(ends, name.clone()));
        }
        if let Some(ends) = new.as_ref().and_then(|new| new.ends) {
            self.ends.insert((ends, name.clone()));
        }
        self.replace(&name, new, changed);
    }

    fn end(&mut self, own: Timestamp, changed: &mut ChangedLimits) {
        let now = self.store_time(own);
        while let Some((ends, _)) = self.ends.first()
            && *ends <= now
            && let Some((_, name)) = self.ends.pop_first()
        {
            self.replace(&name, None, changed);
        }
    }

    /// Sets or removes an override.
    fn replace(&mut self, name: &[u8], new: Option<Arc<Kept>>, changed: &mut ChangedLimits) {
        let Some((limit, key)) = subject_of(name) else { return };
        changed.entry(limit.to_owned()).or_default().insert(key.map(Into::into));
        let of_limit = self.limits.entry(limit.to_owned()).or_default();
        match new {
            Some(new) => of_limit.insert(key, new),
            None => of_limit.remove(key),
        }
        if of_limit.is_empty() {
            self.limits.remove(limit);
        }
    }
}

impl Kept {
    /// Reads the value of a setting; `None` if this version doesn't know such an override.
    pub(super) fn read(value: &SettingValue) -> Option<Self> {
        let stored = Stored::read(&value.content)?;
        let to = stored.to()?;
        let Stored { note, by, .. } = stored;
        Some(Self { to, note, by, since: value.since, ends: value.ends })
    }
}

#[cfg(test)]
mod tests {
    use super::super::terms::NewOverride;
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros_clamped(seconds * 1_000_000)
    }

    fn setting(limit: &str, key: Option<&str>, ends: Option<u64>) -> Setting {
        let content = Stored::of(&NewOverride::new(OverrideTo::Block)).write();
        let value = SettingValue { content, since: at(0), ends: ends.map(at) };
        Setting { name: name_of(limit, key.map(str::as_bytes)), value: Some(value) }
    }

    fn removed(limit: &str, key: Option<&str>) -> Setting {
        Setting { value: None, ..setting(limit, key, None) }
    }

    fn news(now: u64, settings: NewSettings) -> News {
        News { mark: Mark::new(&now.to_string()), now: at(now), settings }
    }

    fn keys(mirror: &Mirror, limit: &str, after: Option<&[u8]>) -> Vec<String> {
        let text = |(key, _): (&[u8], _)| String::from_utf8(key.to_vec()).unwrap();
        mirror.keys_after(limit, after).map(text).collect()
    }

    fn names(changed: &ChangedLimits) -> Vec<&str> {
        changed.keys().map(String::as_str).collect()
    }

    #[test]
    fn it_has_what_the_store_has() {
        let mut mirror = Mirror::default();
        let all = vec![
            setting("a", None, None),
            setting("a", Some("x"), None),
            setting("a", Some("y"), None),
            setting("a.b", Some("z"), None),
        ];
        let changed = mirror.apply(news(1, NewSettings::All(all)), at(100));
        assert_eq!(names(&changed), ["a", "a.b"]);
        assert_eq!(mirror.mark().place(), Some("1"));
        assert_eq!(keys(&mirror, "a", None), ["x", "y"]);
        assert_eq!(keys(&mirror, "a", Some(b"x")), ["y"]);
        assert!(mirror.of_limit("a").whole.is_some() && mirror.of_limit("a.b").whole.is_none());

        let some = vec![removed("a", Some("x")), removed("a", Some("none"))];
        let changed = mirror.apply(news(2, NewSettings::Changed(some)), at(101));
        assert_eq!(names(&changed), ["a"]);
        assert_eq!(keys(&mirror, "a", None), ["y"]);

        // Overrides that the store lost are gone here too. The others haven't changed.
        let all = NewSettings::All(vec![setting("a.b", Some("z"), None)]);
        assert_eq!(names(&mirror.apply(news(3, all), at(102))), ["a"]);
        assert_eq!(mirror.of_limit("a"), OfLimit::default());
    }

    #[test]
    fn overrides_end_by_the_clock_of_the_store() {
        let mut mirror = Mirror::default();
        // The clock of the process is hours behind.
        let some = vec![setting("a", Some("x"), Some(10_010)), setting("b", None, Some(10_020))];
        mirror.apply(news(10_000, NewSettings::All(some)), at(5));
        assert_eq!(mirror.next_end(), Some(at(15)));
        assert!(mirror.expire(at(14)).is_empty());
        assert_eq!(names(&mirror.expire(at(15))), ["a"]);
        assert_eq!(mirror.next_end(), Some(at(25)));
        // It lasts longer now, and then without an end.
        let longer = NewSettings::Changed(vec![setting("b", None, Some(10_030))]);
        assert_eq!(names(&mirror.apply(news(10_015, longer), at(20))), ["b"]);
        assert_eq!(mirror.next_end(), Some(at(35)));
        let forever = NewSettings::Changed(vec![setting("b", None, None)]);
        mirror.apply(news(10_016, forever), at(21));
        assert_eq!(mirror.next_end(), None);
        assert!(mirror.expire(at(1_000_000)).is_empty());
        assert!(mirror.get("b", None).is_some());
    }

    #[test]
    fn an_override_that_ended_before_it_was_read_has_no_effect() {
        let mut mirror = Mirror::default();
        let ended = vec![setting("a", Some("x"), Some(9))];
        mirror.apply(news(10, NewSettings::All(ended)), at(0));
        assert_eq!(mirror.of_limit("a"), OfLimit::default());
    }

    #[test]
    fn settings_of_others_are_left_alone() {
        let mut mirror = Mirror::default();
        let mut unknown = setting("a", None, None);
        unknown.value.as_mut().unwrap().content = b"{\"new\":1}".to_vec();
        let others = vec![unknown, Setting { name: vec![0xff], value: None }];
        assert!(mirror.apply(news(1, NewSettings::Changed(others)), at(0)).is_empty());
    }
}
