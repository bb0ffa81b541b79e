//! The auditor of a fleet checks whether all admitted requests together obey the limit over every interval.

use sluicegate_testkit::ideal_bucket::IdealBucket;

use crate::simulation::SECOND;

/// The requests that a fleet admits under a limit.
pub(crate) struct Auditor {
    ideal: IdealBucket,
    admitted: u64,
    /// Units that were admitted beyond the burst.
    pub(crate) over: u64,
}

impl Auditor {
    /// Makes the auditor of a limit of `rate` units a second.
    pub(crate) fn new(rate: u64, burst: u64) -> Self {
        Self { ideal: IdealBucket::new(rate, SECOND, burst), admitted: 0, over: 0 }
    }

    /// Notes units that were admitted now.
    pub(crate) fn admit(&mut self, now: u64, units: u64) {
        self.admitted += units;
        self.over = self.over.max(self.ideal.spend(now, units));
    }

    /// Returns the number of units that were admitted since the last call.
    pub(crate) const fn take_admitted(&mut self) -> u64 {
        std::mem::replace(&mut self.admitted, 0)
    }
}

#[test]
fn one_unit_more_than_the_limit_in_any_interval_is_found() {
    let mut auditor = Auditor::new(10, 5);
    auditor.admit(0, 5);
    assert_eq!(auditor.over, 0);
    auditor.admit(100_000, 1);
    assert_eq!(auditor.over, 0);
    auditor.admit(199_999, 1);
    assert_eq!(auditor.over, 1, "a microsecond too early");
    assert_eq!(auditor.take_admitted(), 7);
}
