//! Leases: units that a process takes ahead of use and spends without calling the store.

use crate::failure::{RequestError, RequestErrorKind};
use crate::kernel::Leased;
use crate::kernel::slot;
use crate::limit::Limit;
use crate::number::MAX_EXACT;
use crate::request::Operation;
use crate::time::Span;

/// The requests and reports of a lease holder, attached to a request.
///
/// The store applies the [reports](Self::reports) first and then decides on the request. After an
/// allowed check, the store may take [`want`](Self::want) times its costs as a lease, in addition.
/// See [`DecisionForStores::lease`](crate::for_stores::DecisionForStores::lease).
///
/// ```
/// use sluicegate_core::for_stores::{DecisionForStores as _, Leasing, Now, step};
/// use sluicegate_core::{Limit, Request, Span};
///
/// let limit = Limit::new("api", vec!["token_bucket 1000/s"])?;
/// let now = Now { micros: 1_234_567, max_clock_back: None };
/// let leasing = Leasing { want: 100, width: Span::from_millis(200)?, tag: 77, reports: &[], pace: None };
/// let request = Request::check(b"alice").leasing(&leasing);
/// let decision = step(&limit, &request, now, &mut [None])?.decision;
/// let lease = decision.lease().expect("there is enough left");
/// // The current slot ends at 1.4 s, and the lease four later.
/// assert_eq!((lease.times, lease.slot, lease.left.as_micros()), (100, 77, 2_200_000 - 1_234_567));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Leasing<'a> {
    /// The size of the lease, at most this number times the costs of the request; 0 for none. Only
    /// a check can request a lease.
    pub want: u64,
    /// The width of a slot, 1 ms to 10 s. A lease ends at the start of the fifth slot after the
    /// store's time, so it lasts four to five times this width.
    pub width: Span,
    /// The name of a slot that this request opens, a random number below 2^53. The slot's end can't
    /// serve as its name, because the end repeats when the store's clock is set back.
    pub tag: u64,
    /// The outcome of earlier leases, at most [`Leasing::MAX_REPORTS`].
    pub reports: &'a [LeaseReport],
    /// The share of the rate to book with the lease. A lease with a share has exactly
    /// [`want`](Self::want) units, or it isn't granted. The costs of the request are charged
    /// separately, and can be 0.
    pub pace: Option<Pace>,
}

/// The share of a bucket's rate to book for a lease, for a limit of one bucket.
///
/// Until the lease ends, its holder may spend its units immediately, and this share of the rate all
/// the time. The bucket drains by the rest of its rate, and its used units stay above the units of all
/// leases. A holder whose lease ended is no longer counted, without an answer from it.
///
/// ```
/// use sluicegate_core::for_stores::{DecisionForStores as _, Leasing, Now, Pace, step};
/// use sluicegate_core::{Costs, Limit, Request, Span};
///
/// let limit = Limit::new("api", vec!["token_bucket 1000/s burst 10000"])?;
/// let now = Now { micros: 1_000_000, max_clock_back: None };
/// let pace = Pace { share: 250_000, least: 1, most: Pace::MOST, carried: None };
/// let width = Span::from_millis(2_500)?;
/// let leasing = Leasing { want: 60, width, tag: 77, reports: &[], pace: Some(pace) };
/// let request = Request::check(b"edge").costs(Costs::Each(&[0])).leasing(&leasing);
/// let decision = step(&limit, &request, now, &mut [None])?.decision;
/// let lease = decision.lease().expect("the whole rate is free");
/// // The holder may spend 60 units and then 250 a second, until 12.5 s.
/// assert_eq!((lease.times, lease.share, lease.left.as_micros()), (60, 250_000, 11_500_000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pace {
    /// The wanted share of the rate in millionths, 1 to [`Pace::MOST`]. The lease gets what is
    /// free of it.
    pub share: u64,
    /// The minimum share. If less is free, nothing is leased.
    pub least: u64,
    /// The largest share that all leases may have together with this one, up to [`Pace::MOST`]. It keeps
    /// a part of the rate for later requests, which have a larger one.
    pub most: u64,
    /// The lease of the same holder that this one carries on or replaces.
    ///
    /// If [`want`](Leasing::want) is 0, its units and its share move to the new end. Otherwise it
    /// stays until its own end, and of both shares the larger counts until then. If it has ended,
    /// nothing is leased.
    pub carried: Option<Carried>,
}

/// An earlier lease with a share of the rate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Carried {
    /// Its slot.
    pub slot: u64,
    /// Its units.
    pub units: u64,
    /// Its share in millionths.
    pub share: u64,
}

/// The outcome of the units that were leased in one slot. A report is sent once: if its delivery is
/// unknown, its units stay charged.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LeaseReport {
    /// [`Lease::slot`] of the leases. The store ignores a report of a slot that has ended.
    pub slot: u64,
    /// The outcome of each policy's units, in the order of the limit.
    pub units: Vec<ReportedUnits>,
}

/// The outcome of the leased units of one policy.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ReportedUnits {
    /// Spent units: they are no longer outstanding, and flow back from now on.
    pub spent: u64,
    /// Units that the holder gives back. The holder must destroy them before it sends the report.
    pub returned: u64,
}

/// Units that the store has taken ahead for the requesting holder.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Lease {
    /// The size of the lease, as a multiple of the request's costs. With a share, the charged units.
    pub times: u64,
    /// The booked share of the rate in millionths; 0 for a lease of units.
    pub share: u64,
    /// The slot of the lease, which names it in [reports](LeaseReport).
    pub slot: u64,
    /// The remaining time of the lease, from the evaluation time. The holder must count it from the
    /// instant when it *sent* the request, because the store evaluated it later.
    pub left: Span,
}

impl Pace {
    /// The whole rate as a share: a million.
    pub const WHOLE: u64 = slot::WHOLE;
    /// The largest share that all leases book together, in millionths. The rest of the rate is left
    /// for requests without a lease.
    pub const MOST: u64 = 990_000;

    fn wrong_numbers(&self, want: u64) -> Option<String> {
        let Self { share, least, most: of_all, carried } = *self;
        if !(1..=Self::MOST).contains(&share) || least > share || of_all > Self::MOST {
            let most = Self::MOST;
            return Some(format!(
                "it wants a share of {share}, at least {least}, up to {of_all}: use 1 to {most}, and a smaller minimum"
            ));
        }
        let is_whole = |earlier: Carried| {
            earlier.slot.max(earlier.units) <= MAX_EXACT && earlier.share <= Self::WHOLE
        };
        if carried.is_some_and(|earlier| !is_whole(earlier)) {
            return Some("its earlier lease has a number that is too large".to_owned());
        }
        if want == 0 && carried.is_none_or(|earlier| earlier.share != share) {
            return Some(
                "a lease without units has to carry on an earlier one of the same share".to_owned(),
            );
        }
        None
    }
}

impl Leasing<'_> {
    /// The maximum number of reports in one request.
    pub const MAX_REPORTS: usize = Leased::MAX_SLOTS;
    /// The minimum width of a slot: 1 ms.
    pub const MIN_WIDTH: Span = Span::MILLISECOND;
    /// The maximum width of a slot: 10 s.
    pub const MAX_WIDTH: Span = match Span::from_millis(10_000) {
        Ok(width) => width,
        Err(_) => Span::SECOND,
    };

    /// The divisor of a lease's size: a lease takes at most 1/8 of the remaining units. It shrinks
    /// as the limit is used up, and near the limit's end the store decides each request.
    pub const SHARE: u64 = 8;
    /// The number of slots from the current one to the one at whose start a lease ends.
    pub const SLOTS_AHEAD: u64 = 5;

    pub(crate) fn validate(
        &self,
        limit: &Limit,
        operation: Operation<'_>,
    ) -> Result<(), RequestError> {
        if !limit.can_lease() {
            return Err(RequestError::new(
                RequestErrorKind::Unsupported,
                format!(
                    "limit `{}` can't be leased: every policy has to be a bucket (token_bucket, gcra, \
                     leaky_bucket) or a fixed window, without `shadow`, `charge_denied` and `count_denied`",
                    limit.name()
                ),
            ));
        }
        let wrong = match operation {
            Operation::Peek
            | Operation::Cancel(_)
            | Operation::Slices
            | Operation::Settle { .. }
            | Operation::Renew { .. } => Some("the operation doesn't use leased units".to_owned()),
            operation if self.asks() && operation != Operation::Check => {
                Some("only a check can request a lease".to_owned())
            }
            _ if self.pace.is_some() && !limit.can_pace() => {
                Some("a share of the rate needs a limit of one bucket with a rate".to_owned())
            }
            _ => self.wrong_numbers(limit),
        };
        let invalid = |message: String| RequestError::new(RequestErrorKind::Invalid, message);
        wrong
            .map_or(Ok(()), |why| Err(invalid(format!("the request can't carry `leasing`: {why}"))))
    }

    /// Returns the end of a lease that is granted now, in µs since the epoch.
    pub(crate) const fn until(&self, now: u64) -> u64 {
        let width = self.width.as_micros();
        (now / width + Self::SLOTS_AHEAD) * width
    }

    /// Returns `true` if this requests a lease.
    #[must_use]
    pub const fn asks(&self) -> bool {
        self.want > 0 || self.pace.is_some()
    }

    fn wrong_numbers(&self, limit: &Limit) -> Option<String> {
        if let Some(wrong) = self.pace.and_then(|pace| pace.wrong_numbers(self.want)) {
            return Some(wrong);
        }
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
