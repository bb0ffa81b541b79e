//! Settings: values by name that processes share through their store, and the log of their changes.

use std::fmt;
use std::sync::Arc;

use crate::answer::BoxFuture;
use crate::failure::{Error, RequestError, RequestErrorKind};
use crate::time::{Span, Timestamp};

/// The settings that a store keeps for all its processes, such as overrides of limits.
///
/// They are few and change seldom. Every change is logged. A process asks for the changes since the last one that it
/// knows, several times a second.
pub trait Settings: Send + Sync {
    /// Returns the lifetime of settings.
    fn keeping(&self) -> Keeping;

    /// Sets or removes a value, and logs that.
    ///
    /// Returns the change; `None` if there was nothing to remove.
    fn change<'a>(&'a self, change: Change<'a>) -> BoxFuture<'a, Result<Option<Changed>, Error>>;

    /// Returns the settings that changed after a mark, or all settings if the store can't tell.
    fn news<'a>(&'a self, since: &'a Mark) -> BoxFuture<'a, Result<News, Error>>;

    /// Returns at most `count` logged changes before a mark, the newest first. `None` begins with the newest one.
    ///
    /// The log has the latest [`Change::LOGGED`] changes.
    fn log<'a>(
        &'a self,
        before: Option<&'a Mark>,
        count: usize,
    ) -> BoxFuture<'a, Result<Vec<Changed>, Error>>;
}

/// The lifetime of settings in a store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Keeping {
    /// They end with the process.
    Process,
    /// They outlast the processes.
    Durably,
}

/// A change of a setting.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Change<'a> {
    /// The name, 1 to [`Change::MAX_NAME`] bytes.
    pub name: &'a [u8],
    /// The new value, at most [`Change::MAX_VALUE`] bytes; `None` removes the setting.
    pub value: Option<&'a [u8]>,
    /// The lifetime of the value by the clock of the store, 1 ms to 10 years; `None` keeps it until it is changed.
    pub lasts: Option<Span>,
    /// A remark of the caller, which the log keeps, at most [`Change::MAX_VALUE`] bytes.
    pub remark: &'a [u8],
}

/// A setting, or its absence.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Setting {
    /// The name.
    pub name: Vec<u8>,
    /// The value; `None` if the setting was removed.
    pub value: Option<Value>,
}

/// The value of a setting.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Value {
    /// The content.
    pub content: Vec<u8>,
    /// The time at which it was set, by the clock of the store.
    pub since: Timestamp,
    /// The end of its lifetime, by the clock of the store.
    pub ends: Option<Timestamp>,
}

/// A logged change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Changed {
    /// The place in the log.
    pub mark: Mark,
    /// The time, by the clock of the store.
    pub at: Timestamp,
    /// The setting afterwards.
    pub setting: Setting,
    /// The value before.
    pub before: Option<Value>,
    /// The remark of the caller.
    pub remark: Vec<u8>,
}

/// The settings that changed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct News {
    /// The place in the log until which they are complete.
    pub mark: Mark,
    /// The time of the clock of the store.
    pub now: Timestamp,
    /// The settings.
    pub settings: NewSettings,
}

/// Settings that a process doesn't know yet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum NewSettings {
    /// All settings that there are. Others don't exist any more.
    All(Vec<Setting>),
    /// The changed ones, in the order of their changes.
    Changed(Vec<Setting>),
}

/// A place in the log of changes. Only the store that made it can read it.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Mark(Option<Arc<str>>);

impl Change<'_> {
    /// The maximum length of a name, in bytes.
    pub const MAX_NAME: usize = 4_096;
    /// The maximum length of a value, and of a remark, in bytes.
    pub const MAX_VALUE: usize = 16_384;
    /// The maximum number of settings. Further ones are refused.
    pub const MOST: usize = 100_000;
    /// The number of changes that the log keeps.
    pub const LOGGED: usize = 10_000;

    /// The longest lifetime, in µs: 3,660 days.
    const LONGEST: u64 = 3_660 * Span::DAY.as_micros();

    /// Checks the sizes and the lifetime.
    ///
    /// # Errors
    /// Returns an error for a name, a value or a lifetime out of range.
    pub fn validate(&self) -> Result<(), RequestError> {
        let invalid = |message| Err(RequestError::new(RequestErrorKind::Invalid, message));
        let (name, value) =
            (self.name.len(), self.value.map_or(0, <[u8]>::len).max(self.remark.len()));
        if !(1..=Self::MAX_NAME).contains(&name) || value > Self::MAX_VALUE {
            let message = format!(
                "a setting has a name of {name} bytes and {value} bytes of content: use at most {} and {}",
                Self::MAX_NAME,
                Self::MAX_VALUE
            );
            return invalid(message);
        }
        match self.lasts {
            Some(lasts) if lasts < Span::MILLISECOND || lasts.as_micros() > Self::LONGEST => {
                invalid(format!("a setting can't last {lasts}: give 1ms to 3660d, or no end"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the error of a store that has as many settings as it keeps.
    #[cold]
    #[must_use]
    pub fn too_many() -> RequestError {
        let message = format!(
            "the store has {} settings, which is the maximum: remove some, or write them into the configuration",
            Self::MOST
        );
        RequestError::new(RequestErrorKind::Invalid, message)
    }

    /// Returns the error of a store without settings.
    #[cold]
    #[must_use]
    pub fn unsupported() -> RequestError {
        let message = "this store keeps no settings: use the embedded store, Redis or Valkey";
        RequestError::new(RequestErrorKind::Unsupported, message.to_owned())
    }
}

impl Mark {
    /// Makes the mark of a place. For stores.
    #[must_use]
    pub fn new(place: &str) -> Self {
        Self(Some(place.into()))
    }

    /// Returns the place; `None` for a process that knows no settings yet.
    #[must_use]
    pub fn place(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.place().unwrap_or_default())
    }
}
