//! Requests in flight, with their holds.

use std::time::Duration;

use crate::hold::HoldId;
use crate::name::PolicyName;

/// The units of a key that one request has in flight.
///
/// ```
/// use std::time::Duration;
/// use sluicegate_core::{HoldId, Holder};
///
/// let id = HoldId::from_bytes([7; 16]);
/// let holder = Holder::new(id, Duration::from_secs(1), [("concurrency".parse()?, 2)]);
/// assert_eq!((holder.id(), holder.ends_in()), (id, Duration::from_secs(1)));
/// assert_eq!((holder.units_of("concurrency"), holder.units_of("day")), (2, 0));
/// # Ok::<(), sluicegate_core::NameError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Holder {
    id: HoldId,
    ends_in: Duration,
    units: Box<[(PolicyName, u64)]>,
}

impl Holder {
    /// Creates a holder. For stores.
    pub fn new(
        id: HoldId,
        ends_in: Duration,
        units: impl IntoIterator<Item = (PolicyName, u64)>,
    ) -> Self {
        Self { id, ends_in, units: units.into_iter().collect() }
    }

    /// Returns the id of its hold, with which the hold can be ended.
    #[must_use]
    pub const fn id(&self) -> HoldId {
        self.id
    }

    /// Returns the time until the hold ends, unless it is renewed or released earlier.
    #[must_use]
    pub const fn ends_in(&self) -> Duration {
        self.ends_in
    }

    /// Returns the units held for each charged policy, in the order of the limit.
    ///
    /// These are units in flight, or for other policies the units that can be settled.
    #[must_use]
    pub fn units(&self) -> impl ExactSizeIterator<Item = (&PolicyName, u64)> {
        self.units.iter().map(|(policy, units)| (policy, *units))
    }

    /// Returns the units held for one policy.
    #[must_use]
    pub fn units_of(&self, policy: &str) -> u64 {
        self.units().find(|(name, _)| name.as_str() == policy).map_or(0, |(_, units)| units)
    }
}
