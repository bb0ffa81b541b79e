//! A window across zones, against a plain account of the units that each date used.

use std::collections::BTreeMap;

use jiff::Unit;
use jiff::civil::Weekday;
use proptest::prelude::*;

use super::*;
use crate::limit::Limit;
use crate::policy::Policy;

const HOUR: u64 = Span::HOUR.as_micros();
const DAY: u64 = Span::DAY.as_micros();
/// 2026-11-27T00:00:00Z, a Friday.
const FRIDAY: u64 = 1_795_737_600_000_000;

/// Zones from the first to begin a date to the last, 25 h apart.
const ZONES: [&str; 7] = [
    "Pacific/Kiritimati",
    "Pacific/Auckland",
    "Asia/Tokyo",
    "Europe/Berlin",
    "UTC",
    "America/New_York",
    "Pacific/Pago_Pago",
];

fn rule(limit: u64, unit: CalendarUnit, zone: &str) -> FixedWindow {
    let calendar = CalendarWindow::new(unit, zone).unwrap().across_zones();
    FixedWindow::new(limit, &Window::Calendar(calendar)).unwrap()
}

const fn now(micros: u64) -> Now {
    Now { micros, max_clock_back: None }
}

/// Returns the first local date of a unit that a zone's clocks show, in days since 1970-01-01.
fn date(unit: CalendarUnit, zone: &str, at: u64) -> u64 {
    let instant = jiff::Timestamp::from_microsecond(at.cast_signed()).unwrap();
    let date = instant.in_tz(zone).unwrap().date();
    let first = match unit {
        CalendarUnit::Day => date,
        CalendarUnit::Week => date.tomorrow().unwrap().nth_weekday(-1, Weekday::Monday).unwrap(),
        CalendarUnit::Month => date.first_of_month(),
        CalendarUnit::Year => date.first_of_year(),
    };
    let days = first.since((Unit::Day, jiff::civil::date(1970, 1, 1))).unwrap().get_days();
    u64::try_from(days).unwrap()
}

/// Charges a cost if it passes; returns the time to retry otherwise.
fn check(rule: &FixedWindow, state: &mut Option<State>, at: u64, cost: u64) -> Result<(), u64> {
    let (mut balance, _) = rule.balance(*state, now(at)).unwrap();
    match rule.judge(&balance, cost, None) {
        Verdict::Pass { .. } => {
            rule.charge(&mut balance, Charge::at_once(cost)).unwrap();
            *state = rule.state(balance);
            Ok(())
        }
        Verdict::Refuse { retry } => Err(retry.unwrap_or(NEVER)),
    }
}

/// The numbers of docs/semantics.md.
#[test]
fn a_move_to_another_zone_and_back_gives_one_budget_for_each_date() {
    let [berlin, tokyo] =
        ["Europe/Berlin", "Asia/Tokyo"].map(|zone| rule(100, CalendarUnit::Day, zone));
    let mut state = None;
    assert_eq!(check(&berlin, &mut state, FRIDAY + 14 * HOUR, 100), Ok(()));
    assert_eq!(check(&berlin, &mut state, FRIDAY + 14 * HOUR, 1), Err(9 * HOUR));
    // It is still the 27th in Tokyo, for half an hour.
    let half_past = FRIDAY + 14 * HOUR + HOUR / 2;
    assert_eq!(check(&tokyo, &mut state, half_past, 1), Err(HOUR / 2));
    assert_eq!(check(&tokyo, &mut state, FRIDAY + 15 * HOUR, 100), Ok(()));
    // Berlin's 27th is followed by a 28th that the key has used.
    assert_eq!(check(&berlin, &mut state, FRIDAY + 16 * HOUR, 1), Err(31 * HOUR));
    assert_eq!(check(&berlin, &mut state, FRIDAY + 23 * HOUR, 1), Err(24 * HOUR));
    assert_eq!(check(&berlin, &mut state, FRIDAY + 47 * HOUR, 100), Ok(()));
}

#[test]
fn a_move_across_the_date_line_waits_two_dates() {
    let day = |zone| rule(5, CalendarUnit::Day, zone);
    let mut state = None;
    // The 28th begins in Kiritimati while it is the 26th in Pago Pago.
    let at = FRIDAY + 10 * HOUR + HOUR / 2;
    assert_eq!(check(&day("Pacific/Kiritimati"), &mut state, at, 5), Ok(()));
    let wait = FRIDAY + 2 * DAY + 11 * HOUR - at;
    assert_eq!(check(&day("Pacific/Pago_Pago"), &mut state, at, 1), Err(wait));
}

#[test]
fn a_date_that_is_given_back_completely_stays_begun() {
    let [tokyo, berlin] =
        ["Asia/Tokyo", "Europe/Berlin"].map(|zone| rule(5, CalendarUnit::Day, zone));
    let mut state = None;
    let at = FRIDAY + 16 * HOUR;
    assert_eq!(check(&tokyo, &mut state, at, 5), Ok(()));
    let (mut balance, _) = tokyo.balance(state, now(at)).unwrap();
    assert_eq!(tokyo.refund(&mut balance, 5), Some(5));
    assert_eq!(tokyo.report(&balance).reset, 23 * HOUR);
    state = tokyo.state(balance);
    // Its units are for the 28th, and Berlin's 27th has none of its own.
    assert_eq!(check(&berlin, &mut state, at, 5), Ok(()));
    assert_eq!(check(&berlin, &mut state, at, 1), Err(31 * HOUR));
}

#[test]
fn a_corrupt_date_ends_with_the_day_after_the_newest_time() {
    let utc = rule(5, CalendarUnit::Day, "UTC");
    let mut state = Some(State { newest: FRIDAY, start: FRIDAY, used: 9 });
    assert_eq!(check(&utc, &mut state, FRIDAY, 1), Err(2 * DAY));
    assert_eq!(utc.expires_in(&state.unwrap(), now(FRIDAY)), 4 * DAY);
}

#[test]
fn a_state_from_the_future_counts_as_made_now() {
    let utc = rule(5, CalendarUnit::Day, "UTC");
    let state = State { newest: FRIDAY + 9 * DAY, start: FRIDAY / DAY + 9, used: 5 };
    let back = Now { micros: FRIDAY, max_clock_back: Some(5_000_000) };
    let (balance, restamped) = utc.balance(Some(state), back).unwrap();
    let retry = utc.judge(&balance, 1, None);
    assert_eq!((retry, restamped), (Verdict::Refuse { retry: Some(DAY) }, true));
    assert_eq!(utc.expires_in(&state, back), 4 * DAY);
}

#[test]
fn rules_of_all_zones_keep_states_equally_long() {
    let outlasts = |one: &FixedWindow, other: &FixedWindow| FixedWindow::OUTLASTS[0](one, other);
    let [tokyo, berlin] =
        ["Asia/Tokyo", "Europe/Berlin"].map(|zone| rule(5, CalendarUnit::Day, zone));
    assert!(outlasts(&tokyo, &berlin) && outlasts(&berlin, &tokyo));
    assert!(!outlasts(&tokyo, &rule(5, CalendarUnit::Month, "Asia/Tokyo")));
    let calendar = CalendarWindow::new(CalendarUnit::Day, "Asia/Tokyo").unwrap();
    let of_one_zone = FixedWindow::new(5, &Window::Calendar(calendar)).unwrap();
    assert!(!outlasts(&tokyo, &of_one_zone) && !outlasts(&of_one_zone, &tokyo));
}

/// A zone is one word. More words would be options of the policy that it is printed in.
#[test]
fn a_zone_with_words_behind_it_is_refused_by_the_constructor_and_read_as_options_in_a_spec() {
    for zone in ["UTC shadow", "UTC across_zones", "UTC ", " UTC", "UTC\nshadow", "UTC\tas b", ""] {
        for made in [
            CalendarWindow::new(CalendarUnit::Day, zone),
            CalendarWindow::new(CalendarUnit::Day, "UTC").and_then(|utc| utc.in_zone(zone)),
        ] {
            let error = made.unwrap_err().to_string();
            assert!(error.contains("write a name such as UTC or Asia/Tokyo"), "{zone:?}: {error}");
        }
    }
    let policy: Policy = "fixed_window 5/d calendar UTC shadow across_zones".parse().unwrap();
    assert_eq!(policy.to_string(), "fixed_window 5/d calendar UTC across_zones shadow");
}

#[test]
fn a_zone_is_part_of_a_states_identity_unless_the_calendar_is_across_zones() {
    let identity = |spec: &str| {
        let limit = Limit::new("quota", [spec]).unwrap();
        limit.members()[0].identity()
    };
    let same = |one, other| identity(one) == identity(other);
    let berlin = "fixed_window 5/month calendar Europe/Berlin across_zones";
    assert!(same(berlin, "fixed_window 9/month calendar Asia/Tokyo across_zones"));
    for other in [
        "fixed_window 5/month calendar Europe/Berlin",
        "fixed_window 5/d calendar Europe/Berlin across_zones",
        "fixed_window 5/month calendar Europe/Berlin across_zones from 15",
        "fixed_window 5/month calendar Europe/Berlin across_zones at 06:00",
        "fixed_window 5/month calendar Europe/Berlin across_zones as other",
    ] {
        assert!(!same(berlin, other), "{other}");
    }
    let of_one_zone = "fixed_window 5/d calendar Europe/Berlin";
    assert!(!same(of_one_zone, "fixed_window 5/d calendar Asia/Tokyo"));
}

proptest! {
    #[test]
    fn a_key_gets_one_budget_for_each_date_over_any_changes_of_its_zone(
        unit in prop::sample::select(vec![
            CalendarUnit::Day, CalendarUnit::Day, CalendarUnit::Week, CalendarUnit::Month,
        ]),
        limit in 1..6_u64,
        steps in prop::collection::vec((0..2_400_u64, 0..ZONES.len(), 1..4_u64, 0..8_u8), 1..60),
    ) {
        let rules = ZONES.map(|zone| rule(limit, unit, zone));
        let (mut at, mut state) = (FRIDAY, None);
        let (mut used, mut begun, mut admitted) = (BTreeMap::<u64, u64>::new(), 0, 0);
        for (minutes, zone, cost, refund) in steps {
            at += minutes * 60_000_000;
            let (rule, zone) = (&rules[zone], ZONES[zone]);
            let current = date(unit, zone, at).max(begun);
            let units = used.entry(current).or_default();
            let was_dropped = state.is_some_and(|state| rule.expires_in(&state, now(at)) == 0);
            if was_dropped {
                state = None;
            }
            match check(rule, &mut state, at, cost) {
                Ok(()) => {
                    *units += cost;
                    admitted += cost;
                    begun = current;
                    prop_assert!(*units <= limit, "{units} of {limit} on day {current}");
                }
                Err(retry) => {
                    prop_assert!(*units + cost > limit, "day {current} had {units} of {limit}");
                    prop_assert_eq!(retry == NEVER, cost > limit);
                    if retry != NEVER {
                        let mut sooner = state;
                        prop_assert!(check(rule, &mut sooner, at + retry - 1, cost).is_err());
                        prop_assert!(check(rule, &mut sooner, at + retry, cost).is_ok());
                        // Not earlier than in a key that never left this zone.
                        prop_assert!(date(unit, zone, at + retry) > date(unit, zone, at + retry - 1));
                    }
                }
            }
            let (mut balance, _) = rule.balance(state, now(at)).unwrap();
            let open = rule.report(&balance).reset > 0;
            prop_assert_eq!(rule.report(&balance).remaining, limit - *units);
            prop_assert!(!open || rule.keep_for(&balance) >= rule.report(&balance).reset);
            if refund == 0 && rule.refund(&mut balance, 1) == Some(1) {
                state = rule.state(balance);
                *units -= 1;
                admitted -= 1;
            }
        }
        if unit == CalendarUnit::Day {
            let dates = (at - FRIDAY + 25 * HOUR).div_ceil(DAY) + 1;
            prop_assert!(admitted <= dates * limit, "{admitted} on {dates} dates");
        }
    }
}
