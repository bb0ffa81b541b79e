//! Charts as SVG: one frame and one style, by day and by night. A chart is a picture by itself, and
//! can stand in a page as it is.

mod bars;
mod count_axis;
mod over_time;
mod time_axis;

pub use bars::{Bar, BarChart};
pub(crate) use over_time::{Legend, OverTime, Series};
pub(crate) use time_axis::moment;

/// What every chart says of itself; the frame's template asks the chart for its `height` besides,
/// in pixels: the width is that of the page.
#[derive(Debug)]
pub(crate) struct Frame {
    title: String,
    /// What the chart shows, for those who can't see it.
    description: String,
}

impl Frame {
    pub(crate) fn new(title: impl Into<String>, description: impl Into<String>) -> Self {
        Self { title: title.into(), description: description.into() }
    }
}
