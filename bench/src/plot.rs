//! The goals as bar charts.

use sluicegate_replay::chart::{Bar, BarChart};

use crate::goals::Chart;
use crate::measure::{Row, digits};

/// Returns one bar per goal. Its length is the value divided by the target: units differ, and the
/// target line is at one.
pub fn bars(chart: Chart, rows: &[Row]) -> BarChart {
    BarChart {
        title: chart.title().to_owned(),
        mark: "target".to_owned(),
        good: "met".to_owned(),
        bad: "not met".to_owned(),
        bars: rows.iter().filter(|row| row.goal.chart == chart).map(bar).collect(),
    }
}

fn bar(row: &Row) -> Bar {
    let part = row
        .value
        .map_or(0.0, |value| if row.goal.target == 0.0 { value } else { value / row.goal.target });
    let value = row.value.map_or("not measured".to_owned(), digits);
    Bar {
        name: row.goal.name.to_owned(),
        label: format!("{value} ({})", row.goal.bound()),
        // The chart ends long before a number that the cast would truncate.
        permille: (part * 1e3).round() as u64,
        is_good: row.met,
    }
}

#[cfg(test)]
mod tests {
    use crate::goals::GOALS;

    use super::*;

    #[test]
    fn each_goal_is_measured_by_its_own_target() {
        let row = |name: &str, value: Option<f64>| {
            let goal = GOALS.iter().find(|goal| goal.name == name).unwrap();
            let met = value.is_some_and(|value| goal.is_met(value));
            Row { goal, value, met, note: String::new(), why: String::new() }
        };
        let rows = [
            row("embedded-bytes-per-key", Some(36.0)),
            row("embedded-allocations", Some(0.0)),
            row("redis-denial", Some(0.3)),
            row("embedded-governor-batch", None),
            row("embedded-governor-same-clock", Some(f64::INFINITY)),
        ];
        let bars = bars(Chart::Embedded, &rows).bars;
        let drawn: Vec<_> =
            bars.iter().map(|bar| (bar.permille, bar.is_good, bar.label.as_str())).collect();
        assert_eq!(
            drawn,
            [
                (750, true, "36.0 (≤ 48)"),
                (0, true, "0.00 (≤ 0)"),
                (0, false, "not measured (≥ 3)"),
                (u64::MAX, true, "inf (≥ 1.5)"),
            ]
        );
    }
}
