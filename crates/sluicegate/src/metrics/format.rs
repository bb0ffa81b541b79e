//! The text formats of metrics, and which one a client prefers.

use std::fmt::Write as _;

use mediatype::names::{_STAR, APPLICATION, PLAIN, TEXT};
use mediatype::{MediaType, MediaTypeList, Name, ReadParams as _};

/// A text format of metrics.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum MetricsFormat {
    /// The Prometheus text format, version 0.0.4, which every scraper reads.
    #[default]
    Text,
    /// OpenMetrics, version 1.0.0.
    OpenMetrics,
}

impl MetricsFormat {
    /// Returns the format that a client prefers by the `Accept` field of its request.
    ///
    /// That is [`MetricsFormat::OpenMetrics`] only if its quality is above that of the plain text format.
    ///
    /// ```
    /// use sluicegate::metrics::MetricsFormat;
    ///
    /// assert_eq!(MetricsFormat::preferred("text/plain"), MetricsFormat::Text);
    /// assert_eq!(MetricsFormat::preferred("*/*"), MetricsFormat::Text);
    /// let accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3";
    /// assert_eq!(MetricsFormat::preferred(accept), MetricsFormat::OpenMetrics);
    /// ```
    #[must_use]
    pub fn preferred(accept: &str) -> Self {
        let quality = |format: Self| {
            let ranges = MediaTypeList::new(accept).filter_map(Result::ok);
            // The quality of the most specific range that matches; the highest one of equally specific ranges.
            let matching = ranges.filter_map(|range| {
                let specificity = format.specificity(&range)?;
                Some((specificity, quality(&range)?))
            });
            matching.max().map_or(0, |(_, quality)| quality)
        };
        if quality(Self::OpenMetrics) > quality(Self::Text) {
            Self::OpenMetrics
        } else {
            Self::Text
        }
    }

    /// Returns the content type.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Returns a page in this format. `open_metrics` is OpenMetrics text without the final `# EOF`, such as
    /// [`Metrics::encode`](super::Metrics::encode) writes.
    #[must_use]
    pub fn page(self, open_metrics: &str) -> String {
        match self {
            Self::Text => plain(open_metrics),
            Self::OpenMetrics => format!("{open_metrics}# EOF\n"),
        }
    }

    /// Returns how specifically a media range names this format; `None` if it doesn't.
    fn specificity(self, range: &MediaType<'_>) -> Option<u8> {
        const VERSION: Name<'_> = Name::new_unchecked("version");
        const OPENMETRICS_TEXT: Name<'_> = Name::new_unchecked("openmetrics-text");
        let (ty, subty, versions) = match self {
            Self::Text => (TEXT, PLAIN, &["0.0.4"][..]),
            // The metric type and the time units that 1.0.0 added to 0.0.1 aren't used here.
            Self::OpenMetrics => (APPLICATION, OPENMETRICS_TEXT, &["1.0.0", "0.0.1"][..]),
        };
        if range.ty == ty && range.subty == subty {
            let Some(version) = range.get_param(VERSION) else { return Some(2) };
            return versions.contains(&&*version.unquoted_str()).then_some(3);
        }
        match (range.ty == ty, range.ty == _STAR, range.subty == _STAR) {
            (true, _, true) => Some(1),
            (_, true, true) => Some(0),
            _ => None,
        }
    }
}

/// Returns the quality of a media range in thousandths; `None` if it is malformed.
fn quality(range: &MediaType<'_>) -> Option<u16> {
    const Q: Name<'_> = Name::new_unchecked("q");
    let Some(quality) = range.get_param(Q) else { return Some(1_000) };
    let (whole, fraction) = quality.as_str().split_once('.').unwrap_or((quality.as_str(), ""));
    if fraction.len() > 3 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let thousandths = format!("{fraction:0<3}").parse::<u16>().ok()?;
    match (whole, thousandths) {
        ("0", thousandths) => Some(thousandths),
        ("1", 0) => Some(1_000),
        _ => None,
    }
}

/// Converts OpenMetrics text to the Prometheus text format.
///
/// The samples are equal. The formats differ in the names of families: here a family has the name of its samples.
fn plain(open_metrics: &str) -> String {
    let mut plain = String::with_capacity(open_metrics.len() + open_metrics.len() / 16);
    let (mut help, mut is_histogram) = (None, false);
    for line in open_metrics.lines() {
        if let Some(about) = line.strip_prefix("# HELP ") {
            // The type follows, and determines the name.
            help = about.split_once(' ');
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|about| about.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                kind => ("", kind),
            };
            is_histogram = kind == "histogram";
            // Writing to a string doesn't fail.
            if let Some((_, help)) = help.take().filter(|(of, _)| *of == name) {
                let _ = writeln!(plain, "# HELP {name}{suffix} {help}");
            }
            let _ = writeln!(plain, "# TYPE {name}{suffix} {kind}");
        } else if !line.starts_with("# ") {
            // Only OpenMetrics has exemplars. The labels of other families may contain such text.
            let exemplar = if is_histogram { line.find(" # {") } else { None };
            plain.push_str(&line[..exemplar.unwrap_or(line.len())]);
            plain.push('\n');
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_sent_only_to_clients_that_prefer_it() {
        use MetricsFormat::{OpenMetrics, Text};
        let prometheus_2 = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let prometheus_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let protobuf_first = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4";
        for (accept, expected) in [
            ("", Text),
            ("text/plain", Text),
            ("text/plain;version=0.0.4", Text),
            ("*/*", Text),
            ("text/*", Text),
            ("text/html, application/xhtml+xml, */*;q=0.8", Text),
            ("application/json", Text),
            (prometheus_2, OpenMetrics),
            (prometheus_3, OpenMetrics),
            (protobuf_first, OpenMetrics),
            ("application/openmetrics-text", OpenMetrics),
            ("APPLICATION/OpenMetrics-Text; Version=\"1.0.0\"; Q=0.5", OpenMetrics),
            ("application/*", OpenMetrics),
            ("application/openmetrics-text, text/plain", Text),
            ("application/openmetrics-text;q=0.3, text/plain;q=0.5", Text),
            ("application/openmetrics-text;q=0.5, text/plain;q=0.5", Text),
            ("application/openmetrics-text;q=0.501, text/plain;q=0.5", OpenMetrics),
            ("application/openmetrics-text;q=0, */*", Text),
            ("*/*, text/plain;q=0", OpenMetrics),
            ("application/openmetrics-text;version=2.0.0", Text),
            ("application/openmetrics-text;q=2, text/plain;q=0.1", Text),
            ("application/openmetrics-text;q=nan", Text),
            ("application/openmetrics-text;q=1.001", Text),
            ("application/openmetrics-text;q=", Text),
            (",,;;q=\"", Text),
            ("é, application/openmetrics-text", OpenMetrics),
        ] {
            assert_eq!(MetricsFormat::preferred(accept), expected, "{accept}");
        }
    }

    #[test]
    fn a_plain_family_is_called_like_its_samples() {
        let open_metrics = "# HELP a_b Counts.\n# TYPE a_b counter\na_b_total{l=\"x\"} 1\n\
                            # HELP build About.\n# TYPE build info\nbuild_info{v=\"1\"} 1\n\
                            # HELP t_seconds Takes.\n# TYPE t_seconds histogram\n# UNIT t_seconds seconds\n\
                            t_seconds_bucket{le=\"+Inf\"} 0 # {trace_id=\"1\"} 0.5 7.000\n";
        assert_eq!(
            MetricsFormat::Text.page(open_metrics),
            "# HELP a_b_total Counts.\n# TYPE a_b_total counter\na_b_total{l=\"x\"} 1\n\
             # HELP build_info About.\n# TYPE build_info gauge\nbuild_info{v=\"1\"} 1\n\
             # HELP t_seconds Takes.\n# TYPE t_seconds histogram\n\
             t_seconds_bucket{le=\"+Inf\"} 0\n"
        );
        assert_eq!(MetricsFormat::OpenMetrics.page("a 1\n"), "a 1\n# EOF\n");
    }
}
