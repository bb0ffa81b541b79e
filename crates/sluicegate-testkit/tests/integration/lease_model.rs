//! A model of the lease protocol (`docs/leases.md`), small enough for a search of everything that
//! can happen. Requests and replies are lost or late, holders crash, and clocks are wrong.
//!
//! The model shares no code with the library: it checks the rules, not their implementation. The
//! rules are in [`server`] and [`holder`]; [`world`] makes things happen; [`bounds`] says what must
//! hold in every state that [`search`] reaches. Each [`Defect`] is a mistake that the search must
//! find; otherwise it proves nothing.
//!
//! Writes that a server loses are not part of the model. The document describes their effect.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "the helpers of tests may do what tests may"
)]

mod bounds;
mod holder;
mod ideal;
mod marks;
mod model;
mod search;
mod server;
mod world;

use bounds::Broken;
use marks::{Mark, Marks};
use model::{Defect, Model};
use search::{Found, search};

/// Events that occur in every useful search.
const USUAL: [Mark; 12] = [
    Mark::Admitted,
    Mark::Spent,
    Mark::Granted,
    Mark::SharedGrant,
    Mark::NoCapacity,
    Mark::SpentCounted,
    Mark::ReturnCounted,
    Mark::ReportIgnored,
    Mark::Received,
    Mark::OverBeforeReply,
    Mark::Lost,
    Mark::Crashed,
];

/// Checks that all bounds hold in every state, and that the usual events and these ones occur.
fn holds(model: &Model, besides: &[Mark]) -> Found {
    let found = search(model, bounds::all);
    println!("{} states", found.states);
    if let Some(counterexample) = &found.counterexample {
        panic!("{counterexample}");
    }
    for mark in USUAL.iter().chain(besides) {
        assert!(found.marks.has(*mark), "never {}", Marks::of(*mark));
    }
    found
}

/// Checks that the search finds more spent units than any bucket permits.
fn is_refuted(model: &Model) {
    let found = search(model, bounds::bound);
    let counterexample = found.counterexample.expect("it is a defect");
    println!("{:?}, after {} states\n{counterexample}", model.defect, found.states);
    assert_eq!(counterexample.broken, Broken::Bound);
}

const ALIKE: Model = Model { clocks: &[0, 0], ..Model::RACE };
const ALONE: Model = Model { clocks: &[1], ..Model::RACE };
const STANDING: Model = Model { server_step: -4, max_clock_back: 4, ..Model::RESTAMP };

#[test]
fn two_holders_never_spend_more_than_the_bound() {
    holds(&ALIKE, &[]);
}

#[test]
fn refunds_and_resets_give_back_nothing_that_is_outstanding() {
    holds(&Model { refunds: true, horizon: 3, ..ALIKE }, &[Mark::Refunded, Mark::Reset]);
}

#[test]
fn clocks_of_holders_may_be_wrong_by_anything() {
    holds(&Model { most: 1, horizon: 5, ..Model::RACE }, &[]);
}

#[test]
fn who_finds_no_free_slot_gets_no_lease() {
    holds(&Model { slots: 1, ..ALIKE }, &[Mark::NoSlot]);
}

#[test]
fn two_calls_of_one_holder_may_overtake_each_other() {
    holds(&Model { calls: 2, ..ALONE }, &[]);
}

#[test]
fn a_unit_may_drain_in_parts() {
    holds(&Model { price: 3, refill: 2, horizon: 5, ..ALIKE }, &[]);
}

#[test]
fn clocks_may_show_whole_units_of_time() {
    holds(&Model::COARSE, &[]);
}

#[test]
fn a_clock_that_steps_back_gives_nothing_away() {
    holds(&STANDING, &[Mark::Stepped, Mark::Vanished]);
    let restamped = Model { horizon: 5, ..Model::RESTAMP };
    holds(&restamped, &[Mark::Stepped, Mark::Restamped]);
}

#[test]
fn a_clock_that_steps_forward_lets_through_what_drains_in_the_step_and_no_lease_besides() {
    let most_over = |model: Model| holds(&model, &[Mark::Stepped]).most_over;
    let steps = [1, 2, 6].map(|server_step| most_over(Model { server_step, ..ALONE }));
    assert_eq!(steps, [1, 2, 4]);
    let both = Model { spans: &[1], most: 1, server_step: 2, ..ALIKE };
    assert_eq!(most_over(both), 2);
}

#[test]
fn a_pause_that_the_clock_does_not_count_lets_through_the_units_held_then() {
    // At most the amount that drains in the pause, and at most the two units, of two ticks each.
    let most_over =
        |pause| holds(&Model { pause, horizon: 7, ..ALONE }, &[Mark::SpentTooLate]).most_over;
    assert_eq!([2, 6].map(most_over), [1, 4]);
    let both = Model { pause: 2, most: 1, spans: &[1], horizon: 5, ..ALIKE };
    assert!(holds(&both, &[Mark::SpentTooLate]).most_over > 0);
}

#[test]
fn crediting_at_expiry_is_refuted() {
    is_refuted(&Model::RACE.with(Defect::CreditAtExpiry));
}

#[test]
fn draining_below_what_is_outstanding_is_refuted() {
    is_refuted(&Model::RACE.with(Defect::DrainBelowOutstanding));
}

#[test]
fn draining_across_an_expiry_in_one_piece_is_refuted() {
    is_refuted(&Model::RACE.with(Defect::DrainInOnePiece));
}

#[test]
fn a_return_after_its_slot_is_refuted() {
    is_refuted(&Model::RACE.with(Defect::ReturnAfterExpiry));
}

#[test]
fn reports_that_meet_the_next_slot_are_refuted() {
    is_refuted(&Model::RACE.with(Defect::SlotNamedByPlace));
}

#[test]
fn a_lease_that_counts_from_the_reply_is_refuted() {
    is_refuted(&Model::RACE.with(Defect::ClockFromReply));
}

#[test]
fn a_lease_by_the_clock_of_the_server_is_refuted() {
    is_refuted(&Model::RACE.with(Defect::ClockOfServer));
}

#[test]
fn a_lease_that_is_one_unit_of_time_too_long_is_refuted() {
    is_refuted(&Model::COARSE.with(Defect::OneTooLong));
}

#[test]
fn a_report_that_is_sent_again_is_refuted() {
    is_refuted(&Model::RACE.with(Defect::ReportSentAgain));
}

#[test]
fn units_that_are_destroyed_at_the_reply_are_refuted() {
    is_refuted(&Model::RACE.with(Defect::DestroyedAtReply));
}

#[test]
fn a_report_that_counts_in_the_past_is_refuted() {
    is_refuted(&Model::RACE.with(Defect::ReportInThePast));
}

#[test]
fn names_of_slots_that_come_again_are_refuted() {
    is_refuted(&Model::RESTAMP.with(Defect::NamesRecur));
    // Also without a restamp: the key was fresh and is gone when the clock steps back.
    is_refuted(&STANDING.with(Defect::NamesRecur));
}

#[test]
fn a_restamp_that_ends_a_slot_before_its_leases_is_refuted() {
    let early = Model::RESTAMP.with(Defect::RestampRoundsDown);
    is_refuted(&Model { refunds: true, horizon: 4, ..early });
}

#[test]
fn a_slot_that_never_expires_is_refuted() {
    let found = search(&Model::RACE.with(Defect::NeverExpires), bounds::all);
    let counterexample = found.counterexample.expect("it is a defect");
    println!("{counterexample}");
    assert_eq!(counterexample.broken, Broken::Recovery);
}

#[test]
#[ignore = "minutes and gigabytes: `cargo xtask soak models`"]
fn a_larger_model_holds() {
    let larger = [
        Model { refunds: true, horizon: 8, ..ALIKE },
        Model { refunds: true, horizon: 7, ..Model::RESTAMP },
        Model { capacity: 3, most: 1, ..ALIKE },
        Model { most: 1, calls: 2, horizon: 5, ..ALIKE },
        Model { capacity: 3, most: 2, calls: 2, horizon: 7, ..ALONE },
    ];
    for model in larger {
        holds(&model, &[]);
    }
}
