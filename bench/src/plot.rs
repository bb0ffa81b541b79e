//! Bar charts as SVG.

use std::fmt::Write as _;

use crate::goals::{Better, Chart};
use crate::measure::{Row, digits};

const WIDTH: f64 = 860.0;
const NAMES: f64 = 250.0;
const BARS: f64 = 460.0;
const ROW: f64 = 26.0;
const TOP: f64 = 56.0;
/// Where every target stands, as a part of the bars' width.
const TARGET: f64 = 0.6;

/// One bar per goal, as long as its value is of its target: units differ, the target line is one.
pub fn bars(chart: Chart, rows: &[Row]) -> String {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.goal.chart == chart).collect();
    let height = TOP + ROW * rows.len() as f64 + 12.0;
    let line = NAMES + BARS * TARGET;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"12\" y=\"24\" font-size=\"16\" font-weight=\"bold\">{}</text>\n\
         <text x=\"{line}\" y=\"44\" text-anchor=\"middle\" fill=\"#555555\">target</text>\n",
        chart.title()
    );
    for (index, row) in rows.iter().enumerate() {
        let y = TOP + ROW * index as f64;
        let _ = write!(svg, "{}", bar(row, y));
    }
    let _ = write!(
        svg,
        "<line x1=\"{line}\" y1=\"{}\" x2=\"{line}\" y2=\"{}\" stroke=\"#222222\" \
         stroke-dasharray=\"4 3\"/>\n</svg>\n",
        TOP - 8.0,
        height - 8.0
    );
    svg
}

fn bar(row: &Row, y: f64) -> String {
    let part = row
        .value
        .map_or(0.0, |value| if row.goal.target == 0.0 { value } else { value / row.goal.target });
    let width = (part * TARGET).clamp(0.0, 1.0) * BARS;
    let color = if row.met { "#2f7d4f" } else { "#b3442e" };
    let sign = match row.goal.better {
        Better::Lower => "≤",
        Better::Higher => "≥",
    };
    let value = row.value.map_or("not measured".to_owned(), digits);
    let baseline = y + 14.0;
    format!(
        "<text x=\"12\" y=\"{baseline}\">{}</text>\n\
         <rect x=\"{NAMES}\" y=\"{y}\" width=\"{width:.1}\" height=\"18\" fill=\"{color}\"/>\n\
         <text x=\"{}\" y=\"{baseline}\">{value} ({sign} {})</text>\n",
        row.goal.name,
        NAMES + BARS + 12.0,
        row.goal.target
    )
}
