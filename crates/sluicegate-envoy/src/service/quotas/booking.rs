//! Requests to the store for shares.

use sluicegate::question::batched;
use sluicegate::store::{CountedKey, Leased, Leasing, Pace, Span};
use sluicegate_core::{BoxFuture, Error, MAX_EXACT};

use super::Shared;
use crate::quota::{Assignment, FILLED, KEPT_FOR_EACH, Numbers, Plan};

/// A request for a share, and its outcome.
#[derive(Debug)]
pub(super) struct Booking {
    pub(super) counted: CountedKey,
    pub(super) numbers: Numbers,
    /// The assignment that the holder has.
    pub(super) held: Option<Assignment>,
    pub(super) plan: Plan,
    pub(super) outcome: Option<Booked>,
}

/// The outcome of a request for a share.
#[derive(Debug)]
pub(super) enum Booked {
    /// A new share. The former one stays booked: all of it, or what it has more than the new one.
    New(Assignment),
    Changed(Assignment),
    /// An equal share until a later end.
    CarriedOn(Assignment),
    /// Nothing is booked.
    Nothing,
    /// The store failed: something may be booked until its end.
    Failed,
}

/// The width of a slot: a booking lasts 9 to 11.25 s, and an assignment 8 to 10 s. A report may be 2 s late.
const WIDTH: Span = match Span::from_millis(2_250) {
    Ok(width) => width,
    Err(_) => Span::SECOND,
};

/// Number of requests that are sent before the next ones are.
const AT_A_TIME: usize = 128;
/// Number of attempts for one report: a change, the same share, a new one, and a small one.
const ATTEMPTS: usize = 4;

/// Sends all requests, and for those that get nothing what is second best.
pub(super) async fn book(shared: &Shared, bookings: &mut [Booking]) {
    for _ in 0..ATTEMPTS {
        let mut open: Vec<&mut Booking> =
            bookings.iter_mut().filter(|booking| booking.outcome.is_none()).collect();
        for some in open.chunks_mut(AT_A_TIME) {
            let sent = shared.now();
            let asks = some.iter().map(|booking| booking.ask());
            let asks: Vec<BoxFuture<'_, Result<Leased, Error>>> = asks.collect();
            let answers = batched(asks).await;
            for (booking, answer) in some.iter_mut().zip(answers) {
                booking.learn(shared, answer, sent);
            }
        }
    }
}

impl Booking {
    fn ask(&self) -> BoxFuture<'_, Result<Leased, Error>> {
        let carried = self.held.as_ref().map(Assignment::carried);
        let held_share = self.held.as_ref().map_or(0, |held| held.share);
        let (share, least, carried) = match self.plan {
            Plan::Nothing => return Box::pin(std::future::ready(Ok(Leased::Nothing))),
            Plan::CarryOn => (held_share, held_share, carried),
            Plan::Change { share, least } => (share, least, carried),
            Plan::New { share, least } | Plan::Floor { share, least } => (share, least, None),
        };
        let most = if matches!(self.plan, Plan::Floor { .. }) { Pace::MOST } else { FILLED };
        let want = if self.plan == Plan::CarryOn { 0 } else { self.units(share) };
        let share = share.clamp(1, Pace::MOST);
        let pace = Pace { share, least: least.min(share), most, carried };
        let tag = fastrand::u64(..=MAX_EXACT);
        Box::pin(async move {
            let leasing = Leasing { want, width: WIDTH, tag, reports: &[], pace: Some(pace) };
            self.counted.lease(&leasing).await
        })
    }

    fn units(&self, share: u64) -> u64 {
        self.numbers.units_of(self.numbers.max_tokens(share))
    }

    /// Learns the answer to a request that was sent at an instant.
    fn learn(&mut self, shared: &Shared, answer: Result<Leased, Error>, sent: u64) {
        let lease = match answer {
            Ok(Leased::Granted(lease)) => lease,
            Ok(_) => return self.second_best(shared, sent),
            Err(error) => {
                shared.counts.failed();
                tracing::debug!(limit = self.counted.limit().name().as_str(), %error, "no share is booked");
                return self.outcome = Some(Booked::Failed);
            }
        };
        let new =
            |share| Assignment::new(self.numbers, self.numbers.max_tokens(share), lease, sent);
        let booked = match (self.plan, &self.held) {
            (Plan::CarryOn, Some(held)) => held.carried_on(lease, sent).map(Booked::CarriedOn),
            (Plan::Change { share, .. }, _) => new(share).map(Booked::Changed),
            (Plan::New { share, .. } | Plan::Floor { share, .. }, _) => new(share).map(Booked::New),
            _ => None,
        };
        self.outcome = Some(booked.unwrap_or(Booked::Nothing));
    }

    /// Plans the next request when the store has granted nothing.
    fn second_best(&mut self, shared: &Shared, now: u64) {
        let least = self.numbers.least();
        self.plan = match (self.plan, &self.held) {
            (Plan::Change { .. }, Some(held))
                if held.numbers == self.numbers && held.outlasts_a_message(now) =>
            {
                Plan::CarryOn
            }
            (Plan::Change { share, .. }, _) => Plan::New { share, least },
            // The store doesn't know the booking any more.
            (Plan::CarryOn, Some(held)) => Plan::New { share: held.share, least },
            (Plan::New { least: asked, .. }, _) if asked == least => {
                let share = KEPT_FOR_EACH.max(least);
                Plan::Floor { share, least }
            }
            _ => {
                if self.plan != Plan::Nothing {
                    shared.counts.refused();
                }
                self.outcome = Some(Booked::Nothing);
                return;
            }
        };
    }
}
