//! The answer to a request.

use std::time::Duration;

use smallvec::SmallVec;

use crate::kernel::Ask;
use crate::kernel::bucket::{self, Bucket};
use crate::time::Span;

/// The answer to a request: allowed or denied, and what each policy says.
///
/// The policies stand in the order of their limit, which also has their names.
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
#[non_exhaustive]
pub struct Decision {
    pub(crate) allowed: bool,
    pub(crate) source: Source,
    pub(crate) notes: Notes,
    pub(crate) binding: Option<u8>,
    pub(crate) granted: u64,
    pub(crate) wait: u64,
    pub(crate) retry: u64,
    pub(crate) policies: SmallVec<[Outcome; 16]>,
}

/// What one policy says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Outcome {
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    pub(crate) wait: u64,
    pub(crate) retry: u64,
    pub(crate) reset: u64,
    pub(crate) total: u64,
    pub(crate) current: u64,
    pub(crate) violated: u32,
    pub(crate) admitted: bool,
    pub(crate) shadow: bool,
}

/// Never, or unbounded, in the compact fields above.
pub(crate) const NEVER: u64 = u64::MAX;

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
    /// The answer of a limit whose store failed and which says what to do then.
    pub fn fallback(allowed: bool) -> Self {
        Self::without_policies(Source::Fallback, allowed)
    }

    /// The answer where no limit was asked.
    pub fn bypass(allowed: bool) -> Self {
        Self::without_policies(Source::Bypass, allowed)
    }

    fn without_policies(source: Source, allowed: bool) -> Self {
        Self {
            allowed,
            source,
            notes: Notes::default(),
            binding: None,
            granted: 0,
            wait: 0,
            retry: if allowed { 0 } else { NEVER },
            policies: SmallVec::new(),
        }
    }

    /// The answer to a check (or, uncharged, to a peek or a reservation) of a limit whose only
    /// policy is an enforced bucket: what [`evaluate`](crate::evaluate) answers, on a straight
    /// path. For stores.
    ///
    /// `standing` is as it stands after the charge, `ask` what the bucket answered before it.
    #[inline]
    pub fn of_bucket(rule: &Bucket, standing: &bucket::Standing, cost: u64, ask: Ask) -> Self {
        let (admitted, wait, retry) = match ask {
            Ask::Pass { wait } => (true, wait, 0),
            Ask::Refuse { retry } => (false, 0, retry.unwrap_or(NEVER)),
        };
        let mut decision = Self {
            allowed: admitted,
            source: Source::Store,
            notes: Notes::default(),
            binding: if admitted { None } else { Some(0) },
            granted: if admitted { cost } else { 0 },
            wait,
            retry,
            policies: SmallVec::new(),
        };
        decision.policies.push(Outcome {
            limit: rule.limit(),
            remaining: rule.remaining(standing),
            wait,
            retry,
            reset: rule.reset_after(standing).unwrap_or(NEVER),
            total: 0,
            current: 0,
            violated: 0,
            admitted,
            shadow: false,
        });
        decision
    }

    /// Says what the store noticed. For stores.
    pub const fn set_notes(&mut self, notes: Notes) {
        self.notes = notes;
    }

    /// Turns away a request that the policies may well admit, because the store has no room for
    /// its key. For bounded stores; what each policy says stays.
    pub const fn turn_away_for_room(&mut self, retry_after: Span) {
        self.allowed = false;
        self.notes.full = true;
        self.binding = None;
        self.granted = 0;
        self.wait = 0;
        self.retry = if retry_after.is_zero() { 1 } else { retry_after.as_micros() };
    }

    /// Whether the request passes.
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Whether the request is turned away.
    #[must_use]
    pub const fn is_denied(&self) -> bool {
        !self.allowed
    }

    /// Where the answer came from.
    #[must_use]
    pub const fn source(&self) -> Source {
        self.source
    }

    /// The index of the policy that binds: of those that refused, the one with the longest
    /// retry-after. `None` when allowed, and when it was the store that had no room.
    #[must_use]
    pub fn binding(&self) -> Option<usize> {
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
        span(self.wait)
    }

    /// When a denied request may be tried again.
    #[must_use]
    pub const fn retry_after(&self) -> RetryAfter {
        retry(self.allowed, self.retry)
    }

    /// What each policy says, in the order of the limit. Empty when the store failed.
    #[must_use]
    pub fn policies(&self) -> &[Outcome] {
        &self.policies
    }

    /// The least that any enforced policy has left; `None` when unbounded.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        let least = self
            .policies
            .iter()
            .filter(|policy| !policy.shadow)
            .map(|policy| policy.remaining)
            .min()?;
        (least != NEVER).then_some(least)
    }

    /// The same decision with what the store noticed. For stores.
    pub const fn with_notes(mut self, notes: Notes) -> Self {
        self.notes = notes;
        self
    }

    /// What the store noticed about the states it judged.
    #[must_use]
    pub const fn notes(&self) -> Notes {
        self.notes
    }
}

impl Outcome {
    /// Whether this policy admits the request.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        self.admitted
    }

    /// Whether the policy only watches.
    #[must_use]
    pub const fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// The largest cost a fresh key admits; `None` when unbounded.
    #[must_use]
    pub const fn limit(&self) -> Option<u64> {
        bounded(self.limit)
    }

    /// The largest cost that would be admitted right now, after this decision; `None` when
    /// unbounded.
    #[must_use]
    pub const fn remaining(&self) -> Option<u64> {
        bounded(self.remaining)
    }

    /// How long this policy alone would make the caller wait before it acts.
    #[must_use]
    pub const fn wait(&self) -> Span {
        span(self.wait)
    }

    /// When the request would pass this policy.
    #[must_use]
    pub const fn retry_after(&self) -> RetryAfter {
        retry(self.admitted, self.retry)
    }

    /// The least time until the state equals a fresh key's; `None` when nothing flows back.
    #[must_use]
    pub const fn reset_after(&self) -> Option<Span> {
        match self.reset {
            NEVER => None,
            micros => Some(span(micros)),
        }
    }

    /// Of a ring or log: the units that count now over its (longest) window.
    #[must_use]
    pub const fn window_total(&self) -> u64 {
        self.total
    }

    /// Of a ring: the units in the current slice.
    #[must_use]
    pub const fn current_slice(&self) -> u64 {
        self.current
    }

    /// Of a log: the strategies that refused, as indices in the order given.
    pub fn violated(&self) -> impl Iterator<Item = usize> + use<> {
        let violated = self.violated;
        (0..32).filter(move |index| violated & (1 << index) != 0)
    }
}

const fn span(micros: u64) -> Span {
    match Span::from_micros(micros) {
        Ok(span) => span,
        Err(_) => Span::MAX,
    }
}

const fn bounded(units: u64) -> Option<u64> {
    if units == NEVER { None } else { Some(units) }
}

const fn retry(passes: bool, micros: u64) -> RetryAfter {
    match (passes, micros) {
        (true, _) => RetryAfter::NotRefused,
        (false, NEVER) => RetryAfter::Never,
        (false, micros) => RetryAfter::After(span(micros)),
    }
}
