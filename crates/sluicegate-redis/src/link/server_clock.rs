//! An estimate of the server's clock, to express by that clock until when a caller waits.

use std::time::Duration;

use sluicegate_core::MAX_EXACT;
use tokio::time::Instant;

/// Maximum relative drift of two clocks is 1/1,000; both may be slewed.
const DRIFT: u32 = 1_000;

/// The latest time that a server's clock can show at any instant. It is based on the time in a reply: the
/// clock had not passed that when the call was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerClock {
    micros: u64,
    at: Instant,
}

impl ServerClock {
    /// Learns from a reply with the server's time, to a call that was sent at an instant.
    pub(super) fn learn(clock: &mut Option<Self>, micros: u64, sent: Instant, now: Instant) {
        let is_of_use = clock.as_ref().is_none_or(|clock| {
            // The new time is a closer bound, or the clock has been set forward, past the old one.
            micros < clock.at(sent) || micros > clock.at(now)
        });
        if is_of_use {
            *clock = Some(Self { micros, at: sent });
        }
    }

    /// Replaces the old estimate, which made a call late.
    pub(super) const fn replace(clock: &mut Option<Self>, micros: u64, sent: Instant) {
        *clock = Some(Self { micros, at: sent });
    }

    /// Returns the latest time that the clock can show at an instant; the end of time if nothing is known.
    pub(super) fn latest(clock: Option<Self>, at: Instant) -> u64 {
        clock.map_or(MAX_EXACT, |clock| clock.at(at))
    }

    fn at(self, at: Instant) -> u64 {
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(MAX_EXACT);
        match at.checked_duration_since(self.at) {
            Some(since) => self.micros.saturating_add(micros(since + since / DRIFT)).min(MAX_EXACT),
            None => self.micros.saturating_sub(micros(self.at.duration_since(at))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn nobody_is_late_before_the_clock_is_known() {
        assert_eq!(ServerClock::latest(None, Instant::now()), MAX_EXACT);
    }

    #[test]
    fn the_latest_time_is_no_earlier_than_the_clock_can_show_and_grows_with_its_age() {
        let (mut clock, start) = (None, Instant::now());
        // The server's clock is 100 s; the reply took 30 ms, divided between both directions in an unknown
        // way.
        ServerClock::learn(&mut clock, 100 * SECOND, start, start + ms(30));
        assert_eq!(ServerClock::latest(clock, start), 100 * SECOND);
        assert_eq!(ServerClock::latest(clock, start + ms(10_000)), 110 * SECOND + 10_000);
        // A faster reply gives a closer bound: the clock was 10 ms behind the estimate.
        let sent = start + ms(100);
        ServerClock::learn(&mut clock, 100 * SECOND + 90_000, sent, sent + ms(1));
        assert_eq!(ServerClock::latest(clock, sent), 100 * SECOND + 90_000);
        // A slower one gives no information.
        ServerClock::learn(&mut clock, 100 * SECOND + 110_000, sent, sent + ms(40));
        assert_eq!(ServerClock::latest(clock, sent), 100 * SECOND + 90_000);
    }

    #[test]
    fn a_clock_that_was_set_is_found_out_by_the_next_reply() {
        let (mut clock, start) = (None, Instant::now());
        ServerClock::learn(&mut clock, 100 * SECOND, start, start + ms(1));
        let sent = start + ms(10);
        ServerClock::learn(&mut clock, 4_000 * SECOND, sent, sent + ms(1));
        assert_eq!(ServerClock::latest(clock, sent), 4_000 * SECOND, "forward");
        ServerClock::learn(&mut clock, 90 * SECOND, sent, sent + ms(1));
        assert_eq!(ServerClock::latest(clock, sent), 90 * SECOND, "backward");
        ServerClock::replace(&mut clock, 95 * SECOND, sent);
        assert_eq!(
            ServerClock::latest(clock, sent),
            95 * SECOND,
            "a late reply is always believed"
        );
    }
}
