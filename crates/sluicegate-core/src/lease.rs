//! Leases: units that a process takes ahead of use and spends without asking the store.

use crate::failure::{RequestError, RequestErrorKind};
use crate::kernel::Leased;
use crate::limit::Limit;
use crate::number::MAX_EXACT;
use crate::request::{Action, Operation};
use crate::time::Span;

/// What a holder of leases wants and tells, together with a request.
///
/// The store applies the [reports](Self::reports) first, then decides on the request. If that was an
/// allowed check, the store may take [`want`](Self::want) times its costs more, as a lease: see
/// [`DecisionForStores::lease`](crate::for_stores::DecisionForStores::lease).
///
/// ```
/// use sluicegate_core::for_stores::{DecisionForStores as _, Leasing, Now, step};
/// use sluicegate_core::{Limit, Request, Span};
///
/// let limit = Limit::new("api", vec!["token_bucket 1000/s"])?;
/// let now = Now { micros: 1_234_567, max_clock_back: None };
/// let leasing = Leasing { want: 100, width: Span::from_millis(200)?, tag: 77, reports: &[] };
/// let request = Request::check(b"alice").leasing(&leasing);
/// let decision = step(&limit, &request, now, &mut [None])?.decision;
/// let lease = decision.lease().expect("there is enough left");
/// // The current slot ends at 1.4 s, and the lease four later.
/// assert_eq!((lease.times, lease.slot, lease.left.as_micros()), (100, 77, 2_200_000 - 1_234_567));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Leasing<'a> {
    /// How many times the costs of the request to take ahead at most; 0 for none. Only a check can
    /// want any.
    pub want: u64,
    /// The width of a slot, 1 ms to 10 s: a lease ends where the fifth one after the store's time
    /// begins, so it lasts four to five times this long.
    pub width: Span,
    /// What a slot is called that this request opens: a random number below 2^53. Its end doesn't name a
    /// slot, because that comes again when the store's clock steps back.
    pub tag: u64,
    /// What became of earlier leases, at most [`Leasing::MAX_REPORTS`].
    pub reports: &'a [LeaseReport],
}

/// What became of units that were leased in one slot. A report is sent once: if nobody knows whether
/// it arrived, its units stay charged.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LeaseReport {
    /// [`Lease::slot`] of the leases. The store ignores a report of a slot that is over.
    pub slot: u64,
    /// What became of the units of each policy, in the order of the limit.
    pub units: Vec<ReportedUnits>,
}

/// What became of leased units of one policy.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ReportedUnits {
    /// They were spent: they are no longer outstanding, and flow back from now on.
    pub spent: u64,
    /// The holder gives them back: it must have destroyed them before it sends this.
    pub returned: u64,
}

/// Units that the store has taken ahead for the holder that asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Lease {
    /// How many times the costs of the request.
    pub times: u64,
    /// The slot that the lease is in, which names it in [reports](LeaseReport).
    pub slot: u64,
    /// How long that is from the time of judgement: the holder must count it from when it *sent* the
    /// request, because the store judged later than that.
    pub left: Span,
}

impl Leasing<'_> {
    /// The most reports that travel with one request.
    pub const MAX_REPORTS: usize = Leased::MAX_SLOTS;
    /// The narrowest slot.
    pub const MIN_WIDTH: Span = Span::MILLISECOND;
    /// The widest slot.
    pub const MAX_WIDTH: Span = match Span::from_millis(10_000) {
        Ok(width) => width,
        Err(_) => Span::SECOND,
    };

    /// A lease takes at most one part in so many of what remains: it shrinks as the limit is used up,
    /// and near its end the store decides every request.
    pub const SHARE: u64 = 8;
    /// A lease ends where the slot begins that is so many after the current one.
    pub const SLOTS_AHEAD: u64 = 5;

    pub(crate) fn validate(&self, limit: &Limit, action: Action<'_>) -> Result<(), RequestError> {
        if !limit.can_lease() {
            return Err(RequestError::new(
                RequestErrorKind::Unsupported,
                format!(
                    "limit `{}` can't be leased: every policy has to be a bucket (token_bucket, gcra, \
                     leaky_bucket) or a fixed window, neither `shadow` nor `charge_denied`",
                    limit.name()
                ),
            ));
        }
        let wrong = match action {
            Action::Decide(Operation::Peek)
            | Action::Cancel(_)
            | Action::Slices
            | Action::Settle { .. }
            | Action::Renew { .. } => Some("it changes nothing that leases are about".to_owned()),
            Action::Decide(operation) if self.want > 0 && operation != Operation::Check => {
                Some("only a check can want a lease".to_owned())
            }
            Action::Decide(_) => self.wrong_numbers(limit),
        };
        let invalid = |message: String| RequestError::new(RequestErrorKind::Invalid, message);
        wrong
            .map_or(Ok(()), |why| Err(invalid(format!("the request can't carry `leasing`: {why}"))))
    }

    fn wrong_numbers(&self, limit: &Limit) -> Option<String> {
        if !(Self::MIN_WIDTH..=Self::MAX_WIDTH).contains(&self.width) {
            let (least, most) = (Self::MIN_WIDTH, Self::MAX_WIDTH);
            return Some(format!(
                "its width is {}, but must be from {least} to {most}",
                self.width
            ));
        }
        if self.want.max(self.tag) > MAX_EXACT {
            let (want, tag) = (self.want, self.tag);
            return Some(format!(
                "it wants {want} under the tag {tag}, but at most {MAX_EXACT} is possible"
            ));
        }
        if self.reports.len() > Self::MAX_REPORTS {
            let (reports, most) = (self.reports.len(), Self::MAX_REPORTS);
            return Some(format!("it has {reports} reports, but at most {most} are possible"));
        }
        let policies = limit.members().len();
        let is_odd = |report: &LeaseReport| {
            let fits = |units: &ReportedUnits| units.spent.max(units.returned) <= MAX_EXACT;
            report.units.len() != policies || !report.units.iter().all(fits)
        };
        self.reports.iter().any(is_odd).then(|| {
            format!(
                "a report has to say for each of the {policies} policies what was spent and returned, \
                 each from 0 to {MAX_EXACT}"
            )
        })
    }
}
