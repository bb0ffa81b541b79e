//! From arguments to a config and its limiters.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use sluicegate::config::ConfigErrors;
use sluicegate::{Config, Span, StoreUrl};

use crate::output::Failure;

/// Which limits, in which store.
#[derive(Args, Clone, Debug)]
pub(crate) struct SetupArgs {
    /// The config file with the limits; without it there is one, `demo`: token_bucket 10/s burst 20
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Where state lives: memory: or redis://HOST:PORT; wins over the config file
    // A `String`: an argument parser would print the value, password and all, in its errors.
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
}

impl SetupArgs {
    /// Reads the config, and puts the store of the arguments into it.
    ///
    /// # Errors
    /// When the file or the URL can't be used.
    pub(crate) fn config(&self) -> Result<Config, Failure> {
        let mut config = match &self.config {
            Some(path) => Config::load(path).map_err(|errors| config_failure(&errors))?,
            None => Config::default(),
        };
        if let Some(store) = self.store_url()? {
            config.store = store;
        }
        Ok(config)
    }

    /// The store of the arguments.
    ///
    /// # Errors
    /// When the URL can't be used.
    pub(crate) fn store_url(&self) -> Result<Option<StoreUrl>, Failure> {
        self.store.as_deref().map(store_url).transpose()
    }
}

/// Reads a store URL given on the command line.
///
/// # Errors
/// When it is none; the message never holds a password.
pub(crate) fn store_url(text: &str) -> Result<StoreUrl, Failure> {
    text.parse().map_err(|error| Failure::usage(format_args!("--store: {error}")))
}

/// An address to listen on.
///
/// # Errors
/// Says what to write.
pub(crate) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "write an IP address and a port such as 127.0.0.1:8080".to_owned())
}

/// A deadline on the command line: 1 ms to 60 s, like in a config file.
///
/// # Errors
/// Says what to write.
pub(crate) fn parse_deadline(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error: sluicegate::SpanError| error.to_string())?;
    if (Span::MILLISECOND..=Span::MINUTE).contains(&span) {
        Ok(span)
    } else {
        Err(format!("is {span}, but must be from 1ms to 60s"))
    }
}

/// How long to go on before stopping: 0 to 10 min.
///
/// # Errors
/// Says what to write.
pub(crate) fn parse_grace(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error: sluicegate::SpanError| error.to_string())?;
    if span.as_micros() <= 10 * Span::MINUTE.as_micros() {
        Ok(span)
    } else {
        Err(format!("is {span}, but must be from 0s to 10min"))
    }
}

/// Every problem of a config file, as messages of their own.
#[must_use]
pub(crate) fn config_failure(errors: &ConfigErrors) -> Failure {
    let messages: Vec<_> = errors.problems().iter().map(ToString::to_string).collect();
    Failure::usage(messages.join(&Failure::NEXT.to_string()))
}
