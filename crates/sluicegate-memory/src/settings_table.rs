//! The values of settings by name, and the log of their changes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sluicegate_core::for_stores::{
    Changed, Mark, NewSettings, News, Setting, SettingChange, SettingValue,
};
use sluicegate_core::{Error, Timestamp};

/// The settings of a store.
#[derive(Debug, Default)]
pub(crate) struct SettingsTable(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    values: BTreeMap<Vec<u8>, SettingValue>,
    /// The latest changes, the newest last.
    log: VecDeque<Arc<Changed>>,
    /// The number of changes since the start, which is the mark of the last one.
    changes: u64,
}

impl SettingsTable {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets or removes a value, and logs that.
    pub(crate) fn change(
        &self,
        change: SettingChange<'_>,
        now: Timestamp,
    ) -> Result<Option<Changed>, Error> {
        change.validate()?;
        let mut kept = self.lock();
        let before = kept.values.remove(change.name).filter(|value| !has_ended(value, now));
        let value = change.value.map(|content| SettingValue {
            content: content.to_vec(),
            since: now,
            ends: change.lasts.map(|lasts| now.saturating_add(lasts.into())),
        });
        match &value {
            None if before.is_none() => return Ok(None),
            None => {}
            Some(value) => {
                if kept.values.len() >= SettingChange::MOST {
                    kept.values.retain(|_, value| !has_ended(value, now));
                }
                if kept.values.len() >= SettingChange::MOST {
                    return Err(SettingChange::too_many().into());
                }
                kept.values.insert(change.name.to_vec(), value.clone());
            }
        }
        kept.changes += 1;
        let changed = Changed {
            mark: Mark::new(&kept.changes.to_string()),
            at: now,
            setting: Setting { name: change.name.to_vec(), value },
            before,
            remark: change.remark.to_vec(),
        };
        if kept.log.len() == SettingChange::LOGGED {
            kept.log.pop_front();
        }
        kept.log.push_back(Arc::new(changed.clone()));
        Ok(Some(changed))
    }

    /// Returns the settings that changed after a mark, or all.
    pub(crate) fn news(&self, since: &Mark, now: Timestamp) -> News {
        let kept = self.lock();
        let settings = match kept.logged_after(since) {
            Some(changed) => {
                let changed = kept.log.iter().skip(changed);
                NewSettings::Changed(changed.map(|changed| changed.setting.clone()).collect())
            }
            None => {
                let live = kept.values.iter().filter(|(_, value)| !has_ended(value, now));
                let setting = |(name, value): (&Vec<u8>, &SettingValue)| Setting {
                    name: name.clone(),
                    value: Some(value.clone()),
                };
                NewSettings::All(live.map(setting).collect())
            }
        };
        News { mark: Mark::new(&kept.changes.to_string()), now, settings }
    }

    /// Returns logged changes before a mark, the newest first.
    pub(crate) fn log(&self, before: Option<&Mark>, count: usize) -> Vec<Changed> {
        let kept = self.lock();
        let end = match before {
            None => kept.log.len(),
            Some(mark) => kept.logged_after(mark).map_or(0, |after| after.saturating_sub(1)),
        };
        let changes = kept.log.range(..end).rev().take(count);
        changes.map(|changed| Changed::clone(changed)).collect()
    }
}

impl Kept {
    /// Returns the index of the first logged change after a mark.
    ///
    /// `None` if a change between them has left the log, or if another store made the mark.
    fn logged_after(&self, mark: &Mark) -> Option<usize> {
        let number: u64 = mark.place()?.parse().ok()?;
        let behind = usize::try_from(self.changes.checked_sub(number)?).ok()?;
        self.log.len().checked_sub(behind)
    }
}

fn has_ended(value: &SettingValue, now: Timestamp) -> bool {
    value.ends.is_some_and(|ends| ends <= now)
}
