//! The arguments of `sluicegate envoy`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use sluicegate::config::ListenAddress;
use sluicegate::store::Span;

use crate::cli::AdminTokenArgs;
use crate::decisions::DecisionLogArg;
use crate::logging::LogFormat;
use crate::setup::{parse_deadline, parse_grace};

/// Arguments of `envoy`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct EnvoyArgs {
    #[command(subcommand)]
    pub(super) command: Option<EnvoyCommand>,

    #[command(flatten)]
    pub(super) run: RunArgs,
}

#[derive(Debug, Subcommand)]
pub(super) enum EnvoyCommand {
    /// Check files of rules, and print a line for each rule
    #[command(after_help = "\
Examples:
  sluicegate envoy check /srv/runtime_data/current/config
  sluicegate envoy check shop.yaml edge.yaml --strict-compat

Exit status: 0 accepted, 2 refused.")]
    Check(CheckArgs),
}

/// Arguments of `envoy` as a service.
#[derive(Args, Debug)]
pub(super) struct RunArgs {
    /// The folder of the files with rules; replaces RUNTIME_ROOT, RUNTIME_SUBDIRECTORY and RUNTIME_APPDIRECTORY
    #[arg(long, value_name = "DIR")]
    pub(super) config: Option<PathBuf>,

    /// The URL of the store, redis://HOST:PORT; replaces REDIS_URL [default: `memory:`]
    // A `String`: an argument parser would print the value, password and all, in its errors.
    #[arg(long, value_name = "URL")]
    pub(super) store: Option<String>,

    /// The address of the rate limit service; replaces GRPC_HOST and GRPC_PORT [default: :8081]
    #[arg(long, value_name = "ADDR")]
    pub(super) grpc: Option<ListenAddress>,

    /// The address of /json and /healthcheck; replaces HOST and PORT [default: :8080]
    #[arg(long, value_name = "ADDR")]
    pub(super) http: Option<ListenAddress>,

    /// The address of /rlconfig and /stats; replaces DEBUG_HOST and DEBUG_PORT [default: :6070]
    #[arg(long, value_name = "ADDR")]
    pub(super) debug: Option<ListenAddress>,

    /// The address of /metrics; replaces PROMETHEUS_ADDR [default: :9090, if it is free]
    #[arg(long, value_name = "ADDR")]
    pub(super) metrics: Option<ListenAddress>,

    /// The address of the page and of admin calls [default: none]
    #[arg(long, value_name = "ADDR")]
    pub(super) admin: Option<ListenAddress>,

    #[command(flatten)]
    pub(super) admin_token: AdminTokenArgs,

    #[command(flatten)]
    pub(super) decision_log: DecisionLogArg,

    /// Add the counters of envoyproxy/ratelimit to /metrics, under its names
    #[arg(long)]
    pub(super) incumbent_metrics: bool,

    /// Refuse files with `x_sluicegate` blocks, as envoyproxy/ratelimit does
    #[arg(long)]
    pub(super) strict_compat: bool,

    /// The time after SIGTERM in which the service still accepts connections, while health checks send clients to
    /// other instances
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = parse_grace)]
    pub(super) drain: Span,

    /// The maximum time for requests in flight once the service accepts no more connections
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = parse_deadline)]
    pub(super) shutdown_timeout: Span,

    /// The format of the log on standard error; replaces LOG_FORMAT [default: text]
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(super) log_format: Option<LogFormat>,
}

/// Arguments of `envoy check`.
#[derive(Args, Debug)]
pub(super) struct CheckArgs {
    /// The files, or folders of files, that are loaded together
    #[arg(required = true, value_name = "PATH")]
    pub(super) paths: Vec<PathBuf>,

    /// Refuse `x_sluicegate` blocks, as envoyproxy/ratelimit does
    #[arg(long)]
    pub(super) strict_compat: bool,

    /// Let several files have the same domain, as with MERGE_DOMAIN_CONFIG
    #[arg(long)]
    pub(super) merge_domains: bool,

    /// Leave out files and folders that begin with a dot, as with RUNTIME_IGNOREDOTFILES
    #[arg(long)]
    pub(super) ignore_dotfiles: bool,
}
