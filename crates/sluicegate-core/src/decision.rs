//! The answer to a request.

mod banned;
mod for_stores;
mod held;
mod joint;
mod kept;
mod outcome;
mod part;
mod paused;
mod refused;
mod retry_after;
mod told;

use std::fmt;
use std::time::Duration;

use smallvec::SmallVec;

use crate::hold::{Hold, HoldFound};
use crate::kernel::NEVER;
use crate::lease::Lease;
use crate::limit::Limit;
use crate::number::MAX_EXACT;
use crate::receipt::Receipt;
use crate::slices::SliceCounts;
use crate::ticket::Queued;
use crate::time::Timestamp;

pub use banned::Banned;
pub use for_stores::DecisionForStores;
pub use joint::Share;
pub use outcome::Outcome;
pub(crate) use outcome::{Numbers, Said};
pub use paused::Paused;
pub use retry_after::RetryAfter;
pub use told::{Told, ToldOutcome};

/// The answer to a request: allowed or denied, by which limit, and the outcome of each policy.
///
/// Up to three policies fit inline; more take one allocation. Cloning is cheap.
#[derive(Clone)]
#[must_use = "a denied request is a decision too: look at `is_allowed`, or use `enforce`"]
pub struct Decision {
    limit: Option<Limit>,
    policies: SmallVec<[Numbers; 3]>,
    /// The units that the request holds now.
    hold: Option<Hold>,
    /// Boxed, because few decisions have any.
    extras: Option<Box<Extras>>,
    granted: u64,
    /// For an allowed request, the time at which the units were taken, in µs since the epoch, or
    /// [`NEVER`] if none were. For a denied one, the retry-after in µs.
    instant: u64,
    /// The evaluation time, in µs since the epoch, or [`NEVER`] if it isn't known.
    evaluated: u64,
    allowed: bool,
    source: Source,
    warnings: Warnings,
    binding: Option<u8>,
    /// Whether a reset found a state.
    forgotten: Option<bool>,
    /// The result of settling or renewing a hold.
    hold_found: Option<HoldFound>,
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Extras {
    pub(crate) receipt: Option<Receipt>,
    pub(crate) slices: Option<SliceCounts>,
    pub(crate) lease: Option<Lease>,
    pub(crate) queued: Option<Queued>,
    pub(crate) ban: Option<Banned>,
    pub(crate) pause: Option<Paused>,
    /// Whether the decision was made earlier, for a request with this id.
    repeat: bool,
}

/// The origin of a decision.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Source {
    /// The store decided.
    Store,
    /// The store failed and the limit's `on_store_failure` decided. It did so without a policy
    /// ([`Decision::is_assumed`]), or with this process's share of the limit.
    Fallback,
    /// A process that holds units of a lease decided.
    Lease,
    /// The store recently denied as much to this key, and it is too soon to retry.
    DenyCache,
    /// No limit was checked: it is switched off or unknown, or the key is on an allow or block
    /// list.
    Bypass,
}

impl Source {
    /// Returns the source as the service writes it: `store`, `fallback`, `lease`, `deny-cache` or
    /// `bypass`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Fallback => "fallback",
            Self::Lease => "lease",
            Self::DenyCache => "deny-cache",
            Self::Bypass => "bypass",
        }
    }
}

/// The irregularities that a store noticed in the states it evaluated.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Warnings {
    /// A state was stamped further ahead of now than `max_clock_back` and was restamped.
    pub restamped: bool,
    /// A state was corrupt, or of a version this program can't read, and counted as absent.
    pub discarded: bool,
    /// A bounded store had no free slot for a new key. It denied the request. If only shadow
    /// policies had a state to store, it dropped that state instead.
    pub full: bool,
}

impl Decision {
    pub(crate) const fn new(
        limit: Limit,
        policies: SmallVec<[Numbers; 3]>,
        allowed: bool,
        granted: u64,
        instant: u64,
        binding: Option<u8>,
    ) -> Self {
        Self {
            limit: Some(limit),
            policies,
            hold: None,
            extras: None,
            granted,
            instant,
            evaluated: NEVER,
            allowed,
            source: Source::Store,
            warnings: Warnings { restamped: false, discarded: false, full: false },
            binding,
            forgotten: None,
            hold_found: None,
        }
    }

    fn without_policies(source: Source, allowed: bool) -> Self {
        Self {
            limit: None,
            policies: SmallVec::new(),
            hold: None,
            extras: None,
            granted: 0,
            instant: NEVER,
            evaluated: NEVER,
            allowed,
            source,
            warnings: Warnings::default(),
            binding: None,
            forgotten: None,
            hold_found: None,
        }
    }

    /// Returns the fields that few decisions have, for modification.
    pub(crate) fn extras_mut(&mut self) -> &mut Extras {
        self.extras.get_or_insert_default()
    }

    /// Clears a field that few decisions have. A decision without any then equals one that never
    /// had one.
    fn forget(&mut self, what: impl FnOnce(&mut Extras)) {
        if let Some(extras) = &mut self.extras {
            what(extras);
            if **extras == Extras::default() {
                self.extras = None;
            }
        }
    }

    fn forget_extras(&mut self) {
        (self.hold, self.hold_found, self.extras) = (None, None, None);
    }

    /// Returns `true` if the request is allowed.
    #[must_use]
    #[inline]
    pub const fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Returns `true` if the request is denied.
    #[must_use]
    #[inline]
    pub const fn is_denied(&self) -> bool {
        !self.allowed
    }

    /// Returns `true` if the request is denied because a bounded store had no free slot for its
    /// key.
    ///
    /// No policy refused the request, and none [binds](Decision::binding). If no expiry is known,
    /// [`Decision::retry_after`] is [`RetryAfter::Never`].
    #[must_use]
    pub fn is_store_full(&self) -> bool {
        let is_refused = self.ban().is_some() || self.pause().is_some();
        self.is_denied() && self.warnings.full && self.binding.is_none() && !is_refused
    }

    /// Returns the limit that decided, as configured at the time; `None` if none did.
    #[must_use]
    pub const fn limit(&self) -> Option<&Limit> {
        self.limit.as_ref()
    }

    /// Returns the origin of the decision.
    #[must_use]
    pub const fn source(&self) -> Source {
        self.source
    }

    /// Returns `true` if the store failed and `on_store_failure` allowed or denied the request.
    ///
    /// In this case nothing was evaluated or counted.
    #[must_use]
    pub fn is_assumed(&self) -> bool {
        self.source == Source::Fallback && self.policies.is_empty()
    }

    /// Returns the binding policy: among the policies that refused, the one with the longest
    /// retry-after.
    ///
    /// `None` if the request is allowed, or denied because the store is full or a subject is
    /// [banned](Decision::ban) or [paused](Decision::pause).
    #[must_use]
    pub fn binding(&self) -> Option<Outcome<'_>> {
        self.policy(self.binding_index()?)
    }

    /// Returns the index of the binding policy in [`Limit::members`].
    #[must_use]
    pub fn binding_index(&self) -> Option<usize> {
        self.binding.map(usize::from)
    }

    /// Returns the units granted: the cost, or for [`Operation::Take`](crate::Operation::Take) the
    /// part of it that was available.
    #[must_use]
    pub const fn granted(&self) -> u64 {
        self.granted
    }

    /// Returns the time at which the store took the units, by its own clock; `None` if it took
    /// none.
    ///
    /// [`Operation::GiveBack`](crate::Operation::GiveBack) needs this time.
    #[must_use]
    pub const fn taken_at(&self) -> Option<Timestamp> {
        match self.instant {
            at if self.allowed && at != NEVER => Some(Timestamp::from_micros_clamped(at)),
            _ => None,
        }
    }

    /// Returns the time at which the policies were evaluated, by the store's clock.
    ///
    /// The times in the outcomes count from this instant. `None` if no policy was evaluated, or if
    /// another process decided.
    #[must_use]
    pub const fn evaluated_at(&self) -> Option<Timestamp> {
        match self.evaluated {
            NEVER => None,
            at => Some(Timestamp::from_micros_clamped(at)),
        }
    }

    pub(crate) const fn evaluated_at_micros(mut self, at: u64) -> Self {
        self.evaluated = at;
        self
    }

    /// Returns the time to wait before acting: zero except for reservations and shapers.
    #[must_use]
    pub fn wait(&self) -> Duration {
        if !self.allowed {
            return Duration::ZERO;
        }
        let enforced = self.policies().filter(|policy| !policy.is_shadow());
        enforced.map(|policy| policy.wait()).max().unwrap_or_default()
    }

    /// Returns when the caller may try again.
    #[must_use]
    pub const fn retry_after(&self) -> RetryAfter {
        RetryAfter::of(self.allowed, self.instant)
    }

    /// Returns the outcome of each policy, in the order of the limit. Empty if no limit was checked
    /// or the store failed.
    #[must_use]
    pub fn policies(
        &self,
    ) -> impl DoubleEndedIterator<Item = Outcome<'_>> + ExactSizeIterator + Clone {
        let members = self.limit.as_ref().map_or(&[][..], Limit::members);
        self.policies.iter().zip(members).map(|(numbers, member)| Outcome::new(numbers, member))
    }

    /// Returns the outcome of the policy at `index` in [`Limit::members`].
    #[must_use]
    pub fn policy(&self, index: usize) -> Option<Outcome<'_>> {
        let member = self.limit.as_ref()?.members().get(index)?;
        Some(Outcome::new(self.policies.get(index)?, member))
    }

    /// Returns the outcome of the policy called `policy`. Among several limits together, it returns
    /// the first one with that name.
    ///
    /// ```
    /// # use sluicegate_core::for_stores::{Now, step};
    /// # use sluicegate_core::{Limit, Request};
    /// let limit = Limit::new("llm", vec!["gcra 60/min as requests"])?;
    /// let now = Now { micros: 0, max_clock_back: None };
    /// let decision = step(&limit, &Request::check(b"alice"), now, &mut [None])?.decision;
    /// assert_eq!(decision.outcome("requests").and_then(|outcome| outcome.remaining()), Some(59));
    /// assert!(decision.outcome("tokens").is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn outcome(&self, policy: &str) -> Option<Outcome<'_>> {
        self.policies().find(|outcome| outcome.name().as_str() == policy)
    }

    /// Returns the remaining units: the minimum over all enforced policies; `None` if unbounded.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        let enforced = self.policies().filter(|policy| !policy.is_shadow());
        enforced.filter_map(|policy| policy.remaining()).min()
    }

    /// Returns whether a reset found and deleted a state of the subjects. For lifting a ban or
    /// ending pauses, whether there was one.
    ///
    /// The state may have been an expired one, equal to a fresh key's, that the store hadn't
    /// removed yet. `None` for other operations, and if the store wasn't called.
    ///
    /// ```
    /// # use sluicegate_core::for_stores::{Now, step};
    /// # use sluicegate_core::{Limit, Operation, Request};
    /// let limit = Limit::new("login", vec!["gcra 5/min"])?;
    /// let mut held = [None];
    /// let mut ask = |operation| {
    ///     let now = Now { micros: 0, max_clock_back: None };
    ///     step(&limit, &Request::new(operation, b"alice"), now, &mut held).map(|step| step.decision)
    /// };
    /// assert_eq!(ask(Operation::Check)?.forgotten(), None);
    /// assert_eq!(ask(Operation::Reset)?.forgotten(), Some(true));
    /// assert_eq!(ask(Operation::Reset)?.forgotten(), Some(false));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn forgotten(&self) -> Option<bool> {
        self.forgotten
    }

    /// Returns the receipt for giving the units back, if an allowed reservation requested one.
    #[must_use]
    pub fn receipt(&self) -> Option<&Receipt> {
        self.extras.as_ref()?.receipt.as_ref()
    }

    /// Returns the units per slice, if the request asked for the slices of a ring.
    #[must_use]
    pub fn slices(&self) -> Option<&SliceCounts> {
        self.extras.as_ref()?.slices.as_ref()
    }

    /// Returns the irregularities that the store noticed in the states it evaluated.
    #[must_use]
    pub const fn warnings(&self) -> Warnings {
        self.warnings
    }
}

impl PartialEq for Decision {
    /// Compares the decisions themselves, not whether the store held a state when a key was reset.
    fn eq(&self, other: &Self) -> bool {
        let rest = |decision: &Self| {
            let Self { granted, instant, allowed, source, warnings, binding, .. } = *decision;
            (granted, instant, allowed, source, warnings, binding)
        };
        rest(self) == rest(other)
            && self.limit == other.limit
            && self.policies().eq(other.policies())
            && (self.hold, self.hold_found) == (other.hold, other.hold_found)
            && self.extras == other.extras
    }
}

impl Eq for Decision {}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Decision");
        debug
            .field("allowed", &self.allowed)
            .field("limit", &self.limit.as_ref().map(Limit::name))
            .field("source", &self.source)
            .field("binding", &self.binding().map(|outcome| outcome.name().to_string()))
            .field("granted", &self.granted)
            .field("taken_at", &self.taken_at())
            .field("wait", &self.wait())
            .field("retry_after", &self.retry_after())
            .field("policies", &self.policies().collect::<Vec<_>>())
            .field("warnings", &self.warnings);
        if let Some(hold) = &self.hold {
            debug.field("hold", hold);
        }
        if let Some(found) = &self.hold_found {
            debug.field("hold_found", found);
        }
        if let Some(extras) = &self.extras {
            debug.field("extras", extras);
        }
        debug.finish()
    }
}

/// Returns a time of `micros` µs, at most [`Span::MAX`](crate::Span::MAX).
const fn time(micros: u64) -> Duration {
    Duration::from_micros(if micros < MAX_EXACT { micros } else { MAX_EXACT })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_small() {
        assert!(size_of::<Decision>() <= 256, "{}", size_of::<Decision>());
        assert!(size_of::<Result<Decision, crate::Error>>() <= 256);
    }
}
