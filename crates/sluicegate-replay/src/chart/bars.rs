//! Bars compared with one mark.

use std::fmt;

use askama::Template;
use sluicegate_core::printable;

use super::Frame;
use crate::numbers::length;

/// A chart of bars compared with one mark. Their units may differ. Its [`Display`] is the SVG.
///
/// ```
/// use sluicegate_replay::chart::{Bar, BarChart};
///
/// let bar = |name: &str, label: &str, permille, is_good| Bar {
///     name: name.to_owned(),
///     label: label.to_owned(),
///     permille,
///     is_good,
/// };
/// let chart = BarChart {
///     title: "Speed".to_owned(),
///     mark: "target".to_owned(),
///     good: "met".to_owned(),
///     bad: "missed".to_owned(),
///     bars: vec![bar("reading", "120 ms", 800, true), bar("writing", "2.2 s", 1_100, false)],
/// };
/// let svg = chart.to_string();
/// assert!(svg.starts_with("<svg ") && svg.contains("reading: 120 ms"));
/// ```
///
/// [`Display`]: fmt::Display
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BarChart {
    /// Title of the chart.
    pub title: String,
    /// Label of the line across all bars, such as `target`.
    pub mark: String,
    /// Legend of the bars in the first colour, such as `met`.
    pub good: String,
    /// Legend of the bars in the second colour, such as `missed`.
    pub bad: String,
    /// Bars, from top to bottom.
    pub bars: Vec<Bar>,
}

/// One bar of a [`BarChart`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Bar {
    /// Name of the bar.
    pub name: String,
    /// Value of the bar, as text at its end.
    pub label: String,
    /// Length of the bar, in thousandths of the distance to the mark. From 1,600 the bar fills the
    /// chart.
    pub permille: u64,
    /// Whether the bar has the first colour.
    pub is_good: bool,
}

/// A bar chart, laid out.
#[derive(Template)]
#[template(path = "chart/bars.svg")]
struct Drawing {
    frame: Frame,
    height: u64,
    mark: String,
    /// Position of the mark, in percent of the width.
    mark_at: String,
    good: String,
    bad: String,
    /// Top of the rows.
    top: u64,
    rows: Vec<Row>,
    /// Height of all rows.
    rows_height: u64,
}

struct Row {
    name: String,
    label: String,
    /// Baseline of the row's text, followed by the top of its bar.
    text_y: u64,
    bar_y: u64,
    /// Length of the bar, in percent of the width.
    length: String,
    class: &'static str,
}

/// Distance to the mark, followed by the whole width, in thousandths of that distance.
const MARK: u64 = 1_000;
const WHOLE: u64 = 1_600;

/// Height of title and legend above the rows, followed by that of the space below them.
const HEAD: u64 = 56;
const FOOT: u64 = 12;
/// Height of a row. The text is above the bar, so both fit on a narrow screen.
const ROW: u64 = 36;
const TEXT: u64 = 12;
const BAR: u64 = 18;

impl Drawing {
    fn new(chart: &BarChart) -> Self {
        let title = printable(&chart.title);
        let told: Vec<_> = chart
            .bars
            .iter()
            .map(|bar| format!("{}: {}", printable(&bar.name), printable(&bar.label)))
            .collect();
        let row = |(index, bar): (u64, &Bar)| Row {
            name: printable(&bar.name),
            label: printable(&bar.label),
            text_y: index * ROW + TEXT,
            bar_y: index * ROW + BAR,
            length: length(bar.permille.min(WHOLE), WHOLE),
            class: if bar.is_good { "allowed" } else { "denied" },
        };
        let rows: Vec<_> = (0..).zip(&chart.bars).map(row).collect();
        let rows_height = ROW * rows.len() as u64;
        Self {
            frame: Frame::new(title, told.join("; ")),
            height: HEAD + rows_height + FOOT,
            mark: printable(&chart.mark),
            mark_at: length(MARK, WHOLE),
            good: printable(&chart.good),
            bad: printable(&chart.bad),
            top: HEAD,
            rows,
            rows_height,
        }
    }
}

impl fmt::Display for BarChart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Drawing::new(self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use roxmltree::Document;

    use super::*;

    fn chart(bars: &[(&str, u64, bool)]) -> BarChart {
        let bar = |&(name, permille, is_good): &(&str, u64, bool)| Bar {
            name: name.to_owned(),
            label: format!("{permille} ‰"),
            permille,
            is_good,
        };
        BarChart {
            title: "Bars & <others>".to_owned(),
            mark: "target".to_owned(),
            good: "met".to_owned(),
            bad: "missed".to_owned(),
            bars: bars.iter().map(bar).collect(),
        }
    }

    /// Returns the class and the length of each bar, as drawn.
    fn drawn(svg: &str) -> Vec<(String, String)> {
        let document = Document::parse(svg).unwrap();
        let bars = document.descendants().filter(|node| node.attribute("height") == Some("10"));
        let attribute =
            |name| move |bar: &roxmltree::Node<'_, '_>| bar.attribute(name).unwrap().to_owned();
        bars.map(|bar| (attribute("class")(&bar), attribute("width")(&bar))).collect()
    }

    #[test]
    fn a_bar_is_as_long_as_its_part_of_the_way_to_the_mark() {
        let svg =
            chart(&[("none", 0, true), ("all", 1_000, true), ("far", u64::MAX, false)]).to_string();
        let bar = |class: &str, width: &str| (class.to_owned(), width.to_owned());
        assert_eq!(
            drawn(&svg),
            [bar("allowed", "0.00%"), bar("allowed", "62.50%"), bar("denied", "100.00%")]
        );
        assert!(svg.contains("x1=\"62.50%\" x2=\"62.50%\""), "the mark stands where `all` ends");
    }

    #[test]
    fn text_of_others_is_text() {
        let svg = chart(&[("\u{1b}[2J<script>\"&", 1, true)]).to_string();
        let document = Document::parse(&svg).unwrap();
        let texts: Vec<_> = document.descendants().filter_map(|node| node.text()).collect();
        assert!(texts.contains(&"\\u{1b}[2J<script>\"&"), "{texts:?}");
        assert!(texts.contains(&"Bars & <others>"));
    }

    #[test]
    fn a_chart_without_bars_is_a_picture_too() {
        assert_eq!(drawn(&chart(&[]).to_string()), []);
    }
}
