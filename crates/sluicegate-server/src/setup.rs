//! Loads the config that the arguments select.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::Args;
use sluicegate::Config;
use sluicegate::config::ConfigCaps;
use sluicegate::config::StoreUrl;
use sluicegate::store::Span;

use crate::output::Failure;

/// Which limits, in which store.
#[derive(Args, Clone, Debug)]
pub(crate) struct SetupArgs {
    /// The config file with the limits [default: one limit `demo` with token_bucket 10/s burst 20]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// The URL of the store, `memory:` or redis://HOST:PORT; replaces that of the config file
    // A `String`: an argument parser would print the value, password and all, in its errors.
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,

    #[command(flatten)]
    pub(crate) caps: CapArgs,
}

/// The size that the config file may have.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct CapArgs {
    /// The maximum size of the config file, together with the files that it names [default: 67108864]
    #[arg(long, value_name = "BYTES", value_parser = parse_cap)]
    config_max_bytes: Option<NonZeroUsize>,

    /// The maximum number of values in the config file and the files that it names [default: 5000000]
    #[arg(long, value_name = "N", value_parser = parse_cap)]
    config_max_values: Option<NonZeroUsize>,
}

impl CapArgs {
    /// Returns the caps; the defaults of a config replace missing ones.
    pub(crate) fn get(self) -> ConfigCaps {
        let caps = ConfigCaps::default();
        let bytes = self.config_max_bytes.map_or(caps.max_bytes, NonZeroUsize::get);
        let values = self.config_max_values.map_or(caps.max_values, NonZeroUsize::get);
        caps.max_bytes(bytes).max_values(values)
    }

    /// Reads a config file within the caps.
    ///
    /// # Errors
    /// Returns every problem of the file.
    pub(crate) fn load(self, file: &Path) -> Result<Config, Failure> {
        Config::load_within(file, self.get()).map_err(|errors| Failure::usages(errors.problems()))
    }
}

impl SetupArgs {
    /// Reads the config, and replaces its store with that of the arguments.
    ///
    /// # Errors
    /// Returns an error if the file or the URL is invalid.
    pub(crate) fn config(&self) -> Result<Config, Failure> {
        let mut config = match &self.config {
            Some(path) => self.caps.load(path)?,
            None => Config::default(),
        };
        if let Some(store) = self.store_url()? {
            config.store = store;
        }
        Ok(config)
    }

    /// Returns the store of the arguments.
    ///
    /// # Errors
    /// Returns an error if the URL is invalid.
    pub(crate) fn store_url(&self) -> Result<Option<StoreUrl>, Failure> {
        self.store.as_deref().map(store_url).transpose()
    }
}

/// Parses a store URL from the command line.
///
/// # Errors
/// Returns an error if the URL is invalid. The message never contains a password.
pub(crate) fn store_url(text: &str) -> Result<StoreUrl, Failure> {
    text.parse().map_err(|error| Failure::usage(format_args!("--store: {error}")))
}

/// Parses a deadline from the command line: 1 ms to 60 s, as in a config file.
///
/// # Errors
/// Returns a message that says what to write.
pub(crate) fn parse_deadline(text: &str) -> Result<Span, String> {
    let span: Span =
        text.parse().map_err(|error: sluicegate::error::SpanError| error.to_string())?;
    if (Span::MILLISECOND..=Span::MINUTE).contains(&span) {
        Ok(span)
    } else {
        Err(format!("is {span}, but must be from 1ms to 60s"))
    }
}

/// Parses the name of a process.
///
/// # Errors
/// Returns a message that says what to write.
pub(crate) fn parse_name(text: &str) -> Result<String, String> {
    const MOST: usize = 100;
    if text.is_empty() || text.len() > MOST || text.chars().any(char::is_control) {
        return Err(format!("must have 1 to {MOST} bytes, without control characters"));
    }
    Ok(text.to_owned())
}

/// Parses a cap from the command line.
///
/// # Errors
/// Returns a message that says what to write.
fn parse_cap(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| format!("write a whole number from 1 to {}", usize::MAX))
}

/// Parses a time to continue before stopping: 0 to 10 min.
///
/// # Errors
/// Returns a message that says what to write.
pub(crate) fn parse_grace(text: &str) -> Result<Span, String> {
    let span: Span =
        text.parse().map_err(|error: sluicegate::error::SpanError| error.to_string())?;
    if span.as_micros() <= 10 * Span::MINUTE.as_micros() {
        Ok(span)
    } else {
        Err(format!("is {span}, but must be from 0s to 10min"))
    }
}
