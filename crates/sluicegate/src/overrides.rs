//! Overrides at run time: other numbers for a limit or some of its keys, which operators set while programs run.

mod entry;
mod mirror;
mod state;
mod stored;
mod terms;

use std::error::Error as StdError;
use std::fmt;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use sluicegate_core::for_stores::{Keeping, SettingChange, Settings};
use sluicegate_core::{
    Clock as _, Error, LimitName, RequestError, RequestErrorKind, SharedStore, Store as _,
    StoreError, Timestamp,
};

use crate::config_file::OverrideError;
use crate::registry::Registry;
use crate::timer;

pub use entry::{AuditEntry, OverrideEntry};
pub(crate) use mirror::{ChangedKeys, Kept, OfLimit};
pub(crate) use state::OverridesState;
pub(crate) use terms::Effect;
pub use terms::{NewOverride, OverrideTo};

use mirror::{ChangedLimits, Mirror};
use stored::{Stored, name_of};

/// The overrides of a registry's limits, which are in its store.
///
/// An override wins over the configuration, and consumed units are kept. All processes with this store share the
/// overrides. A process follows them as long as it runs [`follow`](Self::follow). On a server they stay when the
/// processes end; in the embedded store they end with the process.
///
/// An override of a key wins over one of the whole limit. An override of the whole limit replaces the numbers of its
/// policies and of the configuration's `overrides`; the lists `allow` and `block` stay.
///
/// ```
/// use sluicegate::admin::{NewOverride, OverrideTo};
/// use sluicegate::{Config, Registry};
///
/// let config = "limits: {api: {policies: [fixed_window 5/h]}}";
/// let registry = Registry::open(&Config::parse(config, "limits.yaml")?)?;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let overrides = registry.overrides();
/// let more = NewOverride::new(OverrideTo::Times("10".parse()?)).note("launch day");
/// overrides.set("api", Some(b"acme"), &more).await?;
/// assert_eq!(registry.gate("api").check("acme").await?.remaining(), Some(49));
/// assert_eq!(registry.gate("api").check("other").await?.remaining(), Some(4));
///
/// assert!(overrides.clear("api", Some(b"acme"), None).await?);
/// assert_eq!(registry.gate("api").check("acme").await?.remaining(), Some(3));
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Overrides {
    registry: Registry,
}

/// The reason why an override can't be set, read or cleared. Nothing changed.
#[derive(Debug)]
#[non_exhaustive]
pub enum OverridesError {
    /// The limit, the key, the numbers or the terms don't fit. The message says what to change.
    Invalid(RequestError),
    /// The numbers don't fit the limit's policies.
    Numbers(OverrideError),
    /// The store failed.
    Store(StoreError),
}

impl Overrides {
    /// Pause between two queries of a process that follows.
    const PAUSE: Duration = Duration::from_millis(250);
    /// Minimum pause before overrides that end are dropped.
    const STEP: Duration = Duration::from_millis(50);

    pub(crate) const fn new(registry: Registry) -> Self {
        Self { registry }
    }

    /// Returns whether overrides outlast this process; `None` if the store keeps none.
    #[must_use]
    pub fn outlast_the_process(&self) -> Option<bool> {
        let store = self.registry.store();
        Some(store.settings()?.keeping() == Keeping::Durably)
    }

    /// Sets the override of a key, or of the whole limit without a key. It replaces the one that was there.
    ///
    /// When this returns, this process decides by it.
    ///
    /// # Errors
    /// Returns an error for an unknown limit, for a key that doesn't fit the limit, and for numbers that don't fit its
    /// policies. Returns an error if the store fails: then the override may have been set.
    pub async fn set(
        &self,
        limit: &str,
        key: Option<&[u8]>,
        new: &NewOverride,
    ) -> Result<OverrideEntry, OverridesError> {
        let limit = &*name(limit)?;
        let key = self.registry.check_override(limit, key, &new.to)?;
        check_words(new)?;
        let content = Stored::of(new).write();
        let change = SettingChange {
            name: &name_of(limit, key.as_deref()),
            value: Some(&content),
            lasts: new.lasts.map(Into::into),
            remark: b"",
        };
        let changed = settings(&self.registry.store())?.change(change).await?;
        self.refresh().await?;
        let changed = changed.ok_or_else(|| invalid("the store kept nothing"))?;
        let kept = changed.setting.value.as_ref().and_then(Kept::read);
        let kept = kept.ok_or_else(|| invalid("the store kept something else"))?;
        let problem = self.registry.override_problems(limit).of(key.as_deref());
        Ok(OverrideEntry::new(key.as_deref(), &kept, changed.at, problem))
    }

    /// Clears the override of a key, or of the whole limit without a key. Returns whether there was one.
    ///
    /// # Errors
    /// Returns an error if the store fails: then the override may have been cleared.
    pub async fn clear(
        &self,
        limit: &str,
        key: Option<&[u8]>,
        by: Option<&str>,
    ) -> Result<bool, OverridesError> {
        let limit = name(limit)?;
        let key = self.known_key(&limit, key);
        let remark = Stored::remark(by).write();
        let change = SettingChange {
            name: &name_of(&limit, key.as_deref()),
            value: None,
            lasts: None,
            remark: &remark,
        };
        let changed = settings(&self.registry.store())?.change(change).await?;
        if changed.is_none() && self.mirror().get(&limit, key.as_deref()).is_some() {
            // The store lost it without a change.
            self.mirror().read_all_next();
        }
        self.refresh().await?;
        Ok(changed.is_some())
    }

    /// Returns the override of a key, or of the whole limit without a key.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn get(
        &self,
        limit: &str,
        key: Option<&[u8]>,
    ) -> Result<Option<OverrideEntry>, OverridesError> {
        let limit = name(limit)?;
        self.refresh().await?;
        Ok(self.entry(&limit, self.known_key(&limit, key).as_deref()))
    }

    /// Returns at most `count` overrides of a limit's keys, in the order of the keys, from the one after `after`.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn list(
        &self,
        limit: &str,
        after: Option<&[u8]>,
        count: usize,
    ) -> Result<Vec<OverrideEntry>, OverridesError> {
        let limit = &*name(limit)?;
        self.refresh().await?;
        let problems = self.registry.override_problems(limit);
        let (mirror, now) = (self.mirror(), self.now());
        let entry = |(key, kept): (&[u8], &Arc<Kept>)| {
            let problem = problems.of(Some(key));
            OverrideEntry::new(Some(key), kept, mirror.store_time(now), problem)
        };
        Ok(mirror.keys_after(limit, after).take(count).map(entry).collect())
    }

    /// Returns an override as this process knows it, without calling the store. The key is as the limit counts it.
    #[must_use]
    pub fn known_of(&self, limit: &str, key: Option<&[u8]>) -> Option<OverrideEntry> {
        self.entry(limit, key)
    }

    /// Returns the overrides of a limit as this process knows them.
    pub(crate) fn known_of_limit(&self, limit: &str) -> OfLimit {
        self.mirror().of_limit(limit)
    }

    /// Returns the number of overrides of a limit's keys, as far as this process knows them.
    #[must_use]
    pub fn count(&self, limit: &str) -> usize {
        self.mirror().count(limit)
    }

    /// Returns whether the whole limit has an override, as far as this process knows.
    #[must_use]
    pub fn is_of_whole(&self, limit: &str) -> bool {
        self.mirror().get(limit, None).is_some()
    }

    /// Returns the number of overrides of all limits, as far as this process knows them.
    #[must_use]
    pub fn known(&self) -> usize {
        self.mirror().len()
    }

    /// Returns why the store couldn't be read by the latest query; `None` if it could, or there was none.
    #[must_use]
    pub fn last_error(&self) -> Option<String> {
        self.registry
            .overrides_state()
            .failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Returns at most `count` changes of overrides, the newest first, from the one before the place `before`.
    ///
    /// The audit has the latest 10,000 changes.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn audit(
        &self,
        before: Option<&str>,
        count: usize,
    ) -> Result<Vec<AuditEntry>, OverridesError> {
        let before = before.map(AuditEntry::mark);
        let log = settings(&self.registry.store())?.log(before.as_ref(), count).await?;
        Ok(log.iter().filter_map(AuditEntry::read).collect())
    }

    /// Reads changes from the store, and decides by them from now on.
    ///
    /// # Errors
    /// Returns an error if the store fails. The overrides that are known stay in force.
    pub async fn refresh(&self) -> Result<(), OverridesError> {
        let store = self.registry.store();
        let settings = settings(&store)?;
        let state = self.registry.overrides_state();
        let asked = self.now();
        let mut turn = state.turn.lock().await;
        if let Some((begun, outcome)) = &*turn
            && *begun > asked
        {
            // Another caller has read the store since this one asked.
            return outcome.clone().map_err(OverridesError::from);
        }
        let begun = self.now();
        let mark = self.mirror().mark().clone();
        let news = settings.news(&mark).await;
        // The clock is read after the answer, so an override ends late rather than early by the time of the call.
        let now = self.now();
        let (changed, outcome) = match news {
            Ok(news) => (self.mirror().apply(news, now), Ok(())),
            Err(error) => (self.mirror().expire(now), Err(error)),
        };
        self.adopt(changed);
        *state.failure.lock().unwrap_or_else(PoisonError::into_inner) =
            outcome.as_ref().err().map(ToString::to_string);
        *turn = Some((begun, outcome.clone()));
        outcome.map_err(OverridesError::from)
    }

    /// Follows the store, so that this process decides by the overrides of all processes. It never returns, unless the
    /// store keeps none.
    ///
    /// It asks four times a second. If the store fails, the overrides that are known stay in force, and end in time.
    pub async fn follow(&self) {
        while let Err(OverridesError::Store(_)) | Ok(()) = self.follow_once().await {
            let read = self.now().saturating_add(Self::PAUSE);
            loop {
                let (next, now) = (self.mirror().next_end(), self.now());
                if now >= read {
                    break;
                }
                // Several that end together are dropped together.
                let end =
                    next.map_or(read, |next| next.max(now.saturating_add(Self::STEP)).min(read));
                let pause = end.as_micros().saturating_sub(now.as_micros());
                timer::sleep(Duration::from_micros(pause)).await;
                let changed = self.mirror().expire(self.now());
                self.adopt(changed);
            }
        }
    }

    async fn follow_once(&self) -> Result<(), OverridesError> {
        let refreshed = self.refresh().await;
        if let Err(OverridesError::Store(error)) = &refreshed {
            self.registry.overrides_state().unread.tell(|untold| {
                tracing::warn!("overrides can't be read, so those that are known stay in force: {error}{untold}");
            });
        }
        refreshed
    }

    /// Returns the key of an override as it is stored: in the form in which the limit counts it, or as it was given.
    ///
    /// The second one is of a configuration that counted the key in another form.
    fn known_key(&self, limit: &str, key: Option<&[u8]>) -> Option<Vec<u8>> {
        let counted = self.registry.counted_key_of(limit, key);
        let mirror = self.mirror();
        let is_given =
            mirror.get(limit, counted.as_deref()).is_none() && mirror.get(limit, key).is_some();
        if is_given { key.map(<[u8]>::to_vec) } else { counted }
    }

    fn entry(&self, limit: &str, key: Option<&[u8]>) -> Option<OverrideEntry> {
        let problem = self.registry.override_problems(limit).of(key);
        let (mirror, now) = (self.mirror(), self.now());
        let kept = mirror.get(limit, key)?;
        Some(OverrideEntry::new(key, &kept, mirror.store_time(now), problem))
    }

    fn adopt(&self, changed: ChangedLimits) {
        if !changed.is_empty() {
            // Observers of the limits may ask for overrides, so the mirror is free then.
            let of_limits: Vec<_> = {
                let mirror = self.mirror();
                let of_limit = |(limit, keys): (String, _)| {
                    let overrides = mirror.of_limit(&limit);
                    (limit, overrides, keys)
                };
                changed.into_iter().map(of_limit).collect()
            };
            self.registry.adopt_overrides(of_limits.into_iter());
        }
    }

    fn mirror(&self) -> MutexGuard<'_, Mirror> {
        self.registry.overrides_state().mirror.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        self.registry.overrides_state().clock.now()
    }
}

/// Returns the name of a limit.
fn name(limit: &str) -> Result<String, RequestError> {
    let parsed: Result<LimitName, _> = limit.parse();
    let parsed = parsed
        .map_err(|error| RequestError::new(RequestErrorKind::UnknownLimit, error.to_string()));
    Ok(parsed?.as_str().to_owned())
}

fn settings(store: &SharedStore) -> Result<&dyn Settings, OverridesError> {
    store.settings().ok_or_else(|| SettingChange::unsupported().into())
}

fn check_words(new: &NewOverride) -> Result<(), RequestError> {
    let length = new.note.as_deref().map_or(0, str::len);
    if length > NewOverride::MAX_NOTE {
        let most = NewOverride::MAX_NOTE;
        return Err(invalid(&format!("the note has {length} bytes: use at most {most}")));
    }
    Ok(())
}

fn invalid(message: &str) -> RequestError {
    RequestError::new(RequestErrorKind::Invalid, message.to_owned())
}

impl From<Error> for OverridesError {
    fn from(error: Error) -> Self {
        match error {
            Error::Store(error) => Self::Store(error),
            Error::Request(error) => Self::Invalid(error),
            _ => Self::Invalid(invalid("the store refused it")),
        }
    }
}

impl From<RequestError> for OverridesError {
    fn from(error: RequestError) -> Self {
        Self::Invalid(error)
    }
}

impl From<OverrideError> for OverridesError {
    fn from(error: OverrideError) -> Self {
        Self::Numbers(error)
    }
}

impl fmt::Display for OverridesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(error) => error.fmt(f),
            Self::Numbers(error) => error.fmt(f),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl StdError for OverridesError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Invalid(error) => Some(error),
            Self::Numbers(error) => Some(error),
            Self::Store(error) => Some(error),
        }
    }
}
