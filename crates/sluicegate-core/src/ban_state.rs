//! A subject's denials and bans, as pure functions with the time as an argument.

use crate::ban::Ban;
use crate::kernel::{NUMBER_BYTES, Now, retention};
use crate::limit::Identity;
use crate::number::MAX_EXACT;
use crate::refusal::{later_end, rest};
use crate::time::Span;

/// A subject's denials and bans under one limit. All times are in µs since the epoch.
///
/// ```
/// use sluicegate_core::for_stores::BanState;
/// use sluicegate_core::Ban;
///
/// let ban: Ban = "2/min for 15min".parse()?;
/// let (once, _) = BanState::default().denied(&ban, 1_000_000);
/// let (twice, begins) = once.denied(&ban, 2_000_000);
/// assert!(begins);
/// assert_eq!(twice.rest(2_000_000), Some(900_000_000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct BanState {
    /// The time when the latest denial was counted, or the latest ban began, in µs since the
    /// epoch.
    pub newest: u64,
    /// The time of the first denial that is counted, in µs since the epoch.
    pub since: u64,
    /// The number of denials that are counted; 0 for none.
    pub denials: u64,
    /// The end of the latest ban, in µs since the epoch; 0 if there was none.
    pub until: u64,
    /// The length of the latest ban that denials caused, in µs; 0 if there was none.
    pub lasted: u64,
}

impl BanState {
    /// The number of stored numbers.
    pub const NUMBERS: usize = 5;
    /// The kind of the stored entry.
    pub const KIND: u8 = 0x85;
    /// The identity of the stored entry, next to those of policies.
    pub const IDENTITY: Identity = Identity::SUBJECT;

    /// Returns for how many µs the subject is still banned at `now`; `None` if it isn't.
    #[must_use]
    pub const fn rest(&self, now: u64) -> Option<u64> {
        rest(self.until, now)
    }

    /// Returns for how many µs the ban has lasted at `now`. The subject must be banned.
    #[must_use]
    pub const fn age(&self, now: u64) -> u64 {
        // No denial is counted during a ban.
        now.saturating_sub(self.newest)
    }

    /// Returns the state after a denial at `now`, and whether the denial begins a ban.
    #[must_use]
    pub fn denied(self, ban: &Ban, now: u64) -> (Self, bool) {
        let is_open =
            self.denials > 0 && now.saturating_sub(self.since) < ban.after().period.as_micros();
        let (since, denials) = if is_open { (self.since, self.denials + 1) } else { (now, 1) };
        let newest = self.newest.max(now);
        if denials < ban.after().count() {
            return (Self { newest, since, denials, ..self }, false);
        }
        let (first, most) = (ban.lasts.as_micros(), ban.up_to.as_micros());
        let lasts = match self.doubled(ban, now) {
            0 => first,
            doubled => doubled.max(first).min(most),
        };
        let until = now.saturating_add(lasts).min(MAX_EXACT);
        (Self { newest, since: 0, denials: 0, until, lasted: lasts }, true)
    }

    /// Returns the state after a manual ban for `lasts` µs from now.
    ///
    /// An existing ban that ends later is kept. The doubling uses the bans before the manual one.
    #[must_use]
    pub fn banned(self, ban: &Ban, now: u64, lasts: u64) -> Self {
        let lasted = if self.doubled(ban, now) == 0 { 0 } else { self.lasted };
        let until = later_end(self.until, now, lasts);
        Self { newest: self.newest.max(now), since: 0, denials: 0, until, lasted }
    }

    /// Returns twice the length of the latest ban, if the doubling still remembers it; otherwise 0.
    fn doubled(&self, ban: &Ban, now: u64) -> u64 {
        let is_quiet = now.saturating_sub(self.until) >= ban.up_to.as_micros();
        if ban.is_doubling() && !is_quiet { 2 * self.lasted } else { 0 }
    }

    /// Returns the state at `now`, and whether it was restamped because its time was too far ahead.
    ///
    /// A restamped ban ends after the maximum length at the latest.
    #[must_use]
    pub fn restamped(self, ban: &Ban, now: Now) -> (Self, bool) {
        if !now.is_exceeded_by(self.newest) {
            return (self, false);
        }
        let micros = now.micros;
        let last = micros.saturating_add(ban.up_to.as_micros());
        let restamped = Self {
            newest: micros,
            since: self.since.min(micros),
            until: self.until.min(last),
            ..self
        };
        (restamped, true)
    }

    /// Returns the time until which the state differs from an empty one.
    #[must_use]
    pub fn useful_until(&self, ban: &Ban) -> u64 {
        let counts = match self.denials {
            0 => 0,
            _ => self.since.saturating_add(ban.after().period.as_micros()),
        };
        let quiet = if ban.is_doubling() && self.lasted > 0 { ban.up_to.as_micros() } else { 0 };
        counts.max(self.until.saturating_add(quiet))
    }

    /// Returns the retention of the stored entry.
    pub(crate) fn retention(&self, ban: &Ban) -> u8 {
        retention(self.useful_until(ban).saturating_sub(self.newest))
    }

    /// Returns the stored numbers.
    #[must_use]
    pub const fn numbers(&self) -> [u64; Self::NUMBERS] {
        let Self { newest, since, denials, until, lasted } = *self;
        [newest, since, denials, until, lasted]
    }

    /// Reads the state from its numbers; `None` if they are invalid.
    #[must_use]
    pub fn from_numbers(numbers: &[u64]) -> Option<Self> {
        let [newest, since, denials, until, lasted] = *numbers else { return None };
        let is_sound = denials <= Ban::MOST_DENIALS
            && lasted <= Span::from(Ban::LONGEST).as_micros()
            && [newest, since, until].iter().all(|time| *time <= MAX_EXACT);
        is_sound.then_some(Self { newest, since, denials, until, lasted })
    }
}

// An entry stores its length.
const _: () = assert!(BanState::NUMBERS * NUMBER_BYTES < u16::MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;
    const MINUTE: u64 = 60 * SECOND;
    const START: u64 = 1_699_920_000 * SECOND;

    fn ban(text: &str) -> Ban {
        text.parse().unwrap()
    }

    fn denied(mut state: BanState, ban: &Ban, times: &[u64]) -> (BanState, bool) {
        let mut begins = false;
        for time in times {
            (state, begins) = state.denied(ban, START + time);
        }
        (state, begins)
    }

    #[test]
    fn denials_count_in_a_window_that_the_first_opens() {
        let ban = ban("3/min for 15min");
        let within = [0, 30 * SECOND, MINUTE - 1];
        let (state, begins) = denied(BanState::default(), &ban, &within);
        assert!(begins);
        assert_eq!(state.rest(START + MINUTE - 1), Some(15 * MINUTE));
        assert_eq!(state.rest(START + 16 * MINUTE - 2), Some(1));
        assert_eq!(state.rest(START + 16 * MINUTE - 1), None);
        // The third denial comes after the first has left, and opens another window.
        let (state, begins) = denied(BanState::default(), &ban, &[0, 30 * SECOND, MINUTE]);
        assert_eq!((begins, state.denials, state.since), (false, 1, START + MINUTE));
        assert_eq!(state.useful_until(&ban), START + 2 * MINUTE);
    }

    #[test]
    fn each_ban_doubles_up_to_the_longest_until_it_was_quiet_for_so_long() {
        let ban = ban("1/min for 15min doubling up to 1h");
        let mut state = BanState::default();
        let mut now = START;
        for minutes in [15, 30, 60, 60] {
            (state, _) = state.denied(&ban, now);
            assert_eq!(state.rest(now), Some(minutes * MINUTE));
            // The next denial comes 1 µs before a quiet hour has passed since the ban.
            now = state.until + 60 * MINUTE - 1;
        }
        assert_eq!(state.useful_until(&ban), now + 1);
        let (again, _) = state.denied(&ban, now);
        assert_eq!(again.rest(now), Some(60 * MINUTE));
        let (forgotten, _) = state.denied(&ban, now + 1);
        assert_eq!(forgotten.rest(now + 1), Some(15 * MINUTE));
    }

    #[test]
    fn without_doubling_all_bans_are_alike() {
        let ban = ban("1/min for 15min");
        let (state, _) = BanState::default().denied(&ban, START);
        let (state, _) = state.denied(&ban, state.until);
        assert_eq!(state.until, START + 30 * MINUTE);
        assert_eq!(state.useful_until(&ban), state.until);
    }

    #[test]
    fn a_ban_by_hand_is_no_step_of_the_doubling() {
        let ban = ban("1/min for 15min doubling up to 1h");
        let state = BanState::default().banned(&ban, START, 5 * MINUTE);
        assert_eq!((state.rest(START), state.lasted), (Some(5 * MINUTE), 0));
        let (state, _) = state.denied(&ban, state.until);
        assert_eq!(state.lasted, 15 * MINUTE);
        let by_hand = state.banned(&ban, state.until, SECOND);
        let (next, _) = by_hand.denied(&ban, by_hand.until);
        assert_eq!(next.lasted, 30 * MINUTE);
    }

    #[test]
    fn of_two_bans_the_later_end_counts_in_either_order() {
        let ban = ban("1/min for 15min doubling up to 1h");
        for lasts in [[MINUTE, 5 * MINUTE], [5 * MINUTE, MINUTE]] {
            let by_hand = |state: BanState, lasts| state.banned(&ban, START, lasts);
            let state = lasts.into_iter().fold(BanState::default(), by_hand);
            assert_eq!(state.rest(START), Some(5 * MINUTE));
        }
        let (by_denials, _) = BanState::default().denied(&ban, START);
        let state = by_denials.banned(&ban, START, SECOND);
        assert_eq!((state.rest(START), state.lasted), (Some(15 * MINUTE), 15 * MINUTE));
    }

    #[test]
    fn a_clock_that_steps_back_leaves_no_ban_longer_than_the_longest() {
        let ban = ban("1/min for 15min up to 1h");
        let (state, _) = BanState::default().denied(&ban, START);
        let at = |micros| Now { micros, max_clock_back: Some(5 * SECOND) };
        assert_eq!(state.restamped(&ban, at(START - 5 * SECOND)), (state, false));
        let back = START - 86_400 * SECOND;
        let (restamped, is_restamped) = state.restamped(&ban, at(back));
        assert!(is_restamped);
        assert_eq!((restamped.rest(back), restamped.newest), (Some(60 * MINUTE), back));
        let injected = Now { micros: back, max_clock_back: None };
        assert_eq!(state.restamped(&ban, injected), (state, false));
    }
}
