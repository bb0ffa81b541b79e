//! What a limit tells layers when it is [opened](sluicegate_core::OpenOptions::layer).

use sluicegate_core::Span;

/// The default deadline of a call to the store: 50 ms.
#[cfg(feature = "layers")]
pub(crate) const DEADLINE: Span = match Span::from_millis(50) {
    Ok(span) => span,
    Err(_) => Span::MILLISECOND,
};

/// Whether [`DenyCache`](super::DenyCache) answers for a limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RemembersDenials(pub bool);

/// Whether [`Fallback`](super::Fallback) answers for a limit while the store fails.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FallsBack(pub bool);

/// Whether [`Retry`](super::Retry) asks again for a limit, where the outcome of a request is unknown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RetriesUnknown(pub bool);

/// How much of a limit a process takes ahead of use at most, per key.
///
/// ```
/// use sluicegate::layers::LeaseOptions;
/// use sluicegate::store::{OpenOptions, Span};
///
/// let leases = LeaseOptions { most: 100, ..LeaseOptions::default() };
/// assert_eq!(leases.lasts, Span::SECOND);
/// let options = OpenOptions::default().layer(leases);
/// assert_eq!(options.for_layer::<LeaseOptions>(), Some(&leases));
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LeaseOptions {
    /// For how many requests; 0 for none. It takes fewer where the key is asked about less often, and none
    /// where that would save fewer than four calls.
    pub most: u64,
    /// How long a lease lasts at most, 5 ms to 50 s, and no less than four fifths of that. What is not
    /// spent by then is used up.
    pub lasts: Span,
}

impl LeaseOptions {
    /// No leases.
    pub const NONE: Self = Self { most: 0, lasts: Span::SECOND };
}

impl Default for LeaseOptions {
    /// At most 1,000 requests, for at most a second.
    fn default() -> Self {
        Self { most: 1_000, lasts: Span::SECOND }
    }
}
