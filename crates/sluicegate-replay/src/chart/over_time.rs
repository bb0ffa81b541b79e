//! Requests over time, bucket by bucket.

use std::fmt::Write as _;

use askama::Template;

use super::Frame;
use super::count_axis::CountAxis;
use super::time_axis::{TimeTick, bucket_name, moment, time_ticks};
use crate::numbers::{grouped, length, short};
use crate::timeline::Timeline;

/// Requests over time, in panels one below the other that share an axis of time.
#[derive(Debug, Template)]
#[template(path = "chart/over_time.svg")]
pub(crate) struct OverTime {
    frame: Frame,
    height: u64,
    legend: Legend,
    /// Unit of the counts.
    unit: String,
    panels: Vec<Panel>,
    /// Bottom of the panels.
    bottom: u64,
    times: Vec<TimeTick>,
}

/// The number of requests of each kind; empty if the panels differ.
#[derive(Debug, Default)]
pub(crate) struct Legend {
    pub(crate) allowed: String,
    pub(crate) denied: String,
    pub(crate) offered: String,
}

/// The results for each bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Series<'s> {
    pub(crate) allowed: &'s [u64],
    pub(crate) denied: &'s [u64],
}

/// One series. In its paths one bucket is 1 wide and one request is 1 high.
#[derive(Debug)]
struct Panel {
    heading: String,
    /// Top of the panel.
    y: u64,
    height: u64,
    /// Width in buckets, followed by the height in requests.
    width: usize,
    top: u64,
    counts: Vec<CountTick>,
    allowed: String,
    denied: String,
    offered: String,
    /// Outline of the buckets with a denied request.
    denials: String,
    moments: Vec<Moment>,
}

#[derive(Debug)]
struct CountTick {
    at: String,
    label: String,
}

/// The tooltip of a bucket.
#[derive(Debug)]
struct Moment {
    x: usize,
    text: String,
}

/// Minimum width in buckets. With fewer buckets, each would be too wide to look like a moment.
const FEWEST: usize = 12;

/// Height of legend and unit above the panels.
const HEAD: u64 = 52;
/// Heights of the labels below the panels, with one line and with two.
const FOOT: [u64; 2] = [34, 51];
const HIGH: u64 = 190;
const LOW: u64 = 64;
/// Height of a panel's heading.
const HEADING: u64 = 26;
const BETWEEN: u64 = 18;

impl OverTime {
    /// Draws one series at a readable height, with tooltips on its buckets.
    pub(crate) fn single(
        frame: Frame,
        legend: Legend,
        buckets: Timeline,
        offered: &[u64],
        series: &Series<'_>,
    ) -> Self {
        let canvas = Canvas::new(buckets, offered, 5);
        let mut panel = canvas.panel(series, HEAD, HIGH);
        panel.moments = canvas.moments(series);
        Self::new(frame, legend, &canvas, vec![panel], HEAD + HIGH)
    }

    /// Draws several series, one below the other, each with a heading.
    pub(crate) fn comparison<'s>(
        frame: Frame,
        buckets: Timeline,
        offered: &[u64],
        series: impl Iterator<Item = (String, Series<'s>)>,
    ) -> Self {
        let canvas = Canvas::new(buckets, offered, 3);
        let mut bottom = HEAD - BETWEEN;
        let mut panels = Vec::new();
        for (heading, series) in series {
            let y = bottom + BETWEEN + HEADING;
            bottom = y + LOW;
            panels.push(Panel { heading, ..canvas.panel(&series, y, LOW) });
        }
        Self::new(frame, Legend::default(), &canvas, panels, bottom)
    }

    /// Removes the tooltips, which don't work in an embedded picture.
    pub(crate) fn still(mut self) -> Self {
        self.panels.iter_mut().for_each(|panel| panel.moments.clear());
        self
    }

    fn new(
        frame: Frame,
        legend: Legend,
        canvas: &Canvas<'_>,
        panels: Vec<Panel>,
        bottom: u64,
    ) -> Self {
        let times = canvas.times();
        let height = bottom + foot(&times);
        Self { frame, height, legend, unit: canvas.unit(), panels, bottom, times }
    }
}

/// The scale that all panels of a plot share.
struct Canvas<'c> {
    buckets: Timeline,
    offered: &'c [u64],
    axis: CountAxis,
    /// Number of buckets on the canvas, followed by the number before the report's first bucket.
    width: usize,
    before: usize,
}

impl<'c> Canvas<'c> {
    fn new(buckets: Timeline, offered: &'c [u64], steps: u64) -> Self {
        let missing = FEWEST.saturating_sub(buckets.count());
        // No bucket lies before the epoch.
        let earlier = usize::try_from(buckets.start() / buckets.length()).unwrap_or(usize::MAX);
        let most = offered.iter().copied().max().unwrap_or(0);
        Self {
            buckets,
            offered,
            axis: CountAxis::new(most, steps),
            width: buckets.count() + missing,
            before: (missing / 2).min(earlier),
        }
    }

    fn unit(&self) -> String {
        format!("requests per {}; times in UTC", bucket_name(self.buckets.length()))
    }

    fn times(&self) -> Vec<TimeTick> {
        let length = self.buckets.length();
        let from = self.buckets.start() - self.before as u64 * length;
        time_ticks(from, from + self.width as u64 * length)
    }

    fn panel(&self, series: &Series<'_>, y: u64, height: u64) -> Panel {
        let top = self.axis.top();
        let allowed = series.allowed;
        let tick = |count| CountTick { at: length(top - count, top), label: short(count) };
        Panel {
            heading: String::new(),
            y,
            height,
            width: self.width,
            top,
            counts: self.axis.ticks().map(tick).collect(),
            allowed: self.area(allowed),
            denied: self.between(allowed, self.offered),
            offered: self.area(self.offered),
            denials: self.marks(series.denied),
            moments: Vec::new(),
        }
    }

    /// Returns the outline of the area below the counts, in steps.
    fn area(&self, counts: &[u64]) -> String {
        let top = self.axis.top();
        let mut path = format!("M{},{top}", self.before);
        self.steps(&mut path, counts, 0);
        let _ = write!(path, "V{top}");
        path
    }

    /// Returns the outlines of the areas between the counts, where they differ.
    fn between(&self, low: &[u64], high: &[u64]) -> String {
        let mut path = String::new();
        let mut end = 0;
        while let Some(start) = (end..high.len()).find(|&index| high[index] > low[index]) {
            end =
                (start..high.len()).find(|&index| high[index] == low[index]).unwrap_or(high.len());
            let _ = write!(path, "M{},{}", self.before + start, self.axis.top() - low[start]);
            self.steps(&mut path, &high[start..end], start);
            // Return along the lower edge.
            let mut x = end;
            while x > start {
                let count = low[x - 1];
                let run = low[start..x].iter().rev().take_while(|&&other| other == count).count();
                x -= run;
                let _ = write!(path, "V{}H{}", self.axis.top() - count, self.before + x);
            }
            path.push('Z');
        }
        path
    }

    /// Draws steps along the counts from left to right, starting at bucket `start`.
    fn steps(&self, path: &mut String, counts: &[u64], start: usize) {
        let mut x = self.before + start;
        for run in counts.chunk_by(|a, b| a == b) {
            x += run.len();
            let _ = write!(path, "V{}H{x}", self.axis.top() - run[0]);
        }
    }

    /// Returns boxes of height 1 for the buckets with a count.
    fn marks(&self, counts: &[u64]) -> String {
        let mut path = String::new();
        let mut x = self.before;
        for run in counts.chunk_by(|a, b| (*a > 0) == (*b > 0)) {
            if run[0] > 0 {
                let _ = write!(path, "M{x},0h{}v1h-{}Z", run.len(), run.len());
            }
            x += run.len();
        }
        path
    }

    /// Returns the tooltips of the buckets with requests.
    fn moments(&self, series: &Series<'_>) -> Vec<Moment> {
        let length = self.buckets.length();
        let told = |(index, &offered): (usize, &u64)| {
            (offered > 0).then(|| {
                let at = moment(self.buckets.end_of(index) - length, length);
                let allowed = grouped(series.allowed[index]);
                let denied = grouped(series.denied[index]);
                let offered = grouped(offered);
                Moment {
                    x: self.before + index,
                    text: format!("{at}: {offered} offered, {allowed} allowed, {denied} denied"),
                }
            })
        };
        self.offered.iter().enumerate().filter_map(told).collect()
    }
}

fn foot(times: &[TimeTick]) -> u64 {
    FOOT[usize::from(times.iter().any(|time| time.below.is_some()))]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `count` buckets of a second, starting at 1970-01-01T00:01:40Z.
    fn seconds(count: u64) -> Timeline {
        Timeline::of([100, 99 + count].map(|second| second * 1_000_000))
    }

    #[test]
    fn areas_run_in_steps_along_the_counts() {
        let offered = [3, 3, 0, 5, 1, 1, 1, 1, 1, 1, 1, 1];
        let canvas = Canvas::new(seconds(12), &offered, 5);
        assert_eq!((canvas.width, canvas.before, canvas.axis.top()), (12, 0, 5));
        assert_eq!(canvas.area(&offered), "M0,5V2H2V5H3V0H4V4H12V5");
        let allowed = [1, 2, 0, 5, 1, 1, 0, 1, 1, 1, 1, 1];
        assert_eq!(
            canvas.between(&allowed, &offered),
            // The first two buckets, then the seventh.
            "M0,4V2H2V3H1V4H0ZM6,5V4H7V5H6Z"
        );
        assert_eq!(canvas.marks(&[2, 1, 0, 0, 0, 0, 1]), "M0,0h2v1h-2ZM6,0h1v1h-1Z");
    }

    #[test]
    fn a_short_log_stands_in_the_middle() {
        let canvas = Canvas::new(seconds(1), &[7], 5);
        assert_eq!((canvas.width, canvas.before), (12, 5));
        assert_eq!(canvas.area(&[7]), "M5,8V1H6V8");
        assert_eq!(canvas.marks(&[1]), "M5,0h1v1h-1Z");
        let first = &canvas.times()[0];
        assert_eq!((&*first.label, first.below.as_deref()), ("00:01:36", Some("1 Jan 1970")));
    }

    #[test]
    fn there_is_nothing_before_the_epoch() {
        let buckets = Timeline::of([2_000_000]);
        assert_eq!(Canvas::new(buckets, &[1], 5).before, 2);
    }
}
