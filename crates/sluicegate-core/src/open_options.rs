//! Options for opening a limit in a store.

use std::any::Any;
use std::fmt;
use std::num::NonZeroU8;
use std::sync::Arc;
use std::time::Duration;

use crate::request::TimeSource;

/// Options for opening a limit.
///
/// ```
/// use std::time::Duration;
/// use sluicegate_core::OpenOptions;
///
/// /// An option of some layer.
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// struct Remembers(bool);
///
/// let deadline = Duration::from_millis(50);
/// let options = OpenOptions::default().deadline(deadline).layer(Remembers(true));
/// assert_eq!(options.for_layer::<Remembers>(), Some(&Remembers(true)));
/// assert_eq!(OpenOptions::default().for_layer::<Remembers>(), None);
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct OpenOptions {
    /// The clock by which the store evaluates requests.
    pub time: TimeSource,
    /// The time limit for one answer; `None` uses the store's own deadline.
    pub deadline: Option<Duration>,
    /// The acknowledgement by replicas that a decision needs; `None` for none. A store without
    /// replicas ignores it.
    pub acknowledged: Option<Acknowledgement>,
    layers: Vec<Arc<dyn LayerOption>>,
}

/// An option that only its own layer can read.
trait LayerOption: Any + fmt::Debug + Send + Sync {}

impl<T: Any + fmt::Debug + Send + Sync> LayerOption for T {}

impl OpenOptions {
    /// Sets the clock by which the store evaluates requests.
    #[must_use]
    pub fn time(mut self, time: TimeSource) -> Self {
        self.time = time;
        self
    }

    /// Sets the time limit for one answer.
    #[must_use]
    pub const fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Sets the acknowledgement by replicas that a decision needs.
    #[must_use]
    pub const fn acknowledged(mut self, by: Acknowledgement) -> Self {
        self.acknowledged = Some(by);
        self
    }

    /// Sets an option of a layer, which reads it by its type. Stores without that layer ignore it.
    #[must_use]
    pub fn layer<T: Any + fmt::Debug + Send + Sync>(mut self, option: T) -> Self {
        self.layers.retain(|each| !as_any(each).is::<T>());
        self.layers.push(Arc::new(option));
        self
    }

    /// Returns the option of this type, for the layer that defines it.
    #[must_use]
    pub fn for_layer<T: Any>(&self) -> Option<&T> {
        self.layers.iter().find_map(|each| as_any(each).downcast_ref())
    }
}

fn as_any(option: &Arc<dyn LayerOption>) -> &dyn Any {
    &**option
}

/// The number of replicas that must acknowledge a decision that changes a state, and the time
/// limit.
///
/// The decision then survives a failover to one of these replicas.
///
/// ```
/// use std::num::NonZeroU8;
/// use std::time::Duration;
/// use sluicegate_core::{Acknowledgement, OpenOptions};
///
/// let one = Acknowledgement { replicas: NonZeroU8::MIN, within: Duration::from_millis(20) };
/// let options = OpenOptions::default().deadline(Duration::from_millis(50)).acknowledged(one);
/// assert_eq!(options.acknowledged, Some(one));
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Acknowledgement {
    /// The number of replicas that must acknowledge the decision.
    pub replicas: NonZeroU8,
    /// The time limit for this after the decision, with 1 ms resolution. A store waits for at most
    /// half of the limit's deadline, because a call may have to wait equally long for earlier
    /// calls.
    pub within: Duration,
}

impl Acknowledgement {
    /// Returns an acknowledgement that satisfies both: the larger number of replicas, in the
    /// shorter time.
    #[must_use]
    pub fn strictest(self, other: Self) -> Self {
        Self { replicas: self.replicas.max(other.replicas), within: self.within.min(other.within) }
    }
}
