//! Stores with one fault each, which the suite must detect.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::future::{Future, Pending};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sluicegate_conformance::kernels::{MapLimit, MapStore};
use sluicegate_conformance::suite;
use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::{
    Answer, BoxFuture, Decision, Error, Holder, Limit, Listing, OpenOptions, OpenedLimit,
    Operation, Page, Receipt, Request, Store, StoreError, StoreId, TimeSource,
};

/// The fault of a store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fault {
    None,
    /// Every 7th charge is answered but not written.
    LosesEverySeventhWrite,
    /// Every 50th denial is answered with an allow.
    AllowsEveryFiftiethDenial,
    /// All parts of a limit use the subject of the first.
    ForgetsTheOtherSubjects,
    /// A cancellation reports that it gave units back, but doesn't.
    GivesNothingBack,
    /// A cancellation succeeds even if later requests rely on the reservation.
    GivesBackAnyPlace,
    /// A list has no entries after the first page.
    ListsOnePage,
    /// Reading the slices charges a check.
    ChargesForReading,
    /// A limit with new numbers starts with empty states.
    ForgetsWhenNumbersChange,
    /// All runs of injected time share their states.
    MixesRuns,
    /// Keys that differ only in case share their states.
    FoldsCase,
    /// A refused operation charges a check first.
    ChargesBeforeItRefuses,
    /// A request's time is at least the newest time of any request.
    TakesTheTimeOfOthers,
    /// A check reads and writes without a lock in between.
    LosesUpdates,
}

#[derive(Clone, Debug)]
struct Faulty {
    store: MapStore,
    fault: Fault,
    counter: Arc<AtomicU64>,
    newest: Arc<AtomicU64>,
}

struct FaultyLimit {
    opened: MapLimit,
    faulty: Faulty,
}

impl Faulty {
    fn new(fault: Fault) -> Self {
        Self { store: MapStore::default(), fault, counter: Arc::default(), newest: Arc::default() }
    }

    /// Returns `true` once in `times` calls.
    fn is_due(&self, times: u64) -> bool {
        self.counter.fetch_add(1, Ordering::Relaxed) % times == times - 1
    }
}

impl Store for Faulty {
    type Opened = FaultyLimit;

    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.store)
    }

    fn id(&self) -> StoreId {
        self.store.id()
    }

    fn open(&self, limit: Limit, mut options: OpenOptions) -> FaultyLimit {
        match (&mut options.time, self.fault) {
            (TimeSource::Injected { run }, Fault::MixesRuns) => *run = "run".to_owned(),
            (TimeSource::Injected { run }, Fault::ForgetsWhenNumbersChange) => {
                *run += &format!("{:?}", limit.members());
            }
            _ => {}
        }
        FaultyLimit { opened: self.store.open(limit, options), faulty: self.clone() }
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.store.ping()
    }
}

impl FaultyLimit {
    fn really(&self, request: Request<'_>) -> Result<Decision, Error> {
        self.opened.ask(request).now().unwrap()
    }

    fn decide(&self, request: Request<'_>) -> Result<Decision, Error> {
        let is_charged = matches!(
            request.operation(),
            Operation::Check | Operation::Charge | Operation::Reserve { .. }
        );
        match (self.faulty.fault, request.operation()) {
            (Fault::LosesEverySeventhWrite, _) if is_charged && self.faulty.is_due(7) => {
                self.really(request.as_peek())
            }
            (Fault::AllowsEveryFiftiethDenial, _) => {
                let decision = self.really(request)?;
                if decision.is_denied() && self.faulty.is_due(50) {
                    return Ok(Decision::cancelled(self.opened.limit(), true));
                }
                Ok(decision)
            }
            (Fault::ForgetsTheOtherSubjects, _) => {
                let also = vec![request.key(); request.further_subjects().len()];
                self.really(request.also(&also))
            }
            (Fault::GivesNothingBack, Operation::Cancel(receipt)) => {
                request.validate(self.opened.limit())?;
                Ok(Decision::cancelled(self.opened.limit(), !receipt.is_empty()))
            }
            (Fault::GivesBackAnyPlace, Operation::Cancel(receipt)) => {
                self.give_back(receipt, request)
            }
            (Fault::ChargesForReading, Operation::Slices) => {
                let decision = self.really(request)?;
                let check = Request::check(request.key()).at(request.time());
                self.really(check).map(|_| decision)
            }
            (Fault::FoldsCase, operation) => {
                let key = request.key().to_ascii_lowercase();
                let folded = Request::new(operation, &key).also(request.further_subjects());
                self.really(folded.costs(request.cost()).at(request.time()))
            }
            (Fault::ChargesBeforeItRefuses, _) => {
                let refused = request.validate(self.opened.limit());
                if refused.is_err() && request.further_subjects().is_empty() {
                    let _ = self.really(Request::check(request.key()).at(request.time()))?;
                }
                self.really(request)
            }
            (Fault::TakesTheTimeOfOthers, _) => match request.time() {
                None => self.really(request),
                Some(at) => {
                    let newest = &self.faulty.newest;
                    let newest = newest.fetch_max(at.as_micros(), Ordering::Relaxed);
                    let at = at.max(sluicegate_core::Timestamp::from_micros(newest).unwrap());
                    self.really(request.at(at))
                }
            },
            (Fault::LosesUpdates, Operation::Check) => {
                let seen = self.really(request.as_peek())?;
                // Other threads that run now see the same state.
                std::thread::yield_now();
                if seen.is_denied() {
                    return Ok(seen);
                }
                let charge = Request::new(Operation::Charge, request.key());
                let charge = charge.also(request.further_subjects()).costs(request.cost());
                self.really(charge.at(request.time()))
            }
            _ => self.really(request),
        }
    }

    fn give_back(&self, receipt: &Receipt, cancel: Request<'_>) -> Result<Decision, Error> {
        let decision = self.really(cancel)?;
        if decision.is_denied() && !receipt.is_empty() && cancel.time().is_some() {
            return Ok(Decision::cancelled(self.opened.limit(), true));
        }
        Ok(decision)
    }
}

impl OpenedLimit for FaultyLimit {
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
        Answer::<Pending<_>>::Now(self.decide(request))
    }

    fn holders<'a>(
        &'a self,
        key: &'a [u8],
        page: Page<'a>,
    ) -> BoxFuture<'a, Result<Listing<Holder>, Error>> {
        Box::pin(async move {
            let listed = self.opened.holders(key, page).await?;
            Ok(match self.faulty.fault {
                Fault::ListsOnePage => {
                    Listing::new(listed.entries().to_vec(), None).with_waiting(listed.waiting())
                }
                _ => listed,
            })
        })
    }
}

/// Checks that the suite rejects a store with a fault and accepts one without it.
fn assert_found(check: &impl AsyncFn(&Faulty), fault: Fault) {
    let passes = |fault| {
        let store = Faulty::new(fault);
        catch_unwind(AssertUnwindSafe(|| suite::block_on(check(&store)))).is_ok()
    };
    assert!(passes(Fault::None), "the check fails without {fault:?} too");
    assert!(!passes(fault), "{fault:?} was not found");
}

#[test]
fn a_lost_write_is_found_by_cases_and_schedules() {
    let fault = Fault::LosesEverySeventhWrite;
    assert_found(&async |store| suite::the_case_file_passes(store).await, fault);
    assert_found(&async |store| suite::schedules_answer_like_the_model(store).await, fault);
    assert_found(&async |store| suite::every_kind_alone_answers_like_the_model(store).await, fault);
    assert_found(&async |store| suite::who_comes_at_once_is_admitted_exactly(store).await, fault);
}

#[test]
fn a_list_that_ends_too_early_is_found_by_schedules() {
    let fault = Fault::ListsOnePage;
    assert_found(&async |store| suite::holds_answer_like_the_model(store).await, fault);
    assert_found(&async |store| suite::queues_answer_like_the_model(store).await, fault);
}

#[test]
fn an_answer_that_should_have_been_a_denial_is_found_by_schedules() {
    let fault = Fault::AllowsEveryFiftiethDenial;
    assert_found(&async |store| suite::schedules_answer_like_the_model(store).await, fault);
    assert_found(&async |store| suite::many_limits_answer_like_the_kernels(store).await, fault);
}

#[test]
fn subjects_that_are_forgotten_are_found_where_limits_are_together() {
    let fault = Fault::ForgetsTheOtherSubjects;
    assert_found(&async |store| suite::many_limits_answer_like_the_kernels(store).await, fault);
    assert_found(
        &async |store| suite::parts_share_their_states_with_the_limits_they_are(store).await,
        fault,
    );
}

#[test]
fn units_that_are_not_given_back_are_found() {
    let fault = Fault::GivesNothingBack;
    assert_found(&async |store| suite::only_the_last_in_line_is_given_back(store).await, fault);
    assert_found(&async |store| suite::receipts_are_plain_values(store).await, fault);
}

#[test]
fn units_that_are_given_back_out_of_turn_are_found() {
    let fault = Fault::GivesBackAnyPlace;
    assert_found(&async |store| suite::only_the_last_in_line_is_given_back(store).await, fault);
}

#[test]
fn a_charge_for_reading_slices_is_found() {
    let check = async |store: &Faulty| suite::slices_are_read_and_nothing_is_charged(store).await;
    assert_found(&check, Fault::ChargesForReading);
}

#[test]
fn states_that_are_lost_with_their_numbers_are_found() {
    let fault = Fault::ForgetsWhenNumbersChange;
    assert_found(&async |store| suite::schedules_answer_like_the_model(store).await, fault);
    assert_found(&async |store| suite::what_is_opened_twice_shares_its_states(store).await, fault);
}

#[test]
fn states_that_are_mixed_up_are_found() {
    assert_found(&async |store| suite::runs_are_apart(store).await, Fault::MixesRuns);
    assert_found(&async |store| suite::keys_and_limits_are_apart(store).await, Fault::FoldsCase);
}

#[test]
fn a_refusal_that_charges_is_found() {
    let check = async |store: &Faulty| suite::refused_requests_change_nothing(store).await;
    assert_found(&check, Fault::ChargesBeforeItRefuses);
}

#[test]
fn a_key_that_is_judged_by_the_time_of_another_is_found() {
    let check = async |store: &Faulty| suite::schedules_answer_like_the_model(store).await;
    assert_found(&check, Fault::TakesTheTimeOfOthers);
}

#[test]
fn lost_updates_are_found_where_many_come_at_once() {
    let check = async |store: &Faulty| suite::who_comes_at_once_is_admitted_exactly(store).await;
    assert_found(&check, Fault::LosesUpdates);
}
