//! Checks that a rate and burst can be counted exactly.

use crate::error::PolicyError;
use crate::number::MAX_EXACT;
use crate::rate::Rate;

/// Returns `burst` units in ticks, if all numbers up to that are exact.
pub(super) fn exact_capacity(
    rate: Rate,
    burst: u64,
    burst_word: &'static str,
) -> Result<u64, PolicyError> {
    let exact = |count: u64, burst: u64| {
        let (unit, _) = Rate::new(count, rate.period()).ok()?.ticks();
        (unit <= MAX_EXACT)
            .then(|| unit.checked_mul(burst))
            .flatten()
            .filter(|&ticks| ticks <= MAX_EXACT)
    };
    if let Some(ticks) = exact(rate.count(), burst) {
        return Ok(ticks);
    }
    let (unit, _) = rate.ticks();
    let largest = MAX_EXACT / unit;
    let fits =
        |count: u64| exact(count, if burst == rate.count() { count } else { burst }).is_some();
    // A rate farther away than half of this one isn't a useful suggestion.
    let reach = NEAREST_SEARCH.min(rate.count() / 2);
    let below =
        (rate.count().saturating_sub(reach)..rate.count()).rev().find(|&n| n > 0 && fits(n));
    let above = (rate.count() + 1..=rate.count().saturating_add(reach)).find(|&n| fits(n));
    let period = rate.period;
    let nearest = match (below, above) {
        (Some(below), Some(above)) => {
            format!("; the nearest exact rates are {below}/{period} and {above}/{period}")
        }
        (Some(one), None) | (None, Some(one)) => {
            format!("; the nearest exact rate is {one}/{period}")
        }
        (None, None) => String::new(),
    };
    Err(PolicyError::new(
        if burst == rate.count() { "rate" } else { burst_word },
        format!(
            "{rate} with {burst_word} {burst} can't be counted exactly: at this rate {burst_word} is at most {largest}{nearest}"
        ),
    ))
}

/// The search range for an exact rate around a rejected one.
const NEAREST_SEARCH: u64 = 100_000;
