//! The latest reloads of a file that is followed, and the text in force.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::status::WatchError;
use crate::registry::Changes;

/// A reload of a config file that is followed.
///
/// ```no_run
/// # let registry = sluicegate::Registry::builder(sluicegate::MemoryStore::new()).build();
/// let watch = registry.watch("limits.yaml");
/// for reload in watch.reloads() {
///     match &reload.outcome {
///         Ok(changes) => println!("{:?} ago: {}", reload.age(), changes.details.join(" ")),
///         Err(error) => println!("{:?} ago: {error}", reload.age()),
///     }
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reload {
    /// The changes that the content made, or why it isn't in force.
    pub outcome: Result<Arc<Changes>, Arc<WatchError>>,
    at: Instant,
}

/// The latest reloads. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Reloads(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    latest: VecDeque<Reload>,
    text: Option<Arc<[u8]>>,
}

impl Reload {
    /// Maximum number of reloads that are kept.
    pub const MOST_KEPT: usize = 50;

    /// Returns the time since the reload.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.at.elapsed()
    }
}

impl Reloads {
    /// Adds a reload. With a text, it is in force from now on.
    pub(super) fn add(
        &self,
        outcome: Result<Arc<Changes>, Arc<WatchError>>,
        text: Option<&Arc<[u8]>>,
    ) {
        let mut state = self.state();
        if state.latest.len() >= Reload::MOST_KEPT {
            state.latest.pop_back();
        }
        state.latest.push_front(Reload { outcome, at: Instant::now() });
        if let Some(text) = text {
            state.text = Some(Arc::clone(text));
        }
    }

    /// Sets the text in force, without a reload.
    pub(super) fn set_text(&self, text: &Arc<[u8]>) {
        self.state().text = Some(Arc::clone(text));
    }

    /// Returns the latest reloads, the newest first.
    pub(super) fn latest(&self) -> Vec<Reload> {
        self.state().latest.iter().cloned().collect()
    }

    /// Returns the text in force.
    pub(super) fn text(&self) -> Option<Arc<[u8]>> {
        self.state().text.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Reloads {
    /// Omits the text, which may have passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reloads").field(&self.state().latest.len()).finish()
    }
}
