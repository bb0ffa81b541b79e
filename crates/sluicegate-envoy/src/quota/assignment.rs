//! An assignment that a holder has, and its booking in the store.

use sluicegate_core::for_stores::{Carried, Lease};

use super::Numbers;

/// An assignment that a holder has, and its booking in the store.
///
/// The booking lasts longer than the assignment by [`Assignment::MARGIN`], the longest time of a message to Envoy. All
/// times are counted from the instant when the booking was requested.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Assignment {
    /// The numbers of the limit when it was booked.
    pub(crate) numbers: Numbers,
    /// The booked share of the rate, in millionths.
    pub(crate) share: u64,
    /// Size of the token bucket.
    pub(crate) max_tokens: u64,
    /// The booked units and their slot.
    units: u64,
    slot: u64,
    /// The instant of the request for the booking.
    sent: u64,
    /// The end of the booking.
    pub(crate) ends: u64,
    /// Seconds for which Envoy uses it, from the receipt.
    pub(crate) seconds: u64,
}

const SECOND: u64 = 1_000_000;

impl Assignment {
    /// The longest time from the request for a booking until Envoy has the message, in µs.
    pub(crate) const MARGIN: u64 = SECOND;

    /// Returns the assignment of a lease that was requested at `sent` with `max_tokens`.
    ///
    /// Returns `None` if it is too short or too small to be used.
    pub(crate) fn new(numbers: Numbers, max_tokens: u64, lease: Lease, sent: u64) -> Option<Self> {
        let left = lease.left.as_micros();
        let seconds = left.saturating_sub(Self::MARGIN) / SECOND;
        let assignment = Self {
            numbers,
            share: lease.share,
            max_tokens,
            units: lease.times,
            slot: lease.slot,
            sent,
            ends: sent.saturating_add(left),
            seconds,
        };
        (seconds > 0 && assignment.tokens_per_fill() > 0).then_some(assignment)
    }

    /// Returns this assignment, carried on by an equal lease.
    pub(crate) fn carried_on(&self, lease: Lease, sent: u64) -> Option<Self> {
        let renewed = Self::new(self.numbers, self.max_tokens, lease, sent)?;
        Some(Self { units: self.units, ..renewed })
    }

    /// Returns the tokens that Envoy adds in each fill interval.
    pub(crate) fn tokens_per_fill(&self) -> u64 {
        self.numbers.tokens_of(self.share)
    }

    /// Returns the booking, for a request that carries it on.
    pub(crate) const fn carried(&self) -> Carried {
        Carried { slot: self.slot, units: self.units, share: self.share }
    }

    /// Returns whether Envoy still has it when a message arrives that is sent now. Otherwise the next one starts full.
    pub(crate) const fn outlasts_a_message(&self, now: u64) -> bool {
        now.saturating_add(Self::MARGIN) <= self.sent.saturating_add(self.seconds * SECOND)
    }

    /// Returns the instant when Envoy can't have it any more.
    pub(crate) const fn over_at(&self) -> u64 {
        self.sent.saturating_add(Self::MARGIN).saturating_add(self.seconds * SECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_core::{Limit, Span};

    #[test]
    fn an_assignment_ends_before_its_booking_even_if_its_message_is_late() {
        let limit = Limit::new("fleet", ["token_bucket 500/s burst 5000"]).unwrap();
        let numbers = Numbers::of(&limit).unwrap();
        for millis in [1_999, 2_000, 11_000, 12_345, 13_750] {
            let left = Span::from_millis(millis).unwrap();
            let lease = Lease { times: 12, share: 100_000, slot: 7, left };
            let Some(new) = Assignment::new(numbers, 12, lease, 5_000_000) else {
                assert_eq!(millis, 1_999, "less than a second is left");
                continue;
            };
            assert!(new.over_at() <= new.ends);
            assert!(new.over_at() + 1_000_000 > new.ends, "no second is wasted");
            assert_eq!(new.tokens_per_fill(), 50);
            let lasts = 5_000_000 + new.seconds * 1_000_000;
            assert!(new.outlasts_a_message(lasts - 1_000_000));
            assert!(!new.outlasts_a_message(lasts - 999_999));
            // A renewal charges no units, and its answer has none.
            let left = Span::from_millis(12_000).unwrap();
            let renewed =
                new.carried_on(Lease { times: 0, slot: 8, left, ..lease }, 9_000_000).unwrap();
            assert_eq!(renewed.carried(), Carried { slot: 8, units: 12, share: 100_000 });
        }
    }
}
