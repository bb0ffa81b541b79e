//! The command line.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use sluicegate::Span;

use crate::commands::{CostArg, ServiceUrl};
use crate::replay::ReplayArgs;
use crate::setup::{SetupArgs, parse_address, parse_deadline, parse_grace};

macro_rules! ask_help {
    ($examples:literal) => {
        concat!(
            "Examples:\n",
            $examples,
            "

The embedded store (memory:) lives as long as one command: every key is fresh in it. --server asks a
running service instead of a store.

Exit status: 0 allowed or done, 1 denied, 2 something to correct, 3 the store failed."
        )
    };
}

/// A rate limiter: every algorithm exact to the integer, the same answer in every store.
#[derive(Debug, Parser)]
#[command(name = "sluicegate", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  sluicegate serve
  sluicegate serve --config limits.yaml --listen 0.0.0.0:8080
  sluicegate check --config limits.yaml --limit login --key alice
  sluicegate check --server http://127.0.0.1:8080 --limit demo --key alice
  sluicegate config check limits.yaml

Exit status: 0 allowed or done, 1 denied or failed, 2 something to correct, 3 the store failed.")]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub(crate) enum Command {
    /// Wait until a key has a request's cost to take, or be denied at once if that takes too long
    #[command(after_help = ACQUIRE_HELP)]
    Acquire(AcquireArgs),
    /// Refuse a key for a time, whatever it has done
    #[command(after_help = BAN_HELP)]
    Ban(BanArgs),
    /// Take a cost from a key in any case, into debt: for what was used already
    #[command(after_help = CHARGE_HELP)]
    Charge(AskArgs),
    /// Take a request's cost from a key, or be denied
    #[command(after_help = CHECK_HELP)]
    Check(AskArgs),
    /// Work with config files
    Config(ConfigArgs),
    /// Hold a store against a file of cases with known answers
    #[command(after_help = "\
Examples:
  sluicegate conformance cases.jsonl
  sluicegate conformance cases.jsonl --store redis://127.0.0.1:6379 --json

Exit status: 0 all passed, 1 a case failed, 2 the file can't be read, 3 the store failed.")]
    Conformance(ConformanceArgs),
    /// Answer what a check would; take nothing
    #[command(after_help = PEEK_HELP)]
    Peek(AskArgs),
    /// Give a cost back to a key
    #[command(after_help = REFUND_HELP)]
    Refund(AskArgs),
    /// Play a recorded access log through policies
    Replay(ReplayArgs),
    /// Forget a key
    #[command(after_help = RESET_HELP)]
    Reset(AskArgs),
    /// Run the service: an HTTP API, metrics, and a page at /
    #[command(after_help = SERVE_HELP)]
    Serve(ServeArgs),
    /// Take as much of a cost from a key as there is
    #[command(after_help = TAKE_HELP)]
    Take(AskArgs),
    /// Lift a key's ban, and forget its denials and earlier bans
    #[command(after_help = UNBAN_HELP)]
    Unban(AskArgs),
}

const ACQUIRE_HELP: &str = ask_help!(
    "  sluicegate acquire --limit demo --key alice --within 2s --store redis://127.0.0.1:6379
  sluicegate acquire --server http://127.0.0.1:8080 --limit demo --key alice --within 500ms && ./job"
);

const CHARGE_HELP: &str = ask_help!(
    "  sluicegate charge --limit demo --key alice --cost 5 --store redis://127.0.0.1:6379
  sluicegate charge --server http://127.0.0.1:8080 --limit llm --key alice --cost tokens=1200"
);

const BAN_HELP: &str = ask_help!(
    "  sluicegate ban --config limits.yaml --limit login --key alice --for 1h
  sluicegate ban --server http://127.0.0.1:8080 --limit login --key alice --for 7d"
);

const UNBAN_HELP: &str = ask_help!(
    "  sluicegate unban --config limits.yaml --limit login --key alice
  sluicegate unban --server http://127.0.0.1:8080 --limit login --key alice"
);

const CHECK_HELP: &str = ask_help!(
    "  sluicegate check --limit demo --key alice --store redis://127.0.0.1:6379
  sluicegate check --config limits.yaml --limit llm --key alice --cost requests=1 --cost tokens=1200 --json"
);

const PEEK_HELP: &str = ask_help!(
    "  sluicegate peek --limit demo --key alice --store redis://127.0.0.1:6379
  sluicegate peek --config limits.yaml --limit llm --key alice --cost requests=1 --cost tokens=1200 --json"
);

const REFUND_HELP: &str = ask_help!(
    "  sluicegate refund --limit demo --key alice --store redis://127.0.0.1:6379
  sluicegate refund --config limits.yaml --limit llm --key alice --cost tokens=300"
);

const RESET_HELP: &str = ask_help!(
    "  sluicegate reset --limit demo --key alice --store redis://127.0.0.1:6379
  sluicegate reset --config limits.yaml --limit llm --key alice --json"
);

const TAKE_HELP: &str = ask_help!(
    "  sluicegate take --limit demo --key alice --cost 50 --store redis://127.0.0.1:6379
  sluicegate take --server http://127.0.0.1:8080 --limit demo --key alice --cost 50 --json"
);

const SERVE_HELP: &str = "\
Examples:
  sluicegate serve
  curl -d '{\"limit\":\"demo\",\"key\":\"alice\"}' http://127.0.0.1:8080/v1/check

  SLUICEGATE_ADMIN_TOKEN=secret sluicegate serve --config limits.yaml --listen 0.0.0.0:8080

POST /v1/check, /v1/peek, /v1/take and /v1/acquire answer everyone. POST /v1/charge, /v1/refund,
/v1/reset, /v1/ban and /v1/unban and GET /v1/recent need `Authorization: Bearer TOKEN` unless the service listens on a
loopback address.
GET /v1/limits, /healthz (the process is up), /readyz (the store can decide), /metrics.

SIGTERM stops the service without losing a request: see --drain. SIGINT does so without the waits.";

/// Arguments of `serve`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) setup: SetupArgs,

    /// The address to listen on; port 0 takes a free one [default: 127.0.0.1:8080, or what the
    /// config file says]
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub(crate) listen: Option<SocketAddr>,

    /// The token that /v1/charge, /v1/refund, /v1/reset, /v1/ban, /v1/unban and /v1/recent ask for
    #[arg(long, value_name = "TOKEN", env = "SLUICEGATE_ADMIN_TOKEN", hide_env_values = true)]
    pub(crate) admin_token: Option<String>,

    /// A second address to listen on, where nothing but /healthz and /readyz is answered, whatever
    /// happens at the first one
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub(crate) health: Option<SocketAddr>,

    /// How long the service goes on accepting connections once SIGTERM tells it to stop, while
    /// /readyz sends clients to other instances
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = parse_grace)]
    pub(crate) drain: Span,

    /// How long requests in flight may take to finish once the service accepts no more
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = parse_deadline)]
    pub(crate) shutdown_timeout: Span,
}

/// Arguments of `acquire`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct AcquireArgs {
    #[command(flatten)]
    pub(crate) ask: AskArgs,

    /// How long to wait for the units at most, 10min or less
    #[arg(long, value_name = "SPAN", value_parser = parse_grace)]
    pub(crate) within: Span,
}

/// Arguments of `ban`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct BanArgs {
    #[command(flatten)]
    pub(crate) ask: AskArgs,

    /// How long the ban lasts from now on, 1s to 30d
    #[arg(long = "for", value_name = "SPAN")]
    pub(crate) lasts: Span,
}

/// Arguments of the commands that ask a limit.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct AskArgs {
    /// The name of the limit
    #[arg(long, value_name = "NAME")]
    pub(crate) limit: String,

    /// Who is limited: any text
    #[arg(long, value_name = "KEY")]
    pub(crate) key: OsString,

    /// The units the request takes of every policy, or POLICY=N for one, where policies that aren't
    /// named cost nothing unless N says what; may be repeated
    #[arg(long, value_name = "N")]
    pub(crate) cost: Vec<CostArg>,

    /// An id of 1 to 255 bytes: for a minute, the same request with the same id is answered as before and
    /// charged nothing (check, charge, take)
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<String>,

    #[command(flatten)]
    pub(crate) setup: SetupArgs,

    /// Print the answer as the service would
    #[arg(long)]
    pub(crate) json: bool,

    /// The URL of a running service to ask instead of a store: http://HOST:PORT or https://HOST:PORT
    #[arg(long, value_name = "URL", conflicts_with_all = ["config", "store"])]
    pub(crate) server: Option<ServiceUrl>,

    /// The admin token, which a service asks for at a charge, refund, reset, ban or unban
    #[arg(long, value_name = "TOKEN", env = "SLUICEGATE_ADMIN_TOKEN", hide_env_values = true)]
    pub(crate) admin_token: Option<String>,

    /// How long the store may take, its connection included [default: 1s, or what the config file
    /// says if that is longer]; or the service [default: 5s]
    #[arg(long, value_name = "SPAN", value_parser = parse_deadline)]
    pub(crate) deadline: Option<Span>,
}

/// Arguments of `config`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct ConfigArgs {
    /// What to do with them.
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

/// What to do with config files.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub(crate) enum ConfigCommand {
    /// Report every error of a file with its line and column
    #[command(after_help = "\
Examples:
  sluicegate config check limits.yaml
  sluicegate config check limits.yaml --connect

Exit status: 0 when it can be used, also with warnings; 2 when it can't; 3 when its store can't decide.")]
    Check {
        /// The file
        file: PathBuf,

        /// Connect to the store of the file, too, and let every limit decide about a key of its own,
        /// `sluicegate-config-check`, which is forgotten again
        #[arg(long)]
        connect: bool,
    },
}

/// Arguments of `conformance`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct ConformanceArgs {
    /// The cases, one JSON object a line
    pub(crate) file: PathBuf,

    /// The store to hold against them: memory or redis://HOST:PORT
    #[arg(long, value_name = "URL", default_value = "memory")]
    pub(crate) store: String,

    /// Print one JSON object instead of lines
    #[arg(long)]
    pub(crate) json: bool,

    /// How long one call to the store may take
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = parse_deadline)]
    pub(crate) deadline: Span,
}
