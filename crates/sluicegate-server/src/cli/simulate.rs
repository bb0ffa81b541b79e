//! Arguments of `simulate`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use sluicegate::error::SpanError;
use sluicegate::store::Span;
use sluicegate_client::ServiceUrl;

use super::{AdminTokenArgs, LOCAL_SERVICE};
use crate::setup::{CapArgs, parse_deadline};
use crate::simulate::From;

pub(super) const SIMULATE_HELP: &str = "\
Examples:
  sluicegate simulate --server http://127.0.0.1:8080 --limit login --policy 'gcra 50/min burst 30' --since 30min
  sluicegate simulate --server http://127.0.0.1:8080 --config next.yaml
  sluicegate simulate --log decisions.jsonl --config next.yaml --since 1d --json

It changes nothing and charges nothing. States are empty at the beginning of the time. A service may require the
admin token.

Exit status: 0 done, 2 something to correct, 3 the service failed.";

/// Arguments of `simulate`.
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("proposal").args(["config", "policy"]).required(true).multiple(true)))]
#[non_exhaustive]
pub(crate) struct SimulateArgs {
    /// The config file to try
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// The only limit to simulate
    #[arg(long, value_name = "NAME")]
    pub(crate) limit: Option<String>,

    /// A policy to try in place of those of the limit; may be repeated: together they decide
    #[arg(long, value_name = "SPEC", num_args = 1.., requires = "limit")]
    pub(crate) policy: Vec<String>,

    /// The time to go back
    #[arg(long, value_name = "SPAN", default_value = "1h", value_parser = parse_since)]
    pub(crate) since: Span,

    /// The URL of the service that has recorded decisions: http://HOST:PORT or https://HOST:PORT
    #[arg(
        long,
        value_name = "URL",
        default_value = LOCAL_SERVICE,
        conflicts_with = "log"
    )]
    pub(crate) server: ServiceUrl,

    /// A decision log to read instead of calling a service
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,

    /// The decisions of the service to use [default: those that cover more]
    #[arg(long, value_enum, value_name = "SOURCE", conflicts_with = "log")]
    pub(crate) from: Option<From>,

    /// Let each decision of a sample stand for all that it was drawn from: all numbers are estimates
    #[arg(long)]
    pub(crate) scale: bool,

    /// Print the result as JSON, as the service does
    #[arg(long)]
    pub(crate) json: bool,

    /// The deadline of a call, connecting included [default: 45s]
    #[arg(long, value_name = "SPAN", value_parser = parse_deadline)]
    pub(crate) deadline: Option<Span>,

    #[command(flatten)]
    pub(crate) caps: CapArgs,

    #[command(flatten)]
    pub(crate) admin_token: AdminTokenArgs,
}

fn parse_since(text: &str) -> Result<Span, String> {
    text.parse().map_err(|error: SpanError| error.to_string())
}
