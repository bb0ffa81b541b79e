//! Events as lines that show no more than they are, and not too often.

use std::fmt;

use sluicegate_core::printable;
use tokio::time::Instant;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::rate_limit::RateLimit;
use crate::printable_json::printable_json;

/// A format whose events are one line, without characters that a terminal would interpret or not show.
///
/// Clients choose keys, and fields that are displayed or in a message aren't escaped by the format itself. The format
/// also leaves out events beyond the rate limit. A filter can't: one that drops an event also drops later ones.
#[derive(Debug)]
pub(super) struct OneLine<F> {
    format: F,
    limit: &'static RateLimit,
    escape: fn(&str) -> String,
}

impl<F> OneLine<F> {
    /// Escapes as Rust does: `\n`, `\u{1b}`.
    pub(super) fn text(format: F, limit: &'static RateLimit) -> Self {
        Self { format, limit, escape: printable }
    }

    /// Escapes as JSON does, in an object whose control characters are escaped already.
    pub(super) fn json(format: F, limit: &'static RateLimit) -> Self {
        Self { format, limit, escape: |line| printable_json(line).into_owned() }
    }
}

impl<S, N, F> FormatEvent<S, N> for OneLine<F>
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    N: for<'w> FormatFields<'w> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if !self.limit.admits(event, Instant::now()) {
            return Ok(());
        }
        let mut line = String::new();
        self.format.format_event(context, Writer::new(&mut line), event)?;
        writeln!(writer, "{}", (self.escape)(line.trim_end()))
    }
}
