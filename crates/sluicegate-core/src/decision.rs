//! The answer to a request.

mod outcome;

use std::fmt;
use std::time::Duration;

use smallvec::SmallVec;

use crate::kernel::bucket::{self, Bucket};
use crate::kernel::{Kernel as _, NEVER, Verdict};
use crate::limit::Limit;
use crate::receipt::Receipt;
use crate::slices::SliceCounts;
use crate::time::Span;

pub(crate) use outcome::Numbers;
pub use outcome::Outcome;

/// The answer to a request: allowed or denied, by which limit, and what each policy says.
///
/// It has room for three policies; more take one allocation. Cloning is cheap.
#[derive(Clone, Eq, PartialEq)]
#[must_use]
pub struct Decision {
    limit: Option<Limit>,
    policies: SmallVec<[Numbers; 3]>,
    /// On the heap: few decisions have any.
    extras: Option<Box<Extras>>,
    granted: u64,
    /// When allowed the wait, else the retry, in µs.
    delay: u64,
    allowed: bool,
    source: Source,
    notes: Notes,
    binding: Option<u8>,
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Extras {
    receipt: Option<Receipt>,
    slices: Option<SliceCounts>,
}

/// Where an answer came from.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Source {
    /// The store decided.
    Store,
    /// The store failed and the limit's `on_store_failure` decided.
    Fallback,
    /// No limit was asked: it is switched off or unknown, or a list names the key.
    Bypass,
}

impl Source {
    /// The source as the service spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Fallback => "fallback",
            Self::Bypass => "bypass",
        }
    }
}

/// When a refused request may be tried again.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum RetryAfter {
    /// After this long, at least 1 µs, if nobody else comes: sufficient and minimal.
    After(Span),
    /// It could never pass: the cost is above the limit.
    Never,
    /// It was not refused.
    NotRefused,
}

impl RetryAfter {
    /// The wait as a duration; `None` when not refused or never.
    #[must_use]
    pub fn duration(self) -> Option<Duration> {
        match self {
            Self::After(span) => Some(span.into()),
            Self::Never | Self::NotRefused => None,
        }
    }

    /// The wait in whole milliseconds, rounded up: 0 when not refused, `None` for never.
    #[must_use]
    pub const fn as_millis_ceil(self) -> Option<u64> {
        match self {
            Self::After(span) => Some(span.as_millis_ceil()),
            Self::Never => None,
            Self::NotRefused => Some(0),
        }
    }

    /// The wait in whole seconds, rounded up: 0 when not refused, `None` for never.
    #[must_use]
    pub const fn as_secs_ceil(self) -> Option<u64> {
        match self {
            Self::After(span) => Some(span.as_secs_ceil()),
            Self::Never => None,
            Self::NotRefused => Some(0),
        }
    }
}

/// What a store noticed about the states it judged.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Notes {
    /// A state was stamped further ahead of now than `max_clock_back` and was restamped.
    pub restamped: bool,
    /// A state was corrupt, or of a version this program can't read, and counted as absent.
    pub discarded: bool,
    /// A bounded store had no room for a new key: the request was turned away for that, or, where
    /// nothing but a shadow was to be kept, the shadow was not.
    pub full: bool,
}

impl Decision {
    pub(crate) const fn new(
        limit: Limit,
        policies: SmallVec<[Numbers; 3]>,
        allowed: bool,
        granted: u64,
        delay: u64,
        binding: Option<u8>,
    ) -> Self {
        Self {
            limit: Some(limit),
            policies,
            extras: None,
            granted,
            delay,
            allowed,
            source: Source::Store,
            notes: Notes { restamped: false, discarded: false, full: false },
            binding,
        }
    }

    /// The answer of `limit`, whose store failed and which says what to do then.
    pub fn fallback(limit: &Limit, allowed: bool) -> Self {
        Self { limit: Some(limit.clone()), ..Self::without_policies(Source::Fallback, allowed) }
    }

    /// The answer where no limit was asked.
    pub fn bypass(allowed: bool) -> Self {
        Self::without_policies(Source::Bypass, allowed)
    }

    /// The answer to a cancellation: whether the units were given back.
    pub fn cancelled(limit: &Limit, given_back: bool) -> Self {
        Self { limit: Some(limit.clone()), ..Self::without_policies(Source::Store, given_back) }
    }

    fn without_policies(source: Source, allowed: bool) -> Self {
        Self {
            limit: None,
            policies: SmallVec::new(),
            extras: None,
            granted: 0,
            delay: if allowed { 0 } else { NEVER },
            allowed,
            source,
            notes: Notes::default(),
            binding: None,
        }
    }

    /// The answer to a check (or, uncharged, to a peek or a reservation) of a limit whose only
    /// policy is an enforced bucket: what [`step`](crate::step()) answers, on a straight path. For
    /// stores.
    ///
    /// `balance` is as it stands after the charge, `verdict` what the bucket answered before it.
    #[inline]
    pub fn of_bucket(
        limit: &Limit,
        rule: &Bucket,
        balance: &bucket::Balance,
        cost: u64,
        verdict: Verdict,
    ) -> Self {
        let (admitted, delay) = match verdict {
            Verdict::Pass { wait } => (true, wait),
            Verdict::Refuse { retry } => (false, retry.unwrap_or(NEVER)),
        };
        let mut policies = SmallVec::new();
        policies.push(Numbers {
            remaining: rule.remaining(balance),
            delay,
            reset: rule.reset_after(balance),
            total: 0,
            current: 0,
            violated: 0,
            admitted,
        });
        let (granted, binding) = if admitted { (cost, None) } else { (0, Some(0)) };
        Self::new(limit.clone(), policies, admitted, granted, delay, binding)
    }

    /// Says what the store noticed. For stores.
    pub const fn set_notes(&mut self, notes: Notes) {
        self.notes = notes;
    }

    /// The same decision with what the store noticed. For stores.
    pub const fn with_notes(mut self, notes: Notes) -> Self {
        self.notes = notes;
        self
    }

    /// The same decision from another source: for stores around stores.
    pub const fn with_source(mut self, source: Source) -> Self {
        self.source = source;
        self
    }

    /// The same decision with what it takes to give the units back. For stores.
    pub fn with_receipt(mut self, receipt: Receipt) -> Self {
        self.extras.get_or_insert_default().receipt = Some(receipt);
        self
    }

    pub(crate) fn with_slices(mut self, slices: SliceCounts) -> Self {
        self.extras.get_or_insert_default().slices = Some(slices);
        self
    }

    /// Turns away a request that the policies may well admit, because the store has no room for
    /// its key. For bounded stores; what each policy says stays.
    pub fn turn_away_for_room(&mut self, retry_after: Span) {
        self.allowed = false;
        self.notes.full = true;
        self.binding = None;
        self.granted = 0;
        self.delay = retry_after.as_micros().max(1);
        self.extras = None;
    }

    /// Whether the request passes.
    #[must_use]
    #[inline]
    pub const fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Whether the request is turned away.
    #[must_use]
    #[inline]
    pub const fn is_denied(&self) -> bool {
        !self.allowed
    }

    /// The limit that was asked, as it was then; `None` when none was.
    #[must_use]
    pub const fn limit(&self) -> Option<&Limit> {
        self.limit.as_ref()
    }

    /// Where the answer came from.
    #[must_use]
    pub const fn source(&self) -> Source {
        self.source
    }

    /// The policy that binds: of those that refused, the one with the longest retry-after. `None`
    /// when allowed, and when it was the store that had no room.
    #[must_use]
    pub fn binding(&self) -> Option<Outcome<'_>> {
        self.policy(self.binding_index()?)
    }

    /// The place of the policy that binds in the order of the limit.
    #[must_use]
    pub fn binding_index(&self) -> Option<usize> {
        self.binding.map(usize::from)
    }

    /// The units granted: those asked for, or what "as many as you can" came to.
    #[must_use]
    pub const fn granted(&self) -> u64 {
        self.granted
    }

    /// How long the caller waits before it acts: not zero for reservations and shapers alone.
    #[must_use]
    pub const fn wait(&self) -> Span {
        span(if self.allowed { self.delay } else { 0 })
    }

    /// When a denied request may be tried again.
    #[must_use]
    pub const fn retry_after(&self) -> RetryAfter {
        RetryAfter::of(self.allowed, self.delay)
    }

    /// What each policy says, in the order of the limit. Empty when no limit was asked, and when
    /// the store failed.
    #[must_use]
    pub fn policies(
        &self,
    ) -> impl DoubleEndedIterator<Item = Outcome<'_>> + ExactSizeIterator + Clone {
        let members = self.limit.as_ref().map_or(&[][..], Limit::members);
        self.policies.iter().zip(members).map(|(numbers, member)| Outcome::new(numbers, member))
    }

    /// What the policy at a place in the order of the limit says.
    #[must_use]
    pub fn policy(&self, index: usize) -> Option<Outcome<'_>> {
        let member = self.limit.as_ref()?.members().get(index)?;
        Some(Outcome::new(self.policies.get(index)?, member))
    }

    /// What the policy of a name says; of several limits together, the first of that name.
    ///
    /// ```
    /// # use sluicegate_core::{Limit, Now, Request, step};
    /// let limit = Limit::new("llm".parse()?, vec!["gcra 60/min as requests".parse()?])?;
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

    /// The least that any enforced policy has left; `None` when unbounded.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        let enforced = self.policies().filter(|policy| !policy.is_shadow());
        enforced.filter_map(|policy| policy.remaining()).min()
    }

    /// Of an admitted reservation that asked for one: what it takes to give the units back.
    #[must_use]
    pub fn receipt(&self) -> Option<&Receipt> {
        self.extras.as_ref()?.receipt.as_ref()
    }

    /// Takes the receipt out.
    #[must_use]
    pub fn take_receipt(&mut self) -> Option<Receipt> {
        self.extras.as_mut()?.receipt.take()
    }

    /// Of a ring whose slices were asked for: what they hold.
    #[must_use]
    pub fn slices(&self) -> Option<&SliceCounts> {
        self.extras.as_ref()?.slices.as_ref()
    }

    /// Takes the slices out.
    #[must_use]
    pub fn take_slices(&mut self) -> Option<SliceCounts> {
        self.extras.as_mut()?.slices.take()
    }

    /// What the store noticed about the states it judged.
    #[must_use]
    pub const fn notes(&self) -> Notes {
        self.notes
    }
}

impl RetryAfter {
    const fn of(passes: bool, micros: u64) -> Self {
        match (passes, micros) {
            (true, _) => Self::NotRefused,
            (false, NEVER) => Self::Never,
            (false, micros) => Self::After(span(micros)),
        }
    }
}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Decision");
        debug
            .field("allowed", &self.allowed)
            .field("limit", &self.limit.as_ref().map(Limit::name))
            .field("source", &self.source)
            .field("binding", &self.binding().map(|outcome| outcome.name().to_string()))
            .field("granted", &self.granted)
            .field("wait", &self.wait())
            .field("retry_after", &self.retry_after())
            .field("policies", &self.policies().collect::<Vec<_>>())
            .field("notes", &self.notes);
        if let Some(extras) = &self.extras {
            debug.field("extras", extras);
        }
        debug.finish()
    }
}

const fn span(micros: u64) -> Span {
    match Span::from_micros(micros) {
        Ok(span) => span,
        Err(_) => Span::MAX,
    }
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
