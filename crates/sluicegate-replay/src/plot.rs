//! Plots of requests over time, as SVG.

use std::fmt::Write as _;

use askama::Template;

use crate::axis::{CountAxis, TimeTick, bucket_name, moment, time_ticks};
use crate::keys::shown;
use crate::numbers::{counted, grouped, length, percent, short};
use crate::report::{Counts, Offered};
use crate::subject::Subject;

/// A plot: one panel a policy, above one axis of time.
#[derive(Debug, Template)]
#[template(path = "replay/plot.svg")]
pub(crate) struct Plot {
    title: String,
    description: String,
    height: u64,
    legend: Legend,
    /// What the buckets count.
    unit: String,
    panels: Vec<Panel>,
    /// Where the panels end.
    bottom: u64,
    times: Vec<TimeTick>,
}

/// How many requests of each kind there were, when it's the same for the whole plot.
#[derive(Debug, Default)]
struct Legend {
    allowed: String,
    denied: String,
    offered: String,
}

/// The requests that one policy decided. In its drawings one bucket is 1 wide and one request is
/// 1 high.
#[derive(Debug)]
struct Panel {
    heading: String,
    /// Where it begins.
    y: u64,
    height: u64,
    /// The width in buckets, and the height in requests.
    width: usize,
    top: u64,
    counts: Vec<CountTick>,
    allowed: String,
    denied: String,
    offered: String,
    /// Where at least one request was denied.
    denials: String,
    moments: Vec<Moment>,
}

#[derive(Debug)]
struct CountTick {
    at: String,
    label: String,
}

/// What a bucket tells of itself.
#[derive(Debug)]
struct Moment {
    x: usize,
    text: String,
}

/// Fewer buckets than this would be drawn too wide to be taken for moments.
const FEWEST: usize = 12;

/// The height of legend and unit above the panels.
const HEAD: u64 = 52;
/// The height of the labels below them, of one line and of two.
const FOOT: [u64; 2] = [34, 51];
const HIGH: u64 = 190;
const LOW: u64 = 64;
/// The height of a panel's heading.
const HEADING: u64 = 26;
const BETWEEN: u64 = 18;
/// The characters of a heading that are shown.
const CHARACTERS: usize = 90;

impl Plot {
    /// What one policy did.
    pub(crate) fn single(subject: &Subject<'_>, offered: &Offered) -> Self {
        let counts = subject.counts;
        let canvas = Canvas::new(offered, 5);
        let mut panel = canvas.panel(counts, HEAD, HIGH);
        panel.moments = canvas.moments(counts);
        let times = canvas.times();
        Self {
            title: format!("Requests over time under {}", shown(&subject.heading, CHARACTERS)),
            description: summary(counts),
            height: HEAD + HIGH + foot(&times),
            legend: Legend {
                allowed: grouped(counts.allowed),
                denied: grouped(counts.denied),
                offered: grouped(counts.requests),
            },
            unit: canvas.unit(),
            panels: vec![panel],
            bottom: HEAD + HIGH,
            times,
        }
    }

    /// What several policies did, one below the other.
    pub(crate) fn comparison(subjects: &[Subject<'_>], offered: &Offered) -> Self {
        let canvas = Canvas::new(offered, 3);
        let mut bottom = HEAD - BETWEEN;
        let mut panels = Vec::with_capacity(subjects.len());
        let mut description = Vec::with_capacity(subjects.len());
        for Subject { heading, counts, .. } in subjects {
            let y = bottom + BETWEEN + HEADING;
            bottom = y + LOW;
            let share = percent(counts.denied, counts.requests);
            let heading = format!("{share} % denied by {}", shown(heading, CHARACTERS));
            panels.push(Panel { heading: heading.clone(), ..canvas.panel(counts, y, LOW) });
            description.push(heading);
        }
        let times = canvas.times();
        Self {
            title: "Requests over time, policy by policy".to_owned(),
            description: description.join("; "),
            height: bottom + foot(&times),
            legend: Legend::default(),
            unit: canvas.unit(),
            panels,
            bottom,
            times,
        }
    }
}

/// What the panels of a plot share.
struct Canvas<'r> {
    offered: &'r Offered,
    axis: CountAxis,
    /// The buckets on the canvas, and those before the first of the report.
    width: usize,
    before: usize,
}

impl<'r> Canvas<'r> {
    fn new(offered: &'r Offered, steps: u64) -> Self {
        let buckets = offered.buckets;
        let missing = FEWEST.saturating_sub(buckets.count());
        // There is nothing before the epoch.
        let earlier = usize::try_from(buckets.start() / buckets.length()).unwrap_or(usize::MAX);
        let most = offered.offered.iter().copied().max().unwrap_or(0);
        Self {
            offered,
            axis: CountAxis::new(most, steps),
            width: buckets.count() + missing,
            before: (missing / 2).min(earlier),
        }
    }

    fn unit(&self) -> String {
        format!("requests per {}; times in UTC", bucket_name(self.offered.bucket_us))
    }

    fn times(&self) -> Vec<TimeTick> {
        let length = self.offered.bucket_us;
        let from = self.offered.buckets.start() - self.before as u64 * length;
        time_ticks(from, from + self.width as u64 * length)
    }

    fn panel(&self, counts: &Counts, y: u64, height: u64) -> Panel {
        let top = self.axis.top();
        let allowed = &counts.timeline.allowed;
        let tick = |count| CountTick { at: length(top - count, top), label: short(count) };
        Panel {
            heading: String::new(),
            y,
            height,
            width: self.width,
            top,
            counts: self.axis.ticks().map(tick).collect(),
            allowed: self.area(allowed),
            denied: self.between(allowed, &self.offered.offered),
            offered: self.area(&self.offered.offered),
            denials: self.marks(&counts.timeline.denied),
            moments: Vec::new(),
        }
    }

    /// The outline of everything below the counts, in steps.
    fn area(&self, counts: &[u64]) -> String {
        let top = self.axis.top();
        let mut path = format!("M{},{top}", self.before);
        self.steps(&mut path, counts, 0);
        let _ = write!(path, "V{top}");
        path
    }

    /// The outlines of what lies between the counts, wherever they differ.
    fn between(&self, low: &[u64], high: &[u64]) -> String {
        let mut path = String::new();
        let mut end = 0;
        while let Some(start) = (end..high.len()).find(|&index| high[index] > low[index]) {
            end =
                (start..high.len()).find(|&index| high[index] == low[index]).unwrap_or(high.len());
            let _ = write!(path, "M{},{}", self.before + start, self.axis.top() - low[start]);
            self.steps(&mut path, &high[start..end], start);
            // And back along the lower edge.
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

    /// Steps along the counts from left to right, the first of which is that of bucket `start`.
    fn steps(&self, path: &mut String, counts: &[u64], start: usize) {
        let mut x = self.before + start;
        for run in counts.chunk_by(|a, b| a == b) {
            x += run.len();
            let _ = write!(path, "V{}H{x}", self.axis.top() - run[0]);
        }
    }

    /// Boxes of height 1 wherever there is a count.
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

    /// What the buckets with requests tell of themselves.
    fn moments(&self, counts: &Counts) -> Vec<Moment> {
        let length = self.offered.bucket_us;
        let told = |(index, &offered): (usize, &u64)| {
            (offered > 0).then(|| {
                let at = moment(self.offered.buckets.end_of(index) - length, length);
                let allowed = grouped(counts.timeline.allowed[index]);
                let denied = grouped(counts.timeline.denied[index]);
                let offered = grouped(offered);
                Moment {
                    x: self.before + index,
                    text: format!("{at}: {offered} offered, {allowed} allowed, {denied} denied"),
                }
            })
        };
        self.offered.offered.iter().enumerate().filter_map(told).collect()
    }
}

fn foot(times: &[TimeTick]) -> u64 {
    FOOT[usize::from(times.iter().any(|time| time.below.is_some()))]
}

/// What came of the requests, in one sentence.
pub(crate) fn summary(counts: &Counts) -> String {
    let requests = counted(counts.requests, "request");
    if counts.denied == 0 {
        return format!("None of {requests} denied");
    }
    format!(
        "{} of {requests} denied ({} %), from {} of {}",
        grouped(counts.denied),
        percent(counts.denied, counts.requests),
        grouped(counts.keys_denied),
        counted(counts.keys, "key"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::Timeline;

    /// Buckets of a second with so many requests, from 1970-01-01T00:01:40Z on.
    fn offered(counts: &[u64]) -> Offered {
        let times = [100, 99 + counts.len() as u64].map(|second| second * 1_000_000);
        let buckets = Timeline::new(times.into_iter());
        Offered {
            from: String::new(),
            bucket_us: buckets.length(),
            offered: counts.to_vec(),
            buckets,
        }
    }

    #[test]
    fn areas_run_in_steps_along_the_counts() {
        let offered = offered(&[3, 3, 0, 5, 1, 1, 1, 1, 1, 1, 1, 1]);
        let canvas = Canvas::new(&offered, 5);
        assert_eq!((canvas.width, canvas.before, canvas.axis.top()), (12, 0, 5));
        assert_eq!(canvas.area(&offered.offered), "M0,5V2H2V5H3V0H4V4H12V5");
        let allowed = [1, 2, 0, 5, 1, 1, 0, 1, 1, 1, 1, 1];
        assert_eq!(
            canvas.between(&allowed, &offered.offered),
            // The first two buckets, then the seventh.
            "M0,4V2H2V3H1V4H0ZM6,5V4H7V5H6Z"
        );
        assert_eq!(canvas.marks(&[2, 1, 0, 0, 0, 0, 1]), "M0,0h2v1h-2ZM6,0h1v1h-1Z");
    }

    #[test]
    fn a_short_log_stands_in_the_middle() {
        let offered = offered(&[7]);
        let canvas = Canvas::new(&offered, 5);
        assert_eq!((canvas.width, canvas.before), (12, 5));
        assert_eq!(canvas.area(&offered.offered), "M5,8V1H6V8");
        assert_eq!(canvas.marks(&[1]), "M5,0h1v1h-1Z");
        let first = &canvas.times()[0];
        assert_eq!((&*first.label, first.below.as_deref()), ("00:01:36", Some("1 Jan 1970")));
    }

    #[test]
    fn there_is_nothing_before_the_epoch() {
        let buckets = Timeline::new([2_000_000].into_iter());
        let offered =
            Offered { from: String::new(), bucket_us: 1_000_000, offered: vec![1], buckets };
        assert_eq!(Canvas::new(&offered, 5).before, 2);
    }
}
