//! The ticks of an axis of time, and their labels.

use std::fmt::Write as _;

use jiff::civil::DateTime;
use jiff::tz::Offset;
use sluicegate_core::Span;

use super::count_axis::CountAxis;
use crate::numbers::length;
use crate::timeline::ROUND_TIMES;

/// A tick of the axis of time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct TimeTick {
    /// Position of the tick, in percent of the axis.
    pub(crate) at: String,
    pub(crate) label: String,
    /// Second line of the label: the day or the year that begins here.
    pub(crate) below: Option<String>,
    /// Whether the label is too long for a narrow screen.
    pub(crate) is_minor: bool,
    pub(crate) anchor: Anchor,
    pub(crate) anchor_below: Anchor,
}

/// The part of a label that is aligned with its tick. A centered label at an end would extend
/// beyond the axis.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Anchor {
    End,
    Middle,
    Start,
}

impl Anchor {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::End => "end",
            Self::Middle => "middle",
            Self::Start => "start",
        }
    }
}

const SECOND: u64 = Span::SECOND.as_micros();
const MINUTE: u64 = Span::MINUTE.as_micros();
const HOUR: u64 = Span::HOUR.as_micros();
const DAY: u64 = Span::DAY.as_micros();
/// The first Monday since the epoch, from which weeks are counted.
const MONDAY: u64 = 4 * DAY;

/// Maximum number of ticks on an axis of time.
const MOST: u64 = 7;

/// Minimum distance between two second-line labels, in thousandths of the axis.
const APART: u64 = 220;

/// Maximum characters of a label that fits on every screen.
const SHORT: usize = 6;

/// The distance between ticks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    Micros(u64),
    Months(i32),
}

/// Returns the ticks between two times, in µs since the epoch. `from` is the smaller one.
pub(crate) fn time_ticks(from: u64, to: u64) -> Vec<TimeTick> {
    let step = step(to - from);
    let times: Vec<_> = match step {
        Step::Micros(step) => {
            let phase = if step.is_multiple_of(7 * DAY) { MONDAY } else { 0 };
            let first = from.saturating_sub(phase).div_ceil(step) * step + phase;
            let step = usize::try_from(step).unwrap_or(usize::MAX);
            (first..=to).step_by(step).filter_map(|at| Some((at, date_time(at)?))).collect()
        }
        Step::Months(step) => months(from, to, step),
    };
    // In thousandths; times are below 2^53, so the product fits.
    let place = |at: u64| (at - from) * 1_000 / (to - from).max(1);
    let belows: Vec<_> = times.iter().map(|(_, time)| below(step, *time)).collect();
    let mut ticks = Vec::with_capacity(times.len());
    for (index, (at, time)) in times.iter().enumerate() {
        let changes = index == 0 || belows[index] != belows[index - 1];
        // Omit the first tick's day if the next day begins soon after it.
        let is_followed = index == 0
            && (1..times.len())
                .find(|&next| belows[next] != belows[0])
                .is_some_and(|next| place(times[next].0) - place(*at) < APART);
        let label = label(step, *time);
        let below = belows[index].clone().filter(|_| changes && !is_followed);
        ticks.push(TimeTick {
            at: length(at - from, to - from),
            is_minor: index % 2 == 1 && label.len() > SHORT,
            anchor: anchor(place(*at), &label),
            anchor_below: anchor(place(*at), below.as_deref().unwrap_or_default()),
            label,
            below,
        });
    }
    ticks
}

/// Formats a time of day, or the day, precisely enough to distinguish buckets of this length.
pub(crate) fn moment(at: u64, bucket: u64) -> String {
    let format = match bucket {
        ..SECOND => "%-d %b %Y %H:%M:%S%.f",
        SECOND..MINUTE => "%-d %b %Y %H:%M:%S",
        MINUTE..DAY => "%-d %b %Y %H:%M",
        _ => "%-d %b %Y",
    };
    date_time(at).map_or_else(String::new, |time| format_time(time, format))
}

/// Formats the length of a bucket in words: `second`, `30 minutes`.
pub(crate) fn bucket_name(micros: u64) -> String {
    const UNITS: [(u64, &str); 7] = [
        (7 * DAY, "week"),
        (DAY, "day"),
        (HOUR, "hour"),
        (MINUTE, "minute"),
        (SECOND, "second"),
        (1_000, "ms"),
        (1, "µs"),
    ];
    let unit = UNITS.into_iter().find(|(unit, _)| micros.is_multiple_of(*unit));
    let (unit, name) = unit.unwrap_or((1, "µs"));
    match micros / unit {
        1 => name.to_owned(),
        count if unit >= SECOND => format!("{count} {name}s"),
        count => format!("{count} {name}"),
    }
}

/// Returns the anchor of a label at a position in thousandths. There is some space before the axis,
/// but hardly any after it.
const fn anchor(place: u64, label: &str) -> Anchor {
    match place {
        ..40 if label.len() > SHORT => Anchor::Start,
        960.. => Anchor::End,
        _ => Anchor::Middle,
    }
}

fn step(span: u64) -> Step {
    if span < SECOND {
        return Step::Micros(CountAxis::new(span, MOST).step());
    }
    if let Some(step) = ROUND_TIMES.into_iter().find(|step| span / step <= MOST) {
        return Step::Micros(step);
    }
    let months = span / (30 * DAY);
    let years = CountAxis::new(months / 12, MOST).step();
    let step = [1, 2, 3, 6].into_iter().find(|&step| months / step <= MOST).unwrap_or(12 * years);
    Step::Months(i32::try_from(step).unwrap_or(i32::MAX))
}

/// Returns the first days of the months that `step` divides, counted from the year 0.
fn months(from: u64, to: u64, step: i32) -> Vec<(u64, DateTime)> {
    let Some(first) = date_time(from) else { return Vec::new() };
    let first = i32::from(first.year()) * 12 + i32::from(first.month()) - 1;
    let number = (first + step - 1) / step;
    (number..)
        .map_while(|number| {
            let month = number.checked_mul(step)?;
            let year = i16::try_from(month / 12).ok()?;
            let time =
                DateTime::new(year, i8::try_from(month % 12).ok()? + 1, 1, 0, 0, 0, 0).ok()?;
            let micros = Offset::UTC.to_timestamp(time).ok()?.as_microsecond();
            Some((u64::try_from(micros).ok()?, time))
        })
        .take_while(|(at, _)| *at <= to)
        .filter(|(at, _)| *at >= from)
        .collect()
}

fn label(step: Step, time: DateTime) -> String {
    let format = match step {
        Step::Micros(..SECOND) => "%H:%M:%S%.f",
        Step::Micros(SECOND..MINUTE) => "%H:%M:%S",
        Step::Micros(MINUTE..DAY) => "%H:%M",
        Step::Micros(_) => "%-d %b",
        Step::Months(..12) => "%b",
        Step::Months(_) => "%Y",
    };
    format_time(time, format)
}

fn below(step: Step, time: DateTime) -> Option<String> {
    let format = match step {
        Step::Micros(..DAY) => "%-d %b %Y",
        Step::Micros(_) | Step::Months(..12) => "%Y",
        Step::Months(_) => return None,
    };
    Some(format_time(time, format))
}

fn format_time(time: DateTime, format: &str) -> String {
    let mut text = String::new();
    // Only an invalid format fails.
    let _ = write!(text, "{}", time.strftime(format));
    text
}

fn date_time(micros: u64) -> Option<DateTime> {
    let instant = jiff::Timestamp::from_microsecond(i64::try_from(micros).ok()?).ok()?;
    Some(Offset::UTC.to_datetime(instant))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the labels of the ticks between two times in RFC 3339.
    fn read(from: &str, to: &str) -> Vec<String> {
        let micros = |time: &str| {
            u64::try_from(time.parse::<jiff::Timestamp>().unwrap().as_microsecond()).unwrap()
        };
        let ticks = time_ticks(micros(from), micros(to));
        let read = |tick: TimeTick| {
            let below = tick.below.map_or_else(String::new, |below| format!(" / {below}"));
            format!("{} {}{below}", tick.at, tick.label)
        };
        ticks.into_iter().map(read).collect()
    }

    #[test]
    fn days_and_years_are_named_where_they_begin() {
        assert_eq!(
            read("2015-05-17T22:00:00Z", "2015-05-18T10:00:00Z"),
            [
                "0.00% 22:00",
                "16.66% 00:00 / 18 May 2015",
                "33.33% 02:00",
                "50.00% 04:00",
                "66.66% 06:00",
                "83.33% 08:00",
                "100.00% 10:00",
            ]
        );
        assert_eq!(
            read("2025-12-10T06:00:00Z", "2026-01-14T18:00:00Z"),
            [
                "13.38% 15 Dec / 2025",
                "33.09% 22 Dec",
                "52.81% 29 Dec",
                "72.53% 5 Jan / 2026",
                "92.25% 12 Jan",
            ]
        );
    }

    #[test]
    fn any_span_has_a_few_ticks() {
        assert_eq!(
            read("2026-01-01T00:00:00.1Z", "2026-01-01T00:00:00.4Z")[1],
            "16.66% 00:00:00.15"
        );
        assert_eq!(
            read("2016-02-10T00:00:00Z", "2026-02-10T00:00:00Z"),
            ["18.91% 2018", "38.89% 2020", "58.91% 2022", "78.89% 2024", "98.90% 2026"]
                .map(str::to_owned)
        );
        assert_eq!(
            read("2015-11-10T00:00:00Z", "2016-08-10T00:00:00Z")[..2],
            ["18.97% Jan / 2016", "40.87% Mar"].map(str::to_owned)
        );
        for bits in 0..53 {
            for from in [0, 1, 1 << 50, (1 << 53) - 1 - (1 << bits)] {
                let ticks = time_ticks(from, from + (1 << bits));
                assert!((1..=9).contains(&ticks.len()), "{from} + 2^{bits}: {}", ticks.len());
            }
        }
    }

    #[test]
    fn lengths_are_named_in_their_largest_unit() {
        for (micros, name) in [
            (1, "µs"),
            (500, "500 µs"),
            (2_000, "2 ms"),
            (SECOND, "second"),
            (90 * SECOND, "90 seconds"),
            (30 * MINUTE, "30 minutes"),
            (DAY, "day"),
            (91 * DAY, "13 weeks"),
        ] {
            assert_eq!(bucket_name(micros), name);
        }
    }
}
