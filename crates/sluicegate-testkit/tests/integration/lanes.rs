//! Tests that the script's fast paths answer like its general path.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use sluicegate_conformance::reference::Clock;
use sluicegate_conformance::schedules::{Dice, each};
use sluicegate_core::{
    Costs, Decision, Error, Hold, HoldId, Idempotency, Operation, Request, RequestErrorKind,
    RequestId, Span,
};

use crate::scripted::{MAX_CLOCK_BACK, Scripted};

const START: u64 = 1_699_920_000_000_000;
const CLOCK: Clock = Clock::Own { max_clock_back_us: MAX_CLOCK_BACK };
const SUBJECT: &[u8] = b"alice";
const KEY: &[u8] = b"sg:test:{alice}";

fn scripted(policy: &str) -> Scripted {
    Scripted::new(vec![policy.parse().unwrap()], CLOCK)
}

/// A random request.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Check(u64),
    Refund(u64),
    Once(u64, Span),
    Hold(u64, Span),
    Settle(u64, Option<u64>),
    Renew(u64, Span),
    Reset,
}

impl Ask {
    /// Returns a random request with few ids and durations: with request ids only, holds only, or
    /// both.
    fn random(dice: &mut Dice, of: u64) -> Self {
        let number = dice.below(10);
        let lasts = [1_000_000, 60_000_000, 60_000_000, 60_000_000, 3_600_000_000];
        let lasts = Span::from_micros(dice.pick(&lasts)).unwrap();
        match dice.below(40) {
            0..6 => Self::Check(dice.below(6)),
            6 | 7 => Self::Refund(dice.below(6)),
            8 => Self::Reset,
            9..40 if of == 0 || of == 2 && dice.one_in(3) => Self::Once(number, lasts),
            9..21 => Self::Hold(number, lasts),
            21..24 => Self::Renew(number, lasts),
            _ => {
                let used = dice.below(number + 2);
                Self::Settle(number, dice.pick(&[None, Some(0), Some(used)]))
            }
        }
    }

    fn of(self, scripted: &mut Scripted, now: u64) -> Result<Decision, Option<RequestErrorKind>> {
        let id = |number: u64| HoldId::from_bytes((u128::from(number) << 64 | 7).to_be_bytes());
        let told = match self {
            Self::Check(cost) => {
                scripted.ask(now, &Request::check(SUBJECT).costs(Costs::Each(&[cost])))
            }
            Self::Refund(cost) => {
                let refund = Request::new(Operation::Refund, SUBJECT);
                scripted.ask(now, &refund.costs(Costs::Each(&[cost])))
            }
            Self::Once(number, lasts) => {
                let id = RequestId::of(number.to_be_bytes()).unwrap();
                let costs = [1 + number % 3];
                let request = Request::check(SUBJECT).costs(Costs::Each(&costs));
                scripted.ask(now, &request.idempotent(Idempotency { id, lasts: lasts.into() }))
            }
            Self::Hold(number, lasts) => {
                let hold = Hold { id: id(number), lasts: lasts.into() };
                let costs = [1 + number];
                let request = Request::check(SUBJECT).costs(Costs::Each(&costs));
                scripted.ask(now, &request.hold(&hold))
            }
            Self::Settle(number, Some(used)) => {
                scripted.ask(now, &Request::settle(SUBJECT, id(number), &[Some(used)]))
            }
            Self::Settle(number, None) => {
                scripted.ask(now, &Request::settle(SUBJECT, id(number), &[]))
            }
            Self::Renew(number, lasts) => {
                scripted.ask(now, &Request::renew(SUBJECT, id(number), lasts))
            }
            Self::Reset => scripted.ask(now, &Request::new(Operation::Reset, SUBJECT)),
        };
        told.map_err(|error| match error {
            Error::Request(error) => Some(error.kind()),
            _ => None,
        })
    }
}

/// Tests every path, with data that any of the paths has written.
#[test]
fn every_way_decides_alike() {
    let (mut held, mut settled, mut repeated) = (0, 0, 0);
    each("ways of the script", 200, |seed| {
        let mut dice = Dice::new(seed);
        let policy =
            dice.pick(&["100/s burst 40", "3/7ms burst 90", "1/s burst 200", "0/s burst 500"]);
        let policy = format!("token_bucket {policy} as b");
        let (mut short, mut general, mut either) =
            (scripted(&policy), scripted(&policy), scripted(&policy));
        general.is_general = true;
        let (mut now, of) = (START, dice.below(3));
        for _ in 0..80 {
            now += dice.pick(&[0, 0, 1, 900, 40_000, 700_000, 1_000_000, 20_000_000]);
            let ask = Ask::random(&mut dice, of);
            either.is_general = dice.one_in(2);
            let told = ask.of(&mut general, now);
            // A key can last longer because of its content.
            let is_same = |other: &Result<Decision, _>| match ask {
                Ask::Reset => other.is_ok() && told.is_ok(),
                _ => *other == told,
            };
            for scripted in [&mut short, &mut either] {
                let other = ask.of(scripted, now);
                assert!(is_same(&other), "{ask:?} at {now}: {other:#?} instead of {told:#?}");
            }
            let Ok(told) = told else { continue };
            held += u64::from(told.hold().is_some());
            settled += u64::from(
                matches!(ask, Ask::Settle(..))
                    && told.policies().any(|it| it.given_back() > Some(0)),
            );
            repeated += u64::from(told.is_repeat());
        }
    });
    assert!(held > 1_500 && settled > 100 && repeated > 600, "{held}, {settled}, {repeated}");
}

/// Tests foreign bytes: a fast path treats them like the general path, or leaves them to it.
#[test]
fn nonsense_that_is_stored_makes_no_way_fail() {
    each("nonsense that is stored", 60, |seed| {
        let mut dice = Dice::new(seed);
        let mut scripted = scripted("token_bucket 2/s burst 1000 as b");
        scripted.expires = false;
        let (mut now, holds) = (START, dice.one_in(2));
        for number in 0..dice.between(2, 14) {
            now += dice.below(100_000);
            scripted.is_general = dice.one_in(6);
            let ask = match dice.below(3) {
                0 if holds => Ask::Settle(dice.below(number + 1), Some(1)),
                _ if holds => Ask::Hold(number, Span::MINUTE),
                _ => Ask::Once(number, Span::MINUTE),
            };
            let _ = ask.of(&mut scripted, now);
        }
        scripted.is_general = false;
        let sound = scripted.stored();
        for _ in 0..100 {
            let mut stored = sound.clone();
            let value = &mut stored.get_mut(KEY).unwrap().value;
            let place = dice.below_len(value.len());
            match dice.below(3) {
                0 => value.truncate(place),
                1 => value[place] = dice.pick(&[0, 1, 2, 3, 255, 0x20, 0x84, 0x86, 0x88, 0x89]),
                _ => drop(value.drain(place..place + dice.below_len(value.len() - place))),
            }
            scripted.store(stored);
            let ask = Ask::random(&mut dice, 2);
            // A failed script isn't an error of a request.
            if let Err(error) = ask.of(&mut scripted, now + 5) {
                assert!(error.is_some(), "{ask:?}");
            }
        }
    });
}

/// Tests a state that is followed only by a long list of record counts.
#[test]
fn what_counts_records_is_taken_for_none() {
    for shift in 0..400 {
        let mut scripted = scripted("token_bucket 1/h burst 1000000");
        let start = START + shift * 11_000_000;
        let span = |micros| Span::from_micros(micros).unwrap();
        for number in 0..8 {
            let _ = Ask::Hold(number, span(1_000)).of(&mut scripted, start).unwrap();
        }
        for number in 8..20 {
            let _ = Ask::Hold(number, span(2_000_000 << (number - 8)))
                .of(&mut scripted, start)
                .unwrap();
        }
        // On the general path, which removes expired records.
        let _ = Ask::Settle(0, None).of(&mut scripted, start + 2_000).unwrap();
        let _ = Ask::Hold(20, span(2_000_000)).of(&mut scripted, start + 3_000).unwrap();
        let told = Ask::Settle(19, None).of(&mut scripted, start + 4_000).unwrap();
        assert_eq!(told.hold_found(), Some(sluicegate_core::HoldFound::Live), "{shift}");
    }
}
