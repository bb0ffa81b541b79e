//! The state of one policy for one key, as the model keeps it.

use std::fmt;

use sluicegate_core::Algorithm;
use sluicegate_core::for_stores::ReportedUnits;

use super::refusal::Refusal;
use super::slots::{Place, Slots};

/// The state of one policy for one key. Times are microseconds; `at` is never before
/// [`Account::newest`]; `units` is at least 1.
pub(crate) trait Account: fmt::Debug + Send + Sync {
    /// Returns a copy.
    fn boxed(&self) -> Box<dyn Account>;

    /// Returns the time of the newest admitted request.
    fn newest(&self) -> Option<u64>;

    /// Treats an admission ahead of `now` as made now, and converts the state to the present
    /// numbers.
    fn restamp(&mut self, algorithm: &Algorithm, now: u64) -> Result<(), Refusal>;

    fn judge(
        &self,
        algorithm: &Algorithm,
        at: u64,
        units: u64,
        patience: Patience,
    ) -> Result<Verdict, Refusal>;

    /// Takes units regardless of the verdict, for a request that acts `acts_in_us` after `at`.
    /// Until then the units count as idle.
    fn admit(
        &mut self,
        algorithm: &Algorithm,
        at: u64,
        units: u64,
        acts_in_us: u64,
    ) -> Result<(), Refusal>;

    /// Charges the cost of a denied request.
    fn charge_denied(&mut self, algorithm: &Algorithm, at: u64, units: u64) -> Result<(), Refusal>;

    /// Counts the cost of a denied request, beyond the limit too. Called only for fixed windows.
    fn count_denied(
        &mut self,
        algorithm: &Algorithm,
        _at: u64,
        _units: u64,
    ) -> Result<(), Refusal> {
        unknown(algorithm)
    }

    /// Refunds units.
    fn refund(&mut self, algorithm: &Algorithm, at: u64, units: u64) -> Result<(), Refusal>;

    /// Gives back the remainder of units that were taken at `taken_at`. `then` is the algorithm of
    /// that time, if known. Gives back nothing if the remainder is unknown.
    fn give_back(
        &mut self,
        _algorithm: &Algorithm,
        _at: u64,
        _units: u64,
        _taken_at: u64,
        _then: Option<&Algorithm>,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    /// Holds units that were just admitted and returns their slot, or `None` if the hold has no
    /// effect.
    fn hold(
        &mut self,
        _algorithm: &Algorithm,
        _at: u64,
        _units: u64,
        _place: Place,
    ) -> Result<Option<u64>, Refusal> {
        Ok(None)
    }

    /// Releases the held units of a slot. Returns whether they were still held.
    fn release(
        &mut self,
        _algorithm: &Algorithm,
        _at: u64,
        _units: u64,
        _slot: u64,
    ) -> Result<bool, Refusal> {
        Ok(false)
    }

    /// Moves held units to another slot and returns it, or `None` if they stay in theirs.
    fn renew(
        &mut self,
        _algorithm: &Algorithm,
        _at: u64,
        _units: u64,
        _slot: u64,
        _place: Place,
    ) -> Result<Option<u64>, Refusal> {
        Ok(None)
    }

    /// Returns `true` if other requests hold units of this state.
    fn is_held(&self, _algorithm: &Algorithm, _at: u64) -> Result<bool, Refusal> {
        Ok(false)
    }

    /// Gives back the held units that were not used.
    fn give_back_unused(
        &mut self,
        algorithm: &Algorithm,
        at: u64,
        unused: &Unused<'_>,
    ) -> Result<(), Refusal> {
        let Unused { units, taken_at, then, is_last, .. } = *unused;
        if is_last {
            self.refund(algorithm, at, units)
        } else {
            self.give_back(algorithm, at, units, taken_at, Some(then))
        }
    }

    /// Returns a copy without the held units.
    fn without_held(&self) -> Box<dyn Account> {
        self.boxed()
    }

    /// Returns the state as text, without the held units.
    fn looks(&self) -> String {
        format!("{:?}", self.without_held())
    }

    fn report(&self, algorithm: &Algorithm, at: u64) -> Result<Report, Refusal>;

    /// Sets the end of the next admission's hold.
    fn hold_until(&mut self, _until: u64) {}

    /// Sets the waiters for permits, each as its end and its units: those ahead of the caller, the
    /// others, and the caller itself.
    fn set_line(
        &mut self,
        _ahead: Vec<(u64, u64)>,
        _behind: Vec<(u64, u64)>,
        _own: Vec<(u64, u64)>,
    ) {
    }

    /// Returns `true` if a refused request may pass before its retry-after without further
    /// requests.
    fn may_pass_sooner(&self, _at: u64) -> bool {
        false
    }

    /// Resets the state, except for the units that are leased at `at`.
    fn reset(&mut self, algorithm: &Algorithm, at: u64);

    /// Returns the units that were leased when the state was written.
    fn slots(&self) -> Slots {
        Slots::default()
    }

    /// Returns the end of the current window, if it is a fixed window that a request has opened.
    fn window_end(&self, _algorithm: &Algorithm, _at: u64) -> Option<u64> {
        None
    }

    /// Takes units ahead, into these slots. Called only for algorithms that can be leased.
    fn lease(
        &mut self,
        algorithm: &Algorithm,
        _at: u64,
        _units: u64,
        _slots: Slots,
    ) -> Result<(), Refusal> {
        unknown(algorithm)
    }

    /// Applies a report about leased units. Algorithms that can't be leased get no reports.
    fn hear(
        &mut self,
        _algorithm: &Algorithm,
        _at: u64,
        _tag: u64,
        _units: ReportedUnits,
    ) -> Result<(), Refusal> {
        Ok(())
    }
}

/// Units that were taken and held but not used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unused<'a> {
    pub(crate) units: u64,
    pub(crate) taken_at: u64,
    /// The algorithm's numbers when they were taken.
    pub(crate) then: &'a Algorithm,
    /// Whether no later request exists and none can rely on these units.
    pub(crate) is_last: bool,
    /// Whether the units were held until now.
    pub(crate) is_released: bool,
}

impl Clone for Box<dyn Account> {
    fn clone(&self) -> Self {
        self.boxed()
    }
}

/// The time at which a request would pass, ordered from soonest to latest.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Retry {
    /// Immediately.
    Now,
    /// After this many microseconds, at least 1.
    After(u64),
    /// Not at all.
    Never,
}

/// The longest wait that the caller accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// No wait, except for a shaper, where any wait is accepted.
    Plain,
    /// At most this many microseconds.
    Within(u64),
}

impl Patience {
    /// Returns the accepted wait for every algorithm except a shaper.
    pub(crate) const fn within_us(self) -> u64 {
        match self {
            Self::Plain => 0,
            Self::Within(micros) => micros,
        }
    }
}

/// One policy's answer to one request.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) wait_us: u64,
    pub(crate) retry: Retry,
    pub(crate) violated: Vec<usize>,
}

impl Verdict {
    pub(crate) const ADMITTED: Self = Self { wait_us: 0, retry: Retry::Now, violated: Vec::new() };
    pub(crate) const NEVER: Self = Self { wait_us: 0, retry: Retry::Never, violated: Vec::new() };

    pub(crate) const fn refused(retry: Retry) -> Self {
        Self { wait_us: 0, retry, violated: Vec::new() }
    }

    /// Admits after `wait_us` if the patience covers it. `None` is an infinite wait.
    pub(crate) fn after(wait_us: Option<u64>, within_us: u64) -> Self {
        match wait_us {
            None => Self::NEVER,
            Some(wait_us) if wait_us <= within_us => Self { wait_us, ..Self::ADMITTED },
            Some(wait_us) => Self::refused(Retry::After(wait_us - within_us)),
        }
    }

    pub(crate) fn admitted(&self) -> bool {
        self.retry == Retry::Now
    }
}

/// The numbers of one policy at an instant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) limit: Option<u64>,
    pub(crate) remaining: Option<u64>,
    pub(crate) reset: Option<u64>,
    pub(crate) current_slice: Option<u64>,
    /// The units used in the window of a fixed window, or in the longest one of a log or ring.
    pub(crate) used: Option<u64>,
}

/// Panics, because the algorithm or window is newer than the model.
pub(crate) fn unknown(what: &impl fmt::Debug) -> ! {
    #[expect(clippy::panic, reason = "a test kit without a rule must fail, not pass")]
    {
        panic!("the reference model has no rule for {what:?}")
    }
}
