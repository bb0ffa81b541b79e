//! The auditor of a fleet checks whether all admitted requests together obey the limit over every interval.
//!
//! They do exactly as long as a bucket of the limit's rate and burst, which is charged each request at its instant, never
//! overflows.

/// An ideal bucket of a limit of `rate` units a second.
pub(crate) struct Auditor {
    rate: u64,
    burst: u64,
    /// The used units in millionths, at the last instant.
    used: u128,
    at: u64,
    admitted: u64,
    /// Units that were admitted beyond the burst.
    pub(crate) over: u64,
}

const MILLION: u128 = 1_000_000;

impl Auditor {
    pub(crate) const fn new(rate: u64, burst: u64, now: u64) -> Self {
        Self { rate, burst, used: 0, at: now, admitted: 0, over: 0 }
    }

    /// Notes units that were admitted now.
    pub(crate) fn admit(&mut self, now: u64, units: u64) {
        let drained = u128::from(now - self.at) * u128::from(self.rate);
        self.used = self.used.saturating_sub(drained) + u128::from(units) * MILLION;
        self.at = now;
        self.admitted += units;
        let over = self.used.saturating_sub(u128::from(self.burst) * MILLION).div_ceil(MILLION);
        self.over = self.over.max(u64::try_from(over).unwrap());
    }

    /// Returns the number of units that were admitted since the last call.
    pub(crate) const fn take_admitted(&mut self) -> u64 {
        std::mem::replace(&mut self.admitted, 0)
    }
}

#[test]
fn one_unit_more_than_the_limit_in_any_interval_is_found() {
    let mut auditor = Auditor::new(10, 5, 0);
    auditor.admit(0, 5);
    assert_eq!(auditor.over, 0);
    auditor.admit(100_000, 1);
    assert_eq!(auditor.over, 0);
    auditor.admit(199_999, 1);
    assert_eq!(auditor.over, 1, "a microsecond too early");
    assert_eq!(auditor.take_admitted(), 7);
}
