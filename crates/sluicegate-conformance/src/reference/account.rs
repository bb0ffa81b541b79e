//! What one policy knows about one key.

use std::fmt;

use sluicegate_core::{Algorithm, Window};

use super::answer::{Refusal, Retry};
use super::bucket::Bucket;
use super::ledger::Ledger;
use super::two_cells::TwoCells;
use super::warm_up::WarmUp;

/// The state of one policy for one key. Times are microseconds; `at` is never before
/// [`Account::newest`]; `units` is at least 1.
pub(super) trait Account: fmt::Debug + Send + Sync {
    /// A copy.
    fn boxed(&self) -> Box<dyn Account>;

    /// The time of the newest admitted request.
    fn newest(&self) -> Option<u64>;

    /// Makes what lies ahead of `now` count as made now, and writes it in the present numbers.
    fn restamp(&mut self, algorithm: &Algorithm, now: u64) -> Result<(), Refusal>;

    fn judge(
        &self,
        algorithm: &Algorithm,
        at: u64,
        units: u64,
        patience: Patience,
    ) -> Result<Verdict, Refusal>;

    /// Takes the units of an admitted request. `idle_us` is how long after `at` it acts, if that
    /// is later than this policy asks for.
    fn admit(
        &mut self,
        algorithm: &Algorithm,
        at: u64,
        units: u64,
        idle_us: Option<u64>,
    ) -> Result<(), Refusal>;

    /// Takes the units whatever the policy says.
    fn force(&mut self, algorithm: &Algorithm, at: u64, units: u64) -> Result<(), Refusal>;

    /// Takes what a denied request is charged.
    fn charge_denied(&mut self, algorithm: &Algorithm, at: u64, units: u64) -> Result<(), Refusal>;

    /// Gives units back.
    fn refund(&mut self, algorithm: &Algorithm, at: u64, units: u64) -> Result<(), Refusal>;

    fn standing(&self, algorithm: &Algorithm, at: u64) -> Result<Standing, Refusal>;
}

impl Clone for Box<dyn Account> {
    fn clone(&self) -> Self {
        self.boxed()
    }
}

/// How long the caller would wait.
#[derive(Clone, Copy, Debug)]
pub(super) enum Patience {
    /// Not at all, except for a shaper, however long that takes.
    Plain,
    /// At most so many microseconds.
    Within(u64),
}

impl Patience {
    /// For everything but a shaper.
    pub(super) const fn within_us(self) -> u64 {
        match self {
            Self::Plain => 0,
            Self::Within(micros) => micros,
        }
    }
}

/// What one policy says to one request.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    pub(super) wait_us: u64,
    pub(super) retry: Retry,
    pub(super) violated: Vec<usize>,
}

impl Verdict {
    pub(super) const ADMITTED: Self = Self { wait_us: 0, retry: Retry::Now, violated: Vec::new() };
    pub(super) const NEVER: Self = Self { wait_us: 0, retry: Retry::Never, violated: Vec::new() };

    pub(super) const fn refused(retry: Retry) -> Self {
        Self { wait_us: 0, retry, violated: Vec::new() }
    }

    /// Admitted after `wait_us` if that is within the patience; `None` is a wait without end.
    pub(super) fn after(wait_us: Option<u64>, within_us: u64) -> Self {
        match wait_us {
            None => Self::NEVER,
            Some(wait_us) if wait_us <= within_us => Self { wait_us, ..Self::ADMITTED },
            Some(wait_us) => Self::refused(Retry::After(wait_us - within_us)),
        }
    }

    pub(super) fn admitted(&self) -> bool {
        self.retry == Retry::Now
    }
}

/// How one policy stands at an instant.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    pub(super) limit: Option<u64>,
    pub(super) remaining: Option<u64>,
    pub(super) reset: Option<u64>,
    pub(super) current_slice: Option<u64>,
    pub(super) total: Option<u64>,
}

/// The state of a key that was never seen.
pub(super) fn fresh(algorithm: &Algorithm) -> Box<dyn Account> {
    match algorithm {
        Algorithm::TokenBucket { .. }
        | Algorithm::Gcra { .. }
        | Algorithm::LeakyBucket { .. }
        | Algorithm::Shaper { .. }
        | Algorithm::Smooth { .. } => Box::new(Bucket::default()),
        Algorithm::WarmUp { .. } => Box::new(WarmUp::default()),
        Algorithm::FixedWindow { .. }
        | Algorithm::SlidingWindow { .. }
        | Algorithm::SlidingLog { .. } => Box::new(Ledger::default()),
        Algorithm::SlidingCounter { .. } => Box::new(TwoCells::default()),
        _ => unknown(algorithm),
    }
}

/// Whether requests can be booked ahead.
pub(super) const fn is_bookable(algorithm: &Algorithm) -> bool {
    !matches!(
        algorithm,
        Algorithm::FixedWindow { .. }
            | Algorithm::SlidingWindow { .. }
            | Algorithm::SlidingLog { .. }
            | Algorithm::SlidingCounter { .. }
    )
}

/// Whether state made under the one is live under the other: other numbers, but the same
/// algorithm and window.
pub(super) fn same_kind(old: &Algorithm, new: &Algorithm) -> bool {
    use Algorithm::{FixedWindow, SlidingCounter, SlidingLog, SlidingWindow};
    match (old, new) {
        (FixedWindow { window: old, .. }, FixedWindow { window: new, .. }) => old == new,
        (
            SlidingWindow { window: a, slices: b, .. },
            SlidingWindow { window: c, slices: d, .. },
        ) => (a, b) == (c, d),
        (SlidingCounter { window: old, .. }, SlidingCounter { window: new, .. }) => old == new,
        (SlidingLog { strategies: old }, SlidingLog { strategies: new }) => old
            .iter()
            .map(|strategy| strategy.window)
            .eq(new.iter().map(|strategy| strategy.window)),
        _ => old.keyword() == new.keyword(),
    }
}

/// The algorithm or window is newer than the model.
pub(super) fn unknown(what: &impl fmt::Debug) -> ! {
    #[expect(clippy::panic, reason = "a test kit that can't judge must not stay silent")]
    {
        panic!("the reference model has no rule for {what:?}")
    }
}

/// The first instant of the window that holds `stamp`, and the first one after it, where windows
/// stand still.
pub(super) fn standing_window(window: &Window, stamp: u64) -> Option<(u64, u64)> {
    match window {
        Window::FirstAdmitted(_) => None,
        Window::Aligned(length) => {
            let length = length.as_micros();
            let start = stamp / length * length;
            Some((start, start + length))
        }
        Window::Calendar(calendar) => {
            let (start, end) =
                calendar.window_at(sluicegate_core::Timestamp::from_micros_clamped(stamp));
            Some((start.as_micros(), end.as_micros()))
        }
        _ => unknown(window),
    }
}
