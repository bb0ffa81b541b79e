//! Options of a limit for layers, set when it is [opened](sluicegate_core::OpenOptions::layer).

use std::time::Duration;

/// The default deadline of a call to the store: 50 ms.
#[cfg(feature = "layers")]
pub(crate) const DEADLINE: Duration = Duration::from_millis(50);

/// Whether [`DenyCache`](super::DenyCache) serves a limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RemembersDenials(pub bool);

/// Whether [`Fallback`](super::Fallback) takes over for a limit while the store fails.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FallsBack(pub bool);

/// Whether [`Retry`](super::Retry) repeats requests to a limit whose outcome is unknown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RetriesUnknown(pub bool);

/// Maximum units of a limit that a process leases ahead of use, per key.
///
/// ```
/// use std::time::Duration;
/// use sluicegate::layers::LeaseOptions;
/// use sluicegate::store::OpenOptions;
///
/// let leases = LeaseOptions { most: 100, ..LeaseOptions::default() };
/// assert_eq!(leases.lasts, Duration::from_secs(1));
/// let options = OpenOptions::default().layer(leases);
/// assert_eq!(options.for_layer::<LeaseOptions>(), Some(&leases));
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LeaseOptions {
    /// Maximum number of requests per lease; 0 for none. A lease is smaller for a key that is used less often. There is
    /// none if it would save fewer than four calls.
    pub most: u64,
    /// Maximum duration of a lease, 5 ms to 50 s. It lasts at least four fifths of that. Units that are not spent by
    /// then are used up.
    pub lasts: Duration,
}

impl LeaseOptions {
    /// No leases.
    pub const NONE: Self = Self { most: 0, lasts: Duration::from_secs(1) };
}

impl Default for LeaseOptions {
    /// Returns leases of at most 1,000 requests, for at most a second.
    fn default() -> Self {
        Self { most: 1_000, lasts: Duration::from_secs(1) }
    }
}
