//! The log, on standard error.

use std::ffi::OsStr;
use std::io;

use sluicegate_core::printable;
use tracing_subscriber::EnvFilter;

use crate::output::complain;

/// Makes logs go to standard error.
pub(crate) fn log_to_stderr() {
    log_to_stderr_at(LOG_LEVEL, false);
}

/// Makes logs go to standard error. `RUST_LOG` takes precedence over the level.
pub(crate) fn log_to_stderr_at(level: &str, is_json: bool) {
    let wanted = std::env::var_os(EnvFilter::DEFAULT_ENV).filter(|wanted| !wanted.is_empty());
    let filter = wanted.and_then(|wanted| log_filter(&wanted));
    let filter = filter.unwrap_or_else(|| EnvFilter::new(level));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(io::stderr)
        // If the reader of the log is gone, reporting it would panic.
        .log_internal_errors(false);
    // Keep an existing subscriber.
    let _ = if is_json { subscriber.json().try_init() } else { subscriber.try_init() };
}

/// Default level of the log, if `RUST_LOG` isn't set.
const LOG_LEVEL: &str = "info";

/// Parses `RUST_LOG`. If it is invalid, standard error says so.
fn log_filter(wanted: &OsStr) -> Option<EnvFilter> {
    let wanted = wanted.to_string_lossy();
    let filter = EnvFilter::builder().parse(&wanted);
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
