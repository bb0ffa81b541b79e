//! The request to the store that follows a report.

use super::fund::is_raise;
use super::{Assignment, FILLED, Fund, Numbers};

/// A holder's state when it reports.
#[derive(Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) numbers: Numbers,
    /// The assignment that this service gave it.
    pub(crate) held: Option<&'a Assignment>,
    /// The requests that it admitted since the last report, per 1,000 seconds, if it has an assignment from another stream.
    pub(crate) admits: Option<u64>,
    /// The share that its demand needs, once it is known.
    pub(crate) need: Option<u64>,
    /// Whether it reported requests.
    pub(crate) is_active: bool,
}

/// A request to the store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Plan {
    /// Nothing: the assignment runs out, or there is nothing better.
    Nothing,
    /// An equal share until a later end.
    CarryOn,
    /// Another share, with its burst. The former one stays booked until its end.
    Change { share: u64, least: u64 },
    /// A share, with its burst.
    New { share: u64, least: u64 },
    /// A small share of the part of the rate that is reserved for new holders.
    Floor { share: u64, least: u64 },
}

/// Decides about one report.
///
/// A share is changed only if it is off by more than a tenth, because each change costs its burst. If others lack more
/// than is free, a holder gives back what is above its fair share.
pub(crate) fn plan(facts: &Facts<'_>, fund: &mut Fund, now: u64) -> Plan {
    if !facts.is_active {
        return Plan::Nothing;
    }
    let least = facts.numbers.least();
    let level = fund.level(now);
    let fair = facts.need.map(|need| need.min(level).max(least));
    match facts.held {
        Some(held) if held.numbers != facts.numbers => {
            Plan::Change { share: fair.unwrap_or(held.share).max(least), least }
        }
        Some(held) if held.outlasts_a_message(now) => match fair {
            Some(fair) => adjust(held, fair, fund, now),
            None => Plan::CarryOn,
        },
        // Envoy starts the next one full.
        Some(held) => {
            let most = held.share.saturating_add(fund.free_below(FILLED, now));
            let share = fair.unwrap_or(held.share).min(most).max(least);
            if now < held.ends { Plan::Change { share, least } } else { Plan::New { share, least } }
        }
        None => begin(facts, fair, fund, now),
    }
}

/// Decides about a holder that still has its assignment.
fn adjust(held: &Assignment, fair: u64, fund: &mut Fund, now: u64) -> Plan {
    let least = held.numbers.least();
    if is_raise(held.share, fair) && fair >= held.share + least {
        let share = fair.min(held.share + fund.free_below(FILLED, now));
        let worthwhile = held.share + (held.share / 10).max((fair - held.share) / 2).max(least);
        if share >= worthwhile {
            return Plan::Change { share, least: worthwhile };
        }
        return Plan::CarryOn;
    }
    let is_much = fair + fair / 10 < held.share;
    let is_wanted = fair + fair / 100 < held.share && fund.is_short(now);
    if (is_much || is_wanted) && fair + least <= held.share {
        return Plan::Change { share: fair, least: fair };
    }
    Plan::CarryOn
}

/// Decides about a holder without an assignment of this service.
fn begin(facts: &Facts<'_>, fair: Option<u64>, fund: &mut Fund, now: u64) -> Plan {
    let free = fund.free_below(FILLED, now);
    let least = facts.numbers.least();
    match (facts.admits, fair) {
        // It has a share from another stream, which stays booked.
        (Some(admits), fair) => {
            let better = facts.numbers.need_of(admits).max(least);
            match fair.map(|fair| fair.min(free)) {
                Some(share) if share >= better => Plan::New { share, least: better },
                _ => Plan::Nothing,
            }
        }
        (None, Some(fair)) => Plan::New { share: fair.min(free).max(least), least },
        (None, None) => Plan::New { share: (free / 4).max(least), least },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_core::for_stores::Lease;
    use sluicegate_core::{Limit, Span};

    const NOW: u64 = 20_000_000;
    const SECOND: u64 = 1_000_000;

    fn numbers() -> Numbers {
        Numbers::of(&Limit::new("fleet", ["token_bucket 500/s burst 5000"]).unwrap()).unwrap()
    }

    /// Returns an assignment that was booked 5 s ago.
    fn held(share: u64) -> Assignment {
        let left = Span::from_millis(12_000).unwrap();
        Assignment::new(numbers(), 5, Lease { times: 5, share, slot: 1, left }, NOW - 5 * SECOND)
            .unwrap()
    }

    fn facts(held: Option<&Assignment>, need: Option<u64>) -> Facts<'_> {
        Facts { numbers: numbers(), held, admits: None, need, is_active: true }
    }

    /// Plans for holder 1 of a fund, next to a holder with this share and need.
    fn planned(held: Option<&Assignment>, need: Option<u64>, (share, other): (u64, u64)) -> Plan {
        let mut fund = Fund::default();
        fund.note(1, need, held.map_or(0, |held| held.share));
        fund.note(2, Some(other), share);
        plan(&facts(held, need), &mut fund, NOW)
    }

    #[test]
    fn noise_changes_nothing_and_a_tenth_does() {
        let held = held(200_000);
        for (need, expected) in [
            (None, Plan::CarryOn),
            (Some(181_900), Plan::CarryOn),
            (Some(219_000), Plan::CarryOn),
            (Some(150_000), Plan::Change { share: 150_000, least: 150_000 }),
            (Some(400_000), Plan::Change { share: 400_000, least: 300_000 }),
        ] {
            assert_eq!(planned(Some(&held), need, (0, 0)), expected, "{need:?}");
        }
    }

    #[test]
    fn a_raise_takes_only_what_is_free_and_at_least_half_of_the_gap() {
        let held = held(300_000);
        let raised = planned(Some(&held), Some(900_000), (520_000, 520_000));
        assert_eq!(raised, Plan::Change { share: 460_000, least: 395_000 });
        assert_eq!(planned(Some(&held), Some(900_000), (620_000, 520_000)), Plan::CarryOn);
    }

    #[test]
    fn a_holder_gives_what_is_above_its_fair_share_only_if_others_lack_it() {
        let held = held(500_000);
        let fair = Plan::Change { share: 490_000, least: 490_000 };
        assert_eq!(planned(Some(&held), Some(900_000), (200_000, 900_000)), fair);
        assert_eq!(planned(Some(&held), Some(900_000), (470_000, 900_000)), Plan::CarryOn);
    }

    #[test]
    fn an_assignment_that_may_be_over_is_booked_with_its_burst() {
        let mut held = held(200_000);
        held.seconds = 5;
        let again = Plan::Change { share: 200_000, least: 2_000 };
        assert_eq!(planned(Some(&held), Some(200_000), (0, 0)), again);
        held.ends = NOW;
        let again = Plan::New { share: 200_000, least: 2_000 };
        assert_eq!(planned(Some(&held), Some(200_000), (0, 0)), again);
    }

    #[test]
    fn other_numbers_replace_an_assignment() {
        let held = held(200_000);
        let limit = Limit::new("fleet", ["token_bucket 100/s burst 1000"]).unwrap();
        let numbers = Numbers::of(&limit).unwrap();
        let facts = Facts { numbers, ..facts(Some(&held), Some(200_000)) };
        let planned = plan(&facts, &mut Fund::default(), NOW);
        assert_eq!(planned, Plan::Change { share: 200_000, least: 10_000 });
    }

    #[test]
    fn a_newcomer_gets_a_quarter_of_what_is_free() {
        let quarter = Plan::New { share: 95_000, least: 2_000 };
        assert_eq!(planned(None, None, (600_000, 600_000)), quarter);
        let needed = Plan::New { share: 150_000, least: 2_000 };
        assert_eq!(planned(None, Some(150_000), (600_000, 600_000)), needed);
        let least = Plan::New { share: 2_000, least: 2_000 };
        assert_eq!(planned(None, None, (990_000, 990_000)), least, "the store knows what is free");
    }

    #[test]
    fn a_holder_from_another_stream_gets_only_something_better() {
        let planned = |admits: u64, need| {
            let facts = Facts { admits: Some(admits), ..facts(None, need) };
            let mut fund = Fund::default();
            fund.note(1, need, 0);
            plan(&facts, &mut fund, NOW)
        };
        // 50 requests a second are a share of 100,000.
        assert_eq!(planned(50_000, None), Plan::Nothing);
        assert_eq!(planned(50_000, Some(100_000)), Plan::Nothing);
        assert_eq!(planned(50_000, Some(300_000)), Plan::New { share: 300_000, least: 112_000 });
    }

    #[test]
    fn a_silent_holder_gets_nothing() {
        let held = held(200_000);
        let facts = Facts { is_active: false, ..facts(Some(&held), Some(200_000)) };
        assert_eq!(plan(&facts, &mut Fund::default(), NOW), Plan::Nothing);
    }
}
