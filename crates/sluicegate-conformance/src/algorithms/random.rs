//! Random numbers of policies.

use std::time::Duration;

use sluicegate_core::{CalendarUnit, CalendarWindow, MAX_EXACT, Policy, PolicyError, Rate};

use crate::dice::Dice;

/// Returns a policy with the largest accepted number, or slightly less.
pub(super) fn largest(
    dice: &mut Dice,
    make: &dyn Fn(u64) -> Result<Policy, PolicyError>,
) -> Result<Policy, PolicyError> {
    let (mut accepted, mut refused) = (0, MAX_EXACT + 1);
    make(accepted)?;
    while refused - accepted > 1 {
        let middle = accepted + (refused - accepted) / 2;
        if make(middle).is_ok() { accepted = middle } else { refused = middle }
    }
    make(accepted.saturating_sub(dice.pick(&[0, 0, 1, 2]))).or_else(|_| make(accepted))
}

pub(super) fn units(dice: &mut Dice) -> u64 {
    match dice.below(12) {
        0 => 0,
        1 => dice.between(10, 100),
        _ => dice.between(1, 6),
    }
}

/// Returns a window or period: round, odd, or sometimes very short or long.
pub(super) fn length(dice: &mut Dice) -> Duration {
    Duration::from_micros(match dice.below(8) {
        0 => dice.between(1, 20),
        1 => dice.between(1, 5_000_000),
        2 => dice.pick(&[3_600_000_000, 86_400_000_000, 30 * 86_400_000_000, 365 * 86_400_000_000]),
        _ => dice.pick(&[1_000, 10_000, 100_000, 250_000, 1_000_000, 3_000_000, 60_000_000]),
    })
}

pub(super) fn rate(dice: &mut Dice) -> Rate {
    loop {
        let count = match dice.below(16) {
            0 => 0,
            1 => dice.between(100, 2_000_000),
            _ => dice.between(1, 12),
        };
        if let Ok(rate) = Rate::new(count, length(dice)) {
            return rate;
        }
    }
}

pub(super) fn calendar(dice: &mut Dice) -> Result<CalendarWindow, PolicyError> {
    let unit = dice.pick(&[
        CalendarUnit::Day,
        CalendarUnit::Week,
        CalendarUnit::Month,
        CalendarUnit::Year,
    ]);
    let mut calendar = CalendarWindow::new(unit, dice.pick(&ZONES))?;
    if dice.below(2) == 0 {
        calendar = match unit {
            CalendarUnit::Week => calendar.start(dice.pick(&["tuesday", "saturday", "sunday"]))?,
            CalendarUnit::Month => calendar.from(dice.pick(&["2", "15", "29", "30", "31"]))?,
            CalendarUnit::Year => calendar.from(dice.pick(&["02-29", "04-06", "12-31"]))?,
            _ => calendar,
        };
    }
    if dice.below(2) == 0 {
        // In Berlin 02:30 is skipped in March and shown twice in October.
        calendar = calendar.at(dice.pick(&["00:30", "02:30", "06:00", "23:59"]))?;
    }
    Ok(if dice.below(2) == 0 { calendar.across_zones() } else { calendar })
}

/// Returns a calendar across zones in another zone, and any other calendar unchanged.
pub(crate) fn in_other_zone(dice: &mut Dice, calendar: &CalendarWindow) -> CalendarWindow {
    let other = calendar.is_across_zones().then(|| calendar.clone().in_zone(dice.pick(&ZONES)));
    other.and_then(Result::ok).unwrap_or_else(|| calendar.clone())
}

/// Zones with a clock change at night, one at midnight, a skipped day, and no change; and the zones
/// furthest apart.
const ZONES: [&str; 7] = [
    "Europe/Berlin",
    "America/Sao_Paulo",
    "Pacific/Apia",
    "Asia/Tokyo",
    "UTC",
    "Pacific/Kiritimati",
    "Pacific/Pago_Pago",
];
