//! The log, on standard error.

use std::ffi::OsStr;
use std::io;

use sluicegate_core::printable;
use tracing_subscriber::EnvFilter;

use crate::output::complain;

/// Makes logs go to standard error.
pub(crate) fn log_to_stderr() {
    let wanted = std::env::var_os(EnvFilter::DEFAULT_ENV).filter(|wanted| !wanted.is_empty());
    let filter = wanted.and_then(|wanted| log_filter(&wanted));
    let filter = filter.unwrap_or_else(|| EnvFilter::new(LOG_LEVEL));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(io::stderr)
        // If the reader of the log is gone, reporting it would panic.
        .log_internal_errors(false);
    // Keep an existing subscriber.
    let _ = subscriber.try_init();
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
