//! The command line.

mod admin_token;
mod lists;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use sluicegate::Span;

use crate::commands::{AskedLimits, ServiceUrl, UsedArg};
use crate::replay::ReplayArgs;
use crate::setup::{CapArgs, SetupArgs, parse_address, parse_deadline, parse_grace};
pub(crate) use admin_token::AdminTokenArgs;
use lists::{BANS_HELP, END_HELP, HOLDERS_HELP};
pub(crate) use lists::{EndArgs, HoldersArgs, ListArgs};

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
    /// List the keys that a limit bans
    #[command(after_help = BANS_HELP)]
    Bans(ListArgs),
    /// Give back what a request holds, or a reservation
    #[command(after_help = CANCEL_HELP)]
    Cancel(HoldArgs),
    /// Take a cost from a key in any case, into debt: for what was used already
    #[command(after_help = CHARGE_HELP)]
    Charge(TakeArgs),
    /// Take a request's cost from a key, or be denied
    #[command(after_help = CHECK_HELP)]
    Check(TakeArgs),
    /// Work with config files
    Config(ConfigArgs),
    /// Hold a store against a file of cases with known answers
    #[command(after_help = "\
Examples:
  sluicegate conformance cases.jsonl
  sluicegate conformance cases.jsonl --store redis://127.0.0.1:6379 --json

Exit status: 0 all passed, 1 a case failed, 2 the file can't be read, 3 the store failed.")]
    Conformance(ConformanceArgs),
    /// End what a request has in flight, by its id and without its token
    #[command(after_help = END_HELP)]
    End(EndArgs),
    /// List what a key has in flight
    #[command(after_help = HOLDERS_HELP)]
    Holders(HoldersArgs),
    /// Answer what a check would; take nothing
    #[command(after_help = PEEK_HELP)]
    Peek(AskArgs),
    /// Give a cost back to a key
    #[command(after_help = REFUND_HELP)]
    Refund(AskArgs),
    /// End what is in flight: the rest of what a request holds was used
    #[command(after_help = RELEASE_HELP)]
    Release(HoldArgs),
    /// Let what a request holds live on
    #[command(after_help = RENEW_HELP)]
    Renew(RenewArgs),
    /// Play a recorded access log through policies
    Replay(ReplayArgs),
    /// Take a cost from a key for later, and say when to act
    #[command(after_help = RESERVE_HELP)]
    Reserve(ReserveArgs),
    /// Forget a key
    #[command(after_help = RESET_HELP)]
    Reset(AskArgs),
    /// Run the service: an HTTP API, metrics, and a page at /
    #[command(after_help = SERVE_HELP)]
    Serve(ServeArgs),
    /// Settle what a request holds for what was really used
    #[command(after_help = SETTLE_HELP)]
    Settle(SettleArgs),
    /// Take as much of a cost from a key as there is
    #[command(after_help = TAKE_HELP)]
    Take(TakeArgs),
    /// Lift a key's ban, and forget its denials and earlier bans
    #[command(after_help = UNBAN_HELP)]
    Unban(AskArgs),
}

macro_rules! hold_help {
    ($examples:literal) => {
        concat!(
            "Examples:\n",
            $examples,
            "

The token is what `check --hold 30s` or a service gave (`hold.token` in JSON). It needs no admin token.

Exit status: 0 done, 1 nothing is held (any more), 2 something to correct, 3 the store failed."
        )
    };
}

const CANCEL_HELP: &str = hold_help!(
    "  sluicegate cancel --server http://127.0.0.1:8080 --hold TOKEN
  sluicegate cancel --config limits.yaml --store redis://127.0.0.1:6379 --hold TOKEN"
);

const RELEASE_HELP: &str = hold_help!(
    "  sluicegate release --server http://127.0.0.1:8080 --hold TOKEN
  sluicegate release --config limits.yaml --store redis://127.0.0.1:6379 --hold TOKEN"
);

const RENEW_HELP: &str = hold_help!(
    "  sluicegate renew --server http://127.0.0.1:8080 --hold TOKEN --for 30s
  sluicegate renew --config limits.yaml --store redis://127.0.0.1:6379 --hold TOKEN --for 30s"
);

const SETTLE_HELP: &str = hold_help!(
    "  sluicegate settle --server http://127.0.0.1:8080 --hold TOKEN --used tokens=412
  sluicegate settle --config limits.yaml --store redis://127.0.0.1:6379 --hold TOKEN --used 3 --json"
);

const RESERVE_HELP: &str = ask_help!(
    "  sluicegate reserve --limit demo --key alice --within 2s --store redis://127.0.0.1:6379
  sluicegate reserve --server http://127.0.0.1:8080 --limit demo --key alice --within 500ms --json"
);

const ACQUIRE_HELP: &str = ask_help!(
    "  sluicegate acquire --limit demo --key alice --within 2s --store redis://127.0.0.1:6379
  sluicegate acquire --server http://127.0.0.1:8080 --limit demo --key alice --within 500ms && ./job
  sluicegate acquire --server http://127.0.0.1:8080 --limit jobs --key acme --within 1min --priority 1 --json"
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
  sluicegate check --config limits.yaml --limit llm --key alice --cost requests=1 --cost tokens=1200 --json
  sluicegate check --config limits.yaml --limit user --key alice --limit org --key acme --cost 3
  sluicegate check --server http://127.0.0.1:8080 --limit llm --key acme --cost tokens=1000 --hold 30s --json"
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

POST /v1/check, /v1/peek, /v1/take, /v1/acquire and /v1/reserve answer everyone; /v1/settle, /v1/cancel,
/v1/renew and /v1/release whoever has the token that these gave. POST /v1/charge, /v1/refund, /v1/reset,
/v1/ban, /v1/unban and /v1/end and GET /v1/bans, /v1/holders and /v1/recent are admin calls. With an admin
token they need `Authorization: Bearer TOKEN`, from everywhere. Without one they are open to every program
on this machine, and to no request that a proxy forwarded.
GET /v1/limits, /healthz (the process is up), /readyz (the store has answered, and the service isn't
stopping), /metrics.

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

    #[command(flatten)]
    pub(crate) admin_token: AdminTokenArgs,

    /// Report ready on /readyz before the store has answered for the first time
    #[arg(long)]
    pub(crate) ready_without_store: bool,

    /// What the service signs the tokens of reservations with, 32 bytes or more: services that share it
    /// cancel each other's reservations [default: made when the service starts]
    #[arg(long, value_name = "KEY", env = "SLUICEGATE_TOKEN_KEY", hide_env_values = true)]
    pub(crate) token_key: Option<String>,

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
    pub(crate) held: HeldArgs,

    /// How long to wait for the units at most, 10min or less
    #[arg(long, value_name = "SPAN", value_parser = parse_grace)]
    pub(crate) within: Span,

    /// The priority in the queue of a limit that counts what is in flight, from 0, the highest, to 15
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=15))]
    pub(crate) priority: u8,
}

/// Arguments of `reserve`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct ReserveArgs {
    #[command(flatten)]
    pub(crate) ask: AskArgs,

    /// How long the wait may be at most, 10min or less
    #[arg(long, value_name = "SPAN", value_parser = parse_grace)]
    pub(crate) within: Span,
}

/// Arguments of `charge`, `check` and `take`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct TakeArgs {
    #[command(flatten)]
    pub(crate) held: HeldArgs,

    /// An id of 1 to 255 bytes: for a minute, the same request with the same id is answered as before and
    /// charged nothing
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<String>,
}

/// Arguments of the commands that can hold what they take.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct HeldArgs {
    #[command(flatten)]
    pub(crate) ask: AskArgs,

    /// Hold what is taken for so long, 1ms to 1d, to settle it for what was really used; a limit that
    /// counts what is in flight always holds [default: as long as that says]
    #[arg(long, value_name = "SPAN")]
    pub(crate) hold: Option<Span>,
}

/// Arguments of `settle`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct SettleArgs {
    #[command(flatten)]
    pub(crate) of: HoldArgs,

    /// The units that were used of every policy, or POLICY=N for one, where policies that aren't named
    /// used what they were charged; may be repeated
    #[arg(long, value_name = "N", required = true)]
    pub(crate) used: Vec<UsedArg>,
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

/// Arguments of `renew`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct RenewArgs {
    #[command(flatten)]
    pub(crate) of: HoldArgs,

    /// How long it lives from now, 1ms to 1d
    #[arg(long = "for", value_name = "SPAN")]
    pub(crate) lasts: Span,
}

/// Arguments of the commands that go by a token.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct HoldArgs {
    /// The token of what is held
    #[arg(long, value_name = "TOKEN")]
    pub(crate) hold: String,

    #[command(flatten)]
    pub(crate) to: ToArgs,
}

/// Arguments of the commands that ask a limit.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct AskArgs {
    #[command(flatten)]
    pub(crate) asked: AskedLimits,

    #[command(flatten)]
    pub(crate) to: ToArgs,

    #[command(flatten)]
    pub(crate) admin_token: AdminTokenArgs,
}

/// Who is asked, and how the answer is told.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct ToArgs {
    #[command(flatten)]
    pub(crate) setup: SetupArgs,

    /// Print the answer as the service would
    #[arg(long)]
    pub(crate) json: bool,

    /// The URL of a running service to ask instead of a store: http://HOST:PORT or https://HOST:PORT
    #[arg(long, value_name = "URL", conflicts_with_all = ["config", "store"])]
    pub(crate) server: Option<ServiceUrl>,

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

        #[command(flatten)]
        caps: CapArgs,
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
