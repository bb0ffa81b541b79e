//! Charts as SVG, in one frame and one style, light and dark. A chart is a complete picture, and
//! can also be embedded in a page.

mod bars;
mod count_axis;
mod over_time;
mod time_axis;

pub use bars::{Bar, BarChart};
pub(crate) use over_time::{Legend, OverTime, Series};
pub(crate) use time_axis::moment;

/// The title and description of a chart. The frame's template also reads the chart's `height` in
/// pixels; the width is that of the page.
#[derive(Debug)]
pub(crate) struct Frame {
    title: String,
    /// Text alternative for readers who can't see the chart.
    description: String,
}

impl Frame {
    pub(crate) fn new(title: impl Into<String>, description: impl Into<String>) -> Self {
        Self { title: title.into(), description: description.into() }
    }
}
