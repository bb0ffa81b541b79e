//! The checks that every store must pass, as one test each: see [`suite!`](crate::suite!).
//!
//! Each check is also a function, for a store that only exists inside a test. Checks leave keys
//! behind, under unique names.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a check fails by panicking: it is the body of a test"
)]

mod apart;
mod case_file;
mod crowds;
mod guarded;
mod line;
mod race;
mod receipts;
mod refusals;
mod schedules;
mod slices;
mod step;
mod together;

pub use apart::{
    keys_and_limits_are_apart, runs_are_apart, what_is_opened_twice_shares_its_states,
};
pub use case_file::the_case_file_passes;
pub use crowds::{
    dead_waiters_make_room_for_whoever_is_denied, the_dead_make_room_for_whoever_is_denied,
};
pub use guarded::Guarded;
pub use line::only_the_last_in_line_is_given_back;
pub use race::who_comes_at_once_is_admitted_exactly;
pub use receipts::{receipts_are_plain_values, receipts_know_nothing_of_what_is_held};
pub use refusals::refused_requests_change_nothing;
pub use schedules::{
    bans_answer_like_the_model, changes_of_zone_answer_like_the_model,
    every_kind_alone_answers_like_the_model, holds_answer_like_the_model,
    leases_answer_like_the_model, pauses_answer_like_the_model, queues_answer_like_the_model,
    schedules_answer_like_the_model, schedules_by_the_stores_clock_answer_like_the_model,
    shares_are_leased_like_the_model, turns_are_handed_on_like_the_model,
    what_is_not_leased_is_answered_like_the_model, what_nobody_settles_is_returned_like_the_model,
};
pub use slices::slices_are_read_and_nothing_is_charged;
pub use together::{
    many_limits_answer_like_the_kernels, many_limits_in_many_places_answer_like_the_kernels,
    parts_share_their_states_with_the_limits_they_are,
};

use std::fmt;

use sluicegate_core::{
    Decision, Error, Limit, OpenOptions, OpenedLimit as _, Operation, Request, Store, StoreId,
    TimeSource, Timestamp,
};

use crate::fresh::fresh;

/// Generates a `#[test]` per check, over any store or stack of stores.
///
/// - `suite!([EXPRESSION])`: the expression makes a new store for each test. It runs inside a Tokio
///   runtime and may `.await`. If something must outlive the store, such as a server, return both
///   in a [`Guarded`].
/// - `suite!(each [EXPRESSION])`: the expression returns several stores, all of which must pass.
/// - `suite!(leases [EXPRESSION])`, `suite!(leases each [EXPRESSION])`: the stores take units ahead
///   for lease holders. All other stores must ignore lease requests.
///
/// A store that answers immediately runs 300 schedules of each kind, a store that must be awaited
/// 40.
///
/// ```
/// mod map_store {
///     use sluicegate_conformance::kernels::MapStore;
///
///     sluicegate_conformance::suite!(leases [MapStore::default()]);
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! suite {
    ([$store:expr]) => {
        $crate::suite!(each [[$store]]);
    };
    (each [$stores:expr]) => {
        $crate::suite!(@all [$stores] what_is_not_leased_is_answered_like_the_model);
    };
    (leases [$store:expr]) => {
        $crate::suite!(leases each [[$store]]);
    };
    (leases each [$stores:expr]) => {
        $crate::suite!(@all [$stores] leases_answer_like_the_model);
    };
    (@all [$stores:expr] $leases:ident) => {
        $crate::suite!(@tests [$stores]
            $leases
            the_case_file_passes
            schedules_answer_like_the_model
            every_kind_alone_answers_like_the_model
            changes_of_zone_answer_like_the_model
            bans_answer_like_the_model
            pauses_answer_like_the_model
            holds_answer_like_the_model
            queues_answer_like_the_model
            what_nobody_settles_is_returned_like_the_model
            turns_are_handed_on_like_the_model
            the_dead_make_room_for_whoever_is_denied
            dead_waiters_make_room_for_whoever_is_denied
            many_limits_answer_like_the_kernels
            parts_share_their_states_with_the_limits_they_are
            only_the_last_in_line_is_given_back
            receipts_are_plain_values
            receipts_know_nothing_of_what_is_held
            slices_are_read_and_nothing_is_charged
            refused_requests_change_nothing
            keys_and_limits_are_apart
            runs_are_apart
            what_is_opened_twice_shares_its_states
            who_comes_at_once_is_admitted_exactly
        );
    };
    (@tests [$stores:expr] $($check:ident)*) => {
        $(
            #[test]
            fn $check() {
                $crate::suite::block_on(async {
                    let mut tried = 0;
                    for store in $stores {
                        let _shown = $crate::suite::ShownOnPanic::of(&store);
                        $crate::suite::$check(&store).await;
                        tried += 1;
                    }
                    assert!(tried > 0, "there is no store to try");
                });
            }
        )*
    };
}

/// Runs a check to its end on its own Tokio runtime.
pub fn block_on<F: Future>(check: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(check)
}

/// A guard that prints the store's name if a check fails.
#[derive(Debug)]
pub struct ShownOnPanic(StoreId);

impl ShownOnPanic {
    /// Creates a guard that prints the store's name if the thread panics before the guard is
    /// dropped.
    #[must_use]
    pub fn of(store: &impl Store) -> Self {
        Self(store.id())
    }
}

impl Drop for ShownOnPanic {
    #[expect(clippy::print_stderr, reason = "it is useful only where the panic is read")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the store was {}", self.0);
        }
    }
}

/// The first time in all checks: midnight.
const START: u64 = 1_699_920_000_000_000;

fn timestamp(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

/// Returns a new run of injected time.
fn fresh_run() -> TimeSource {
    TimeSource::Injected { run: fresh("suite") }
}

fn open<S: Store>(store: &S, limit: &Limit, time: &TimeSource) -> S::Opened {
    store.open(limit.clone(), OpenOptions::default().time(time.clone()))
}

fn limit(name: &str, specs: &[&str]) -> Limit {
    Limit::new(name, specs).unwrap()
}

/// Returns the number of schedules to run against a store.
fn count_for(store: &impl Store) -> u64 {
    let opened = open(store, &limit("suite", &["gcra 1/s"]), &fresh_run());
    let peek = Request::new(Operation::Peek, b"").at(timestamp(START));
    if opened.ask(peek).is_now() { 300 } else { 40 }
}

/// Fails unless two stores gave equal answers.
fn assert_same(
    got: &Result<Decision, Error>,
    expected: &Result<Decision, Error>,
    what: &dyn fmt::Debug,
) {
    let is_same = match (got, expected) {
        (Ok(got), Ok(expected)) => got == expected,
        (Err(Error::Request(got)), Err(Error::Request(expected))) => got.kind() == expected.kind(),
        _ => false,
    };
    assert!(is_same, "{got:#?}\ninstead of {expected:#?}\nto {what:?}");
}
