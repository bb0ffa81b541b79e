//! Planted faults, which the tests of a fleet must find.

use std::future::{Future, Ready};

use sluicegate_conformance::schedules::each;
use sluicegate_core::for_stores::{DecisionForStores as _, Lease, Leasing, Pace};
use sluicegate_core::{
    Answer, BoxFuture, Decision, Error, Limit, OpenOptions, OpenedLimit, Request, Span, Store,
    StoreError, StoreId,
};

use crate::simulation::{Fleet, Terms};
use crate::utilisation::{FLEET, after_moves};

/// A mistake in the bookings.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    /// Shares are granted but not booked.
    NeverBooked,
    /// The burst of a share isn't charged to the limit.
    BurstBeside,
    /// A share that is carried on is booked again.
    BookedTwice,
    /// A replica that crashes takes its bookings with it.
    Forgotten,
}

/// A store with a fault.
pub(crate) struct Faulty<S> {
    pub(crate) store: S,
    pub(crate) fault: Option<Fault>,
}

/// A limit of a store with a fault.
pub(crate) struct FaultyLimit<L> {
    opened: L,
    fault: Option<Fault>,
}

impl<S: Store> Store for Faulty<S> {
    type Opened = FaultyLimit<S::Opened>;

    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.store)
    }

    fn id(&self) -> StoreId {
        self.store.id()
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> Self::Opened {
        FaultyLimit { opened: self.store.open(limit, options), fault: self.fault }
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.store.ping()
    }
}

impl<L: OpenedLimit> OpenedLimit for FaultyLimit<L> {
    fn inner(&self) -> Option<&dyn OpenedLimit> {
        Some(&self.opened)
    }

    fn limit(&self) -> &Limit {
        self.opened.limit()
    }

    fn ask<'a>(
        &'a self,
        request: Request<'a>,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
        Answer::<Ready<_>>::Now(self.decide(request))
    }
}

impl<L: OpenedLimit> FaultyLimit<L> {
    fn decide(&self, request: Request<'_>) -> Result<Decision, Error> {
        let ask =
            |request: Request<'_>| self.opened.ask_now(request).expect("it answers immediately");
        let leasing = request.leases().copied();
        let Some((leasing, pace)) = leasing.and_then(|it| Some((it, it.pace?))) else {
            return ask(request);
        };
        let want = leasing.want;
        match self.fault {
            Some(Fault::NeverBooked) => {
                let left = Span::from_millis(9_000).unwrap();
                let lease = Lease { times: want, share: pace.share, slot: leasing.tag, left };
                Ok(ask(request.without_leasing())?.with_lease(lease))
            }
            Some(Fault::BurstBeside) if want > 1 => {
                let less = Leasing { want: 1, ..leasing };
                let decision = ask(request.leasing(&less))?;
                Ok(match decision.lease() {
                    Some(lease) => decision.with_lease(Lease { times: want, ..lease }),
                    None => decision,
                })
            }
            Some(Fault::BookedTwice) if pace.carried.is_some() => {
                let pace = Some(Pace { carried: None, ..pace });
                let again = Leasing { want: want.max(1), pace, ..leasing };
                ask(request.leasing(&again))
            }
            _ => ask(request),
        }
    }
}

/// Tests that the auditor finds each fault that gives units away.
#[test]
fn faults_that_give_units_away_are_found() {
    for fault in [Fault::NeverBooked, Fault::BurstBeside, Fault::Forgotten] {
        let terms = Terms {
            rate: 3_000,
            burst: 3_000,
            proxies: 5,
            moves: 3,
            others: 3_000,
            cuts: 100,
            crashes: 100,
            demand: 500,
            fault: Some(fault),
            ..FLEET
        };
        let mut found = 0;
        each("faults of a fleet", 20, |seed| {
            let mut fleet = Fleet::new(terms, seed);
            fleet.run(60);
            found += u64::from(fleet.auditor.over > 0);
        });
        assert!(found > 0, "{fault:?} is not found");
    }
}

/// Tests that the fleet can't use its limit if shares are booked twice.
#[test]
fn shares_that_are_booked_twice_are_found() {
    let parts = after_moves(Terms { fault: Some(Fault::BookedTwice), ..FLEET }, 1);
    assert!(parts.iter().all(|part| *part < 800), "{parts:?}");
}
