//! The end of a refusal: the rules that bans and pauses share.

use crate::number::MAX_EXACT;

/// Returns the remaining µs of a refusal that lasts until `until`; `None` if it has ended.
pub(crate) const fn rest(until: u64, now: u64) -> Option<u64> {
    match until.checked_sub(now) {
        None | Some(0) => None,
        rest => rest,
    }
}

/// Returns the end of a refusal for `lasts` µs from now, or the end of an existing one if that is
/// later.
pub(crate) fn later_end(until: u64, now: u64, lasts: u64) -> u64 {
    now.saturating_add(lasts).min(MAX_EXACT).max(until)
}
