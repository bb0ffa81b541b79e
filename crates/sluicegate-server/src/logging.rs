//! The log, on standard error.
//!
//! An event is one line, as text or as a JSON object. Each message has a [`RateLimit`], so an outage doesn't fill a disk.

#[cfg(test)]
mod fields;
mod one_line;
mod rate_limit;

use std::ffi::OsStr;
use std::io;
use std::sync::LazyLock;
use std::time::Duration;

use clap::ValueEnum;
use sluicegate_core::printable;
use tokio::time::Instant;
use tracing::Subscriber;
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, fmt};

use crate::output::complain;
use crate::traces::Traces;
use one_line::OneLine;
use rate_limit::{LeftOut, RateLimit};

/// The format of the log.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Time, level, origin, message and fields, for people.
    #[default]
    Text,
    /// A JSON object on each line.
    Json,
}

/// The default level of the log, if `RUST_LOG` isn't set.
pub(crate) const LOG_LEVEL: &str = "info";

/// Log target of decisions, which have no rate limit.
pub(crate) const DECISIONS: &str = "sluicegate::decisions";

/// Begins logging to standard error, and collecting spans for `traces`. `RUST_LOG` takes precedence over the level. Must
/// be called in a runtime.
pub(crate) fn start(level: &str, format: LogFormat, traces: Option<&Traces>) {
    let wanted = std::env::var_os(EnvFilter::DEFAULT_ENV).filter(|wanted| !wanted.is_empty());
    let filter = wanted.and_then(|wanted| log_filter(&wanted));
    let filter = filter.unwrap_or_else(|| EnvFilter::new(without_sdk(level)));
    // Keep an existing subscriber.
    let subscriber = tracing_subscriber::registry().with(traces.map(Traces::layer));
    let lines = lines(format, &RATE_LIMIT, io::stderr);
    let _ = subscriber.with(lines.with_filter(filter)).try_init();
    tokio::spawn(report_left_out());
}

/// Returns the number of events that were left out, because their message was logged too often.
pub(crate) fn left_out() -> u64 {
    RATE_LIMIT.left_out()
}

/// The rate limit of this process' log.
static RATE_LIMIT: LazyLock<RateLimit> = LazyLock::new(RateLimit::default);

/// Returns the layer that writes a line for each event.
fn lines<S, W>(
    format: LogFormat,
    limit: &'static RateLimit,
    writer: W,
) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    W: for<'w> fmt::MakeWriter<'w> + Send + Sync + 'static,
{
    // If the reader of the log is gone, reporting it would panic.
    let layer = fmt::layer().with_ansi(false).with_writer(writer).log_internal_errors(false);
    match format {
        LogFormat::Text => Box::new(layer.map_event_format(|format| OneLine::text(format, limit))),
        LogFormat::Json => {
            let layer = layer.json().flatten_event(true);
            let layer = layer.with_current_span(false).with_span_list(false);
            Box::new(layer.map_event_format(|format| OneLine::json(format, limit)))
        }
    }
}

/// Logs regularly how many events were left out.
async fn report_left_out() {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        for LeftOut { count, target, message } in RATE_LIMIT.ended(Instant::now()) {
            tracing::warn!(
                target: RateLimit::TARGET,
                left_out = count,
                origin = target,
                "events of the last 10 s were left out, because they are like this one: {message}"
            );
        }
    }
}

/// Returns directives without the events of OpenTelemetry's SDK, unless the directives name their targets. These events
/// have no message that is of use to operators, and the exporter of spans logs its failures.
fn without_sdk(directives: &str) -> String {
    // The last directive for a target counts, and one for a longer target takes precedence.
    format!("opentelemetry=off,{directives}")
}

/// Parses `RUST_LOG`. If it is invalid, standard error says so.
fn log_filter(wanted: &OsStr) -> Option<EnvFilter> {
    let wanted = wanted.to_string_lossy();
    let filter = EnvFilter::builder().parse(without_sdk(&wanted));
    if let Err(error) = &filter {
        complain(format_args!(
            "note: {} is `{}`, which is ignored ({error}), so the level is {LOG_LEVEL}: write a \
             level (debug) or levels of modules (info,sluicegate=debug)",
            EnvFilter::DEFAULT_ENV,
            printable(&wanted)
        ));
    }
    filter.ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use serde_json::Value;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the lines that `log` writes.
    fn written(format: LogFormat, limit: &'static RateLimit, log: impl FnOnce()) -> Vec<String> {
        let written = Written::default();
        let writer = written.clone();
        let lines = lines(format, limit, move || writer.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), log);
        let bytes = written.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
    }

    fn rate_limit() -> &'static RateLimit {
        Box::leak(Box::default())
    }

    const HOSTILE: &str =
        "a\nERROR b\r\u{1b}[2J\u{7}\u{9b}\u{202e}\u{2028}\u{2066}\"\\é\u{1f980}\u{e0001}";

    #[test]
    fn text_is_one_line_whatever_clients_send() {
        let lines = written(LogFormat::Text, rate_limit(), || {
            tracing::info!(key = HOSTILE, shown = %HOSTILE, debugged = ?HOSTILE, "said {HOSTILE}");
        });
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert!(!line.chars().any(char::is_control), "{line}");
        assert!(!line.contains(['\u{202e}', '\u{2028}', '\u{2066}', '\u{e0001}']), "{line}");
        assert!(
            line.contains(r"said a\nERROR b\r\u{1b}[2J")
                || line.contains(r"said a\nERROR b\r\x1b[2J"),
            "{line}"
        );
        assert!(line.contains("é\u{1f980}") && line.contains(" INFO "), "{line}");
    }

    #[test]
    fn json_is_one_object_a_line_whatever_clients_send() {
        let lines = written(LogFormat::Json, rate_limit(), || {
            tracing::warn!(key = HOSTILE, shown = %HOSTILE, count = 7, "said {HOSTILE}");
        });
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert!(!line.chars().any(char::is_control), "{line}");
        assert!(!line.contains(['\u{202e}', '\u{2028}', '\u{2066}', '\u{e0001}']), "{line}");
        let value: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&value["key"], &value["shown"]), (&HOSTILE.into(), &HOSTILE.into()));
        assert_eq!(value["message"], format!("said {HOSTILE}"));
        assert_eq!((&value["level"], &value["count"]), (&"WARN".into(), &7.into()));
        assert_eq!(value["target"], module_path!());
        assert!(value["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')), "{value}");
    }

    #[test]
    fn events_of_the_sdk_are_in_the_log_only_if_the_variable_names_them() {
        for (wanted, expected) in [
            ("trace", 0),
            ("info,opentelemetry=warn", 1),
            ("info,opentelemetry_sdk=warn", 1),
            ("info,opentelemetry-otlp=warn", 0),
        ] {
            let (written, filter) = (Written::default(), log_filter(wanted.as_ref()).unwrap());
            let writer = written.clone();
            let lines = lines(LogFormat::Text, rate_limit(), move || writer.clone());
            let subscriber = tracing_subscriber::registry().with(lines.with_filter(filter));
            tracing::subscriber::with_default(subscriber, || {
                tracing::warn!(target: "opentelemetry_sdk", name = "BatchSpanProcessor.ExportError");
                tracing::warn!("another event");
            });
            let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
            assert_eq!(text.matches("BatchSpanProcessor").count(), expected, "{wanted}: {text}");
            assert_eq!(text.matches("another event").count(), 1, "{wanted}: {text}");
        }
    }

    #[test]
    fn a_message_that_repeats_is_left_out_and_decisions_are_not() {
        let limit = rate_limit();
        let lines = written(LogFormat::Text, limit, || {
            for number in 0..1_000 {
                tracing::error!(number, "the store fails");
                tracing::info!(target: DECISIONS, number, "allowed");
            }
            tracing::error!("another message");
        });
        let count = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
        assert_eq!((count("the store fails"), count("another message")), (10, 1));
        assert_eq!((count("allowed"), limit.left_out()), (1_000, 990));
    }
}
