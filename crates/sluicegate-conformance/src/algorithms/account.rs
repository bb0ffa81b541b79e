//! What one policy knows about one key.

use std::fmt;

use sluicegate_core::Algorithm;
use sluicegate_core::for_stores::ReportedUnits;

use super::refusal::Refusal;
use super::slots::{Place, Slots};

/// The state of one policy for one key. Times are microseconds; `at` is never before
/// [`Account::newest`]; `units` is at least 1.
pub(crate) trait Account: fmt::Debug + Send + Sync {
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

    /// Takes units, whatever the policy says of them, for a request that acts `acts_in_us` after
    /// `at`: until then it counts as idle.
    fn admit(
        &mut self,
        algorithm: &Algorithm,
        at: u64,
        units: u64,
        acts_in_us: u64,
    ) -> Result<(), Refusal>;

    /// Takes what a denied request is charged.
    fn charge_denied(&mut self, algorithm: &Algorithm, at: u64, units: u64) -> Result<(), Refusal>;

    /// Gives units back.
    fn refund(&mut self, algorithm: &Algorithm, at: u64, units: u64) -> Result<(), Refusal>;

    /// Gives back what is left of units that were taken at `taken_at`, under other numbers if that is
    /// known; nothing if it can't be told.
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

    /// Holds units that were just admitted, and says in which slot; nothing if that makes no difference.
    fn hold(
        &mut self,
        _algorithm: &Algorithm,
        _at: u64,
        _units: u64,
        _place: Place,
    ) -> Result<Option<u64>, Refusal> {
        Ok(None)
    }

    /// Holds units no longer that were in a slot; whether they were still.
    fn release(
        &mut self,
        _algorithm: &Algorithm,
        _at: u64,
        _units: u64,
        _slot: u64,
    ) -> Result<bool, Refusal> {
        Ok(false)
    }

    /// Holds units in another slot that were in one, and says in which; nothing if they stay there.
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

    /// Whether others hold units of it.
    fn is_held(&self, _algorithm: &Algorithm, _at: u64) -> Result<bool, Refusal> {
        Ok(false)
    }

    /// Gives back what was not used of what was held.
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

    /// The same as if nothing were held of it.
    fn without_held(&self) -> Box<dyn Account> {
        self.boxed()
    }

    /// How it looks then.
    fn looks(&self) -> String {
        format!("{:?}", self.without_held())
    }

    fn report(&self, algorithm: &Algorithm, at: u64) -> Result<Report, Refusal>;

    /// Says until when what is admitted next is held.
    fn hold_until(&mut self, _until: u64) {}

    /// Says who waits for what is in flight, until when and for how many units: those before whoever asks,
    /// the others, and who asks itself.
    fn set_line(
        &mut self,
        _ahead: Vec<(u64, u64)>,
        _behind: Vec<(u64, u64)>,
        _own: Vec<(u64, u64)>,
    ) {
    }

    /// Whether what is refused may pass before its retry-after though nobody asks.
    fn may_pass_sooner(&self, _at: u64) -> bool {
        false
    }

    /// Forgets all but the units that are leased at `at`.
    fn reset(&mut self, algorithm: &Algorithm, at: u64);

    /// The units that were leased when the state was written.
    fn slots(&self) -> Slots {
        Slots::default()
    }

    /// When the current window ends, for a fixed one that somebody has opened.
    fn window_end(&self, _algorithm: &Algorithm, _at: u64) -> Option<u64> {
        None
    }

    /// Takes units ahead: only of what can be leased.
    fn lease(
        &mut self,
        algorithm: &Algorithm,
        _at: u64,
        _units: u64,
        _until: u64,
        _tag: u64,
    ) -> Result<(), Refusal> {
        unknown(algorithm)
    }

    /// Hears what became of leased units. There are none of what can't be leased.
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

/// Units that were taken and held, and not used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unused<'a> {
    pub(crate) units: u64,
    pub(crate) taken_at: u64,
    /// The numbers that they were taken under.
    pub(crate) then: &'a Algorithm,
    /// Nobody came since, and nobody who comes counts on them.
    pub(crate) is_last: bool,
    /// They were held until now.
    pub(crate) is_released: bool,
}

impl Clone for Box<dyn Account> {
    fn clone(&self) -> Self {
        self.boxed()
    }
}

/// When a request would pass; ordered from soonest to latest.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Retry {
    /// It does pass.
    Now,
    /// After this many microseconds, at least 1.
    After(u64),
    /// Not at all.
    Never,
}

/// How long the caller would wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// Not at all, except for a shaper, however long that takes.
    Plain,
    /// At most so many microseconds.
    Within(u64),
}

impl Patience {
    /// For everything but a shaper.
    pub(crate) const fn within_us(self) -> u64 {
        match self {
            Self::Plain => 0,
            Self::Within(micros) => micros,
        }
    }
}

/// What one policy says to one request.
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

    /// Admitted after `wait_us` if that is within the patience; `None` is a wait without end.
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
    pub(crate) total: Option<u64>,
}

/// The algorithm or window is newer than the model.
pub(crate) fn unknown(what: &impl fmt::Debug) -> ! {
    #[expect(clippy::panic, reason = "a test kit that can't judge must not stay silent")]
    {
        panic!("the reference model has no rule for {what:?}")
    }
}
