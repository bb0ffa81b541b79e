//! Calendar windows in a named time zone. The zone database is bundled with the program, so every
//! node of a fleet computes the same boundaries.

mod start;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};

use jiff::ToSpan;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};

use super::unit::CalendarUnit;
use super::{Boundaries, Boundary};
use crate::error::PolicyError;
use crate::time::Timestamp;
use start::Start;

/// A calendar day, week, month or year in a named time zone.
///
/// Days begin at midnight, weeks on Monday, months and years on their first day.
/// [`start`](Self::start), [`from`](Self::from) and [`at`](Self::at) change that. A window begins
/// at the first instant at which the zone's clocks show its start or a later time. If daylight
/// saving skips the start, the window begins when the clocks change. If the start occurs twice, the
/// first one counts.
///
/// ```
/// use sluicegate_core::{CalendarUnit, CalendarWindow};
///
/// let window = CalendarWindow::new(CalendarUnit::Month, "America/New_York")?.from("15")?.at("06:00")?;
/// assert_eq!(window.to_string(), "month calendar America/New_York from 15 at 06:00");
/// # Ok::<(), sluicegate_core::PolicyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct CalendarWindow {
    unit: CalendarUnit,
    start: Start,
    zone: String,
    time_zone: TimeZone,
    is_across_zones: bool,
    /// The latest requested window, which is nearly always the next one, too. Computing it takes a
    /// hundred times as long as a decision.
    last: Arc<Mutex<Option<[Boundary; 2]>>>,
}

/// The first day of the epoch.
const EPOCH: Date = Date::constant(1970, 1, 1);

impl CalendarWindow {
    /// Creates windows of one `unit` in the time zone `zone`, an IANA name such as `Europe/Berlin`
    /// or `UTC`.
    ///
    /// # Errors
    /// Returns an error if the bundled database has no such zone.
    pub fn new(unit: CalendarUnit, zone: &str) -> Result<Self, PolicyError> {
        let time_zone = jiff::tz::db().get(zone).map_err(|_| {
            PolicyError::new(
                "calendar",
                format!(
                    "`{}` is not in the IANA time zone database: write a name such as UTC or Asia/Tokyo",
                    zone.escape_debug()
                ),
            )
        })?;
        let zone = time_zone.iana_name().unwrap_or(zone).to_owned();
        Ok(Self {
            unit,
            start: Start::default(),
            zone,
            time_zone,
            is_across_zones: false,
            last: Arc::default(),
        })
    }

    /// Sets the first day of the week, such as `sunday`. The default is Monday.
    ///
    /// # Errors
    /// Returns an error if the unit isn't a week, or `weekday` isn't the English name of a day of the
    /// week in lower case.
    pub fn start(self, weekday: &str) -> Result<Self, PolicyError> {
        let start = self.start.with_weekday(self.unit, weekday)?;
        Ok(self.beginning(start))
    }

    /// Sets the first day of a month, such as `15`, or of a year, such as `04-06` for 6 April.
    ///
    /// The defaults are the first, and 1 January. In a month without that day, windows begin on its
    /// last day.
    ///
    /// # Errors
    /// Returns an error if the unit is neither a month nor a year, or has no such day.
    pub fn from(self, day: &str) -> Result<Self, PolicyError> {
        let start = self.start.with_date(self.unit, day)?;
        Ok(self.beginning(start))
    }

    /// Sets the time of day at which windows begin, such as `06:00`. The default is midnight.
    ///
    /// # Errors
    /// Returns an error if `time` isn't `00:00` to `23:59`.
    pub fn at(self, time: &str) -> Result<Self, PolicyError> {
        let start = self.start.with_time(time)?;
        Ok(self.beginning(start))
    }

    /// Changes the zone.
    ///
    /// # Errors
    /// Returns an error if the bundled database has no such zone.
    pub fn in_zone(self, zone: &str) -> Result<Self, PolicyError> {
        let Self { unit, start, is_across_zones, .. } = self;
        Ok(Self { start, is_across_zones, ..Self::new(unit, zone)? })
    }

    /// Keeps the used units of a window when the zone changes.
    ///
    /// A window is identified by its first local date. So November is the same window in every
    /// zone. A key that used its units in one zone can't use them again in another. By default,
    /// a policy with another zone has separate states.
    ///
    /// ```
    /// use sluicegate_core::{CalendarUnit, CalendarWindow, Limit, Policy, Window};
    ///
    /// let berlin = CalendarWindow::new(CalendarUnit::Month, "Europe/Berlin")?.across_zones();
    /// let tokyo = berlin.clone().in_zone("Asia/Tokyo")?;
    /// assert_eq!(tokyo.to_string(), "month calendar Asia/Tokyo across_zones");
    ///
    /// let limit = |window| -> Result<Limit, Box<dyn std::error::Error>> {
    ///     let policy = Policy::fixed_window(1_000, Window::Calendar(window))?;
    ///     Ok(Limit::new("quota", [policy])?)
    /// };
    /// let (before, after) = (limit(berlin)?, limit(tokyo)?);
    /// assert_eq!(before.members()[0].identity(), after.members()[0].identity());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn across_zones(self) -> Self {
        Self { is_across_zones: true, ..self }
    }

    fn beginning(self, start: Start) -> Self {
        Self { start, last: Arc::default(), ..self }
    }

    /// Returns the length of a window.
    #[must_use]
    pub const fn unit(&self) -> CalendarUnit {
        self.unit
    }

    /// Returns the zone's name.
    #[must_use]
    pub fn zone(&self) -> &str {
        &self.zone
    }

    /// Returns `true` if a change of the zone keeps the used units.
    #[must_use]
    pub const fn is_across_zones(&self) -> bool {
        self.is_across_zones
    }

    /// Returns `true` if states of `other` are also states of these windows, because both are
    /// across zones and have windows of the same dates.
    #[must_use]
    pub fn shares_states_with(&self, other: &Self) -> bool {
        self.is_across_zones && other.is_across_zones && self.of_one_zone() == other.of_one_zone()
    }

    /// Returns the text that identifies states of these windows.
    pub(crate) fn state_text(&self) -> String {
        let zone = if self.is_across_zones { String::new() } else { self.zone.clone() };
        Self { zone, ..self.clone() }.to_string()
    }

    /// Returns everything but the zone.
    const fn of_one_zone(&self) -> (CalendarUnit, Start, bool) {
        (self.unit, self.start, self.is_across_zones)
    }

    /// Returns the window that contains `at`: its first instant, and the first instant after it.
    ///
    /// The last window that a timestamp can fall into ends at [`Timestamp::MAX`].
    #[must_use]
    pub fn window_at(&self, at: Timestamp) -> (Timestamp, Timestamp) {
        let [start, end] = self.around(at);
        (start.at, end.at)
    }

    /// Returns the boundary at which the window that contains `at` begins, and the next one.
    pub(crate) fn around(&self, at: Timestamp) -> [Boundary; 2] {
        // Never wait for another thread: computing the window is faster.
        let last = self.last.try_lock().ok().and_then(|last| *last);
        if let Some(window @ [start, end]) = last
            && (start.at..end.at).contains(&at)
        {
            return window;
        }
        let [_, start, end, _] = self.boundaries(at);
        if let Ok(mut last) = self.last.try_lock() {
            *last = Some([start, end]);
        }
        [start, end]
    }

    /// Returns the end of the window whose first local date is `date`, in days since 1970-01-01.
    ///
    /// It is the first instant of a window with a later date.
    pub(crate) fn end_of(&self, date: u64) -> Timestamp {
        let days = i64::try_from(date).unwrap_or(i64::MAX);
        let span = jiff::Span::new().try_days(days).ok();
        let date = span.and_then(|span| EPOCH.checked_add(span).ok()).unwrap_or(Date::MAX);
        let mut first = self.start.base(self.unit, date);
        // A window that doesn't begin on the first of the month or year may begin after the date.
        while self.first_date(first) > date && first > Date::MIN {
            first = self.step(first, -1);
        }
        self.begins(self.step(first, 1))
    }

    /// Returns the boundaries of the window that contains `at`, of the previous and of the next
    /// one.
    #[must_use]
    pub fn boundaries(&self, at: Timestamp) -> Boundaries {
        let mut first = self.base_at(at);
        // On its first day, a window that doesn't begin at midnight on the first may still lie
        // ahead.
        while self.begins(first) > at && first > Date::MIN {
            first = self.step(first, -1);
        }
        let mut next = self.step(first, 1);
        // In a zone that skips a whole local day, two dates begin at one instant. In a zone that
        // repeats an hour across midnight, an instant of one date can follow the start of the next
        // date. Days after the last instant all begin at it, so walking through them finds nothing.
        while self.begins(next) <= at && self.begins(next) < Timestamp::MAX && next > first {
            first = next;
            next = self.step(first, 1);
        }
        let start = self.boundary(first);
        let mut boundaries = [start; 4];
        let mut day = first;
        while boundaries[0].at >= start.at && day > Date::MIN {
            day = self.step(day, -1);
            boundaries[0] = self.boundary(day);
            if boundaries[0].at == Timestamp::EPOCH {
                break;
            }
        }
        day = first;
        for index in 2..4 {
            let previous = boundaries[index - 1];
            loop {
                let following = self.step(day, 1);
                if following <= day || previous.at == Timestamp::MAX {
                    boundaries[index] = Boundary { at: Timestamp::MAX, ..previous };
                    break;
                }
                day = following;
                boundaries[index] = self.boundary(day);
                // The last of several dates that begin at one instant names the window.
                let at = boundaries[index].at;
                let is_skipped = at < Timestamp::MAX && self.begins(self.step(day, 1)) == at;
                if at > previous.at && !is_skipped {
                    break;
                }
            }
        }
        boundaries
    }

    /// Returns the day that represents the window that contains `at`, or the window after it.
    fn base_at(&self, at: Timestamp) -> Date {
        let micros = i64::try_from(at.as_micros()).unwrap_or(i64::MAX);
        let instant = jiff::Timestamp::from_microsecond(micros).unwrap_or(jiff::Timestamp::MAX);
        self.start.base(self.unit, self.time_zone.to_datetime(instant).date())
    }

    /// Returns the day that represents the window `windows` after the window of `day`. Returns
    /// `day` itself where the calendar ends.
    fn step(&self, day: Date, windows: i64) -> Date {
        let span = match self.unit {
            CalendarUnit::Day => windows.days(),
            CalendarUnit::Week => windows.weeks(),
            CalendarUnit::Month => windows.months(),
            CalendarUnit::Year => windows.years(),
        };
        day.checked_add(span).unwrap_or(day)
    }

    /// Returns the beginning of the window that `day` represents.
    fn boundary(&self, day: Date) -> Boundary {
        let days = EPOCH.until(self.first_date(day)).map_or(0, |span| span.get_days());
        Boundary { at: self.begins(day), date: u64::try_from(days).unwrap_or(0) }
    }

    /// Returns the first local date of the window that `day` represents.
    fn first_date(&self, day: Date) -> Date {
        self.start.of(self.unit, day).date()
    }

    /// Returns the first instant of the window that `day` represents.
    fn begins(&self, day: Date) -> Timestamp {
        let micros = self
            .first_instant(self.start.of(self.unit, day))
            .map_or(i64::MAX, jiff::Timestamp::as_microsecond);
        Timestamp::from_micros_clamped(u64::try_from(micros).unwrap_or(0))
    }

    /// Returns the first instant at which the zone's clocks show `wall` or a later time; `None` if
    /// the calendar has ended.
    fn first_instant(&self, wall: DateTime) -> Option<jiff::Timestamp> {
        let ambiguous = self.time_zone.to_ambiguous_timestamp(wall);
        let AmbiguousOffset::Gap { before, .. } = ambiguous.offset() else {
            return ambiguous.earlier().ok();
        };
        // At the offset before the change, the skipped time is after the change.
        let past = before.to_timestamp(wall).ok()?;
        let changes = self.time_zone.preceding(past.checked_add(1.nanosecond()).ok()?);
        changes.map(|change| change.timestamp()).next()
    }
}

// The zone's name determines its table.
impl PartialEq for CalendarWindow {
    fn eq(&self, other: &Self) -> bool {
        self.of_one_zone() == other.of_one_zone() && self.zone == other.zone
    }
}

impl Eq for CalendarWindow {}

impl Hash for CalendarWindow {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.of_one_zone().hash(state);
        self.zone.hash(state);
    }
}

impl fmt::Display for CalendarWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} calendar {}", self.unit.keyword(), self.zone)?;
        self.start.write(self.unit, f)?;
        if self.is_across_zones { f.write_str(" across_zones") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(zone: &str, at: &str) -> [String; 2] {
        let micros = |text: &str| {
            let instant: jiff::Timestamp = text.parse().unwrap();
            Timestamp::from_micros_clamped(instant.as_microsecond().unsigned_abs())
        };
        let text = |at: Timestamp| {
            jiff::Timestamp::from_microsecond(at.as_micros().cast_signed()).unwrap().to_string()
        };
        let (start, end) =
            CalendarWindow::new(CalendarUnit::Day, zone).unwrap().window_at(micros(at));
        [start, end].map(text)
    }

    #[test]
    fn the_window_that_was_asked_for_last_is_taken_for_no_other() {
        for (unit, zone) in [(CalendarUnit::Day, "America/St_Johns"), (CalendarUnit::Month, "UTC")]
        {
            let window = CalendarWindow::new(unit, zone).unwrap();
            // Three days around a change of the clocks, and around a month.
            let start = 1_162_000_000_000_000_u64;
            for step in (0..600).chain((0..600).rev()).chain((0..600).step_by(97)) {
                let at = Timestamp::from_micros_clamped(start + step * 900_000_000 * 24);
                let [_, start, end, _] = window.boundaries(at).map(|boundary| boundary.at);
                assert_eq!(window.window_at(at), (start, end), "{at:?} in {zone}");
                let last = Timestamp::from_micros_clamped(end.as_micros() - 1);
                assert_eq!(window.window_at(last), (start, end), "{last:?} in {zone}");
                assert_eq!(window.window_at(end).0, end, "{end:?} in {zone}");
            }
        }
    }

    /// At one minute past midnight of 29 October 2006, the clocks of St. John's went back to 23:01
    /// of the 28th. The repeated part of the 28th belongs to the 29th, which has already begun.
    #[test]
    fn an_hour_repeated_across_midnight_is_of_the_day_that_has_begun() {
        let zone = "America/St_Johns";
        let saturday = ["2006-10-28T02:30:00Z", "2006-10-29T02:30:00Z"];
        let sunday = ["2006-10-29T02:30:00Z", "2006-10-30T03:30:00Z"];
        for (at, expected) in [
            ("2006-10-29T02:29:59Z", &saturday), // 23:59:59
            ("2006-10-29T02:30:30Z", &sunday),   // 00:00:30
            ("2006-10-29T02:31:00Z", &sunday),   // 23:01:00 again
            ("2006-10-29T03:29:59Z", &sunday),   // 23:59:59 again
            ("2006-10-29T03:30:00Z", &sunday),   // 00:00:00 again
        ] {
            assert_eq!(day(zone, at), *expected, "{at}");
        }
    }

    /// Samoa went from 29 to 31 December 2011.
    #[test]
    fn a_day_that_a_zone_skips_is_no_window() {
        let friday = ["2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"];
        assert_eq!(day("Pacific/Apia", "2011-12-30T10:00:00Z"), friday);
        assert_eq!(day("Pacific/Apia", "2011-12-30T09:59:59Z")[1], friday[0]);
    }

    fn window(calendar: &CalendarWindow, at: &str) -> [String; 2] {
        let instant: jiff::Timestamp = at.parse().unwrap();
        let at = Timestamp::from_micros_clamped(instant.as_microsecond().unsigned_abs());
        let (start, end) = calendar.window_at(at);
        [start, end].map(|at| {
            jiff::Timestamp::from_microsecond(at.as_micros().cast_signed()).unwrap().to_string()
        })
    }

    #[test]
    fn windows_begin_where_businesses_begin() {
        let of = |unit, zone| CalendarWindow::new(unit, zone).unwrap();
        let week = of(CalendarUnit::Week, "America/New_York").start("sunday").unwrap();
        let month = of(CalendarUnit::Month, "UTC").from("15").unwrap();
        let last = of(CalendarUnit::Month, "UTC").from("31").unwrap();
        let tax = of(CalendarUnit::Year, "Europe/London").from("04-06").unwrap();
        let leap = of(CalendarUnit::Year, "UTC").from("02-29").unwrap();
        let night = of(CalendarUnit::Day, "Europe/Berlin").at("06:00").unwrap();
        for (calendar, at, start, end) in [
            // 2024-03-10 has 23 hours in New York.
            (&week, "2024-03-09T12:00:00Z", "2024-03-03T05:00:00Z", "2024-03-10T05:00:00Z"),
            (&week, "2024-03-10T05:00:00Z", "2024-03-10T05:00:00Z", "2024-03-17T04:00:00Z"),
            (&month, "2024-03-14T23:59:59Z", "2024-02-15T00:00:00Z", "2024-03-15T00:00:00Z"),
            (&month, "2024-12-31T00:00:00Z", "2024-12-15T00:00:00Z", "2025-01-15T00:00:00Z"),
            (&last, "2023-02-27T00:00:00Z", "2023-01-31T00:00:00Z", "2023-02-28T00:00:00Z"),
            (&last, "2023-02-28T00:00:00Z", "2023-02-28T00:00:00Z", "2023-03-31T00:00:00Z"),
            (&last, "2024-05-01T00:00:00Z", "2024-04-30T00:00:00Z", "2024-05-31T00:00:00Z"),
            (&tax, "2024-04-05T22:59:59Z", "2023-04-05T23:00:00Z", "2024-04-05T23:00:00Z"),
            (&leap, "2023-02-28T00:00:00Z", "2023-02-28T00:00:00Z", "2024-02-29T00:00:00Z"),
            (&night, "2024-06-01T03:59:59Z", "2024-05-31T04:00:00Z", "2024-06-01T04:00:00Z"),
            (&night, "2024-06-01T04:00:00Z", "2024-06-01T04:00:00Z", "2024-06-02T04:00:00Z"),
        ] {
            assert_eq!(window(calendar, at), [start, end], "{at} in {calendar}");
        }
    }

    /// In Berlin, 02:00 to 03:00 is skipped on 31 March 2024 and occurs twice on 27 October.
    #[test]
    fn a_boundary_that_is_skipped_or_shown_twice_is_one_instant() {
        let calendar =
            CalendarWindow::new(CalendarUnit::Day, "Europe/Berlin").unwrap().at("02:30").unwrap();
        for (at, start, end) in [
            ("2024-03-31T00:59:59Z", "2024-03-30T01:30:00Z", "2024-03-31T01:00:00Z"),
            ("2024-03-31T01:00:00Z", "2024-03-31T01:00:00Z", "2024-04-01T00:30:00Z"),
            ("2024-10-27T00:29:59Z", "2024-10-26T00:30:00Z", "2024-10-27T00:30:00Z"),
            // The second occurrence of 02:15.
            ("2024-10-27T01:15:00Z", "2024-10-27T00:30:00Z", "2024-10-28T01:30:00Z"),
        ] {
            assert_eq!(window(&calendar, at), [start, end], "{at}");
        }
    }

    /// The clocks of Toronto went from 23:30 of 30 March 1919 to 00:30, so that day begins at
    /// 00:30.
    #[test]
    fn a_change_across_midnight_begins_the_day() {
        let calendar = CalendarWindow::new(CalendarUnit::Day, "America/Toronto").unwrap();
        let midnight = "1919-03-31T00:00:00".parse().unwrap();
        let change: jiff::Timestamp = "1919-03-31T04:30:00Z".parse().unwrap();
        assert_eq!(calendar.first_instant(midnight), Some(change));
    }
}
