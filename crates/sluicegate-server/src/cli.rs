//! The command line.

mod admin_token;
mod health;
mod listen;
mod lists;
mod overrides;
mod recent;
#[cfg(test)]
mod reference;
mod simulate;
mod top;

use std::path::PathBuf;

use clap::{
    Args, Command as Definition, CommandFactory as _, FromArgMatches as _, Parser, Subcommand,
};
use sluicegate::store::Span;
use sluicegate_client::ServiceUrl;

use crate::commands::{AskedLimits, UsedArg};
use crate::decisions::{DecisionLogArg, RecorderArg};
#[cfg(feature = "envoy")]
use crate::envoy::EnvoyArgs;
use crate::logging::LogFormat;
use crate::replay::ReplayArgs;
use crate::setup::{CapArgs, SetupArgs, parse_deadline, parse_grace, parse_name};
pub(crate) use admin_token::AdminTokenArgs;
use health::HEALTH_HELP;
pub(crate) use health::HealthArgs;
use listen::ListenArgs;
use lists::{BANS_HELP, HOLDERS_HELP, KEYS_HELP, REVOKE_HELP};
pub(crate) use lists::{HoldersArgs, KeysArgs, ListArgs, RevokeArgs};
use overrides::OVERRIDE_HELP;
pub(crate) use overrides::{
    AuditArgs, OverrideArgs, OverrideCommand, OverrideListArgs, OverrideOfArgs, OverrideSetArgs,
    PageArgs, SaidArgs,
};
use recent::RECENT_HELP;
pub(crate) use recent::RecentArgs;
use simulate::SIMULATE_HELP;
pub(crate) use simulate::SimulateArgs;
use top::TOP_HELP;
pub(crate) use top::TopArgs;

macro_rules! ask_help {
    ($examples:literal) => {
        concat!(
            "Examples:\n",
            $examples,
            "

The command connects to the store of the config file or of --store, or sends the request to a running
service: --server.

Exit status: 0 allowed or done, 1 denied, 2 invalid arguments or configuration, 3 the store failed.
After SIGINT or SIGTERM it is 130 or 143."
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

Exit status: 0 allowed or done, 1 denied or failed, 2 invalid arguments or configuration, 3 the store failed.")]
pub(crate) struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Reads the arguments of the process. Prints help or an error and exits if they ask for that.
    pub(crate) fn read() -> Self {
        let mut definition = with_any_values(Self::command());
        let matches = definition.get_matches_mut();
        Self::from_arg_matches(&matches)
            .unwrap_or_else(|error| error.format(&mut definition).exit())
    }
}

/// Accepts values that begin with a dash: keys, names, tokens and files may be any text. An option with
/// several values, or with a value that may be missing, ends at the next option instead.
fn with_any_values(definition: Definition) -> Definition {
    definition
        .mut_args(|arg| {
            let has_one = arg
                .get_num_args()
                .is_none_or(|count| (count.min_values(), count.max_values()) == (1, 1));
            let takes_one = arg.get_action().takes_values() && has_one && !arg.is_positional();
            if takes_one { arg.allow_hyphen_values(true) } else { arg }
        })
        .mut_subcommands(with_any_values)
}

/// The command to run.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub(crate) enum Command {
    /// Wait until a key has the units of a request, and take them; deny immediately if the wait is too long
    #[command(after_help = ACQUIRE_HELP)]
    Acquire(AcquireArgs),
    /// Ban a key for a time, regardless of its denials
    #[command(after_help = BAN_HELP)]
    Ban(BanArgs),
    /// List the keys that a limit bans
    #[command(after_help = BANS_HELP)]
    Bans(ListArgs),
    /// Return the units of a hold or of a reservation
    #[command(after_help = CANCEL_HELP)]
    Cancel(HoldArgs),
    /// Charge units unconditionally, into debt if necessary: for units that were already used
    #[command(after_help = CHARGE_HELP)]
    Charge(TakeArgs),
    /// Take the units of a request from a key, or deny it
    #[command(after_help = CHECK_HELP)]
    Check(TakeArgs),
    /// Print a script that completes commands in a shell
    #[command(after_help = COMPLETIONS_HELP)]
    Completions(CompletionsArgs),
    /// Work with config files
    Config(ConfigArgs),
    /// Check a store against a file of cases with known answers
    #[command(after_help = "\
Examples:
  sluicegate conformance cases.jsonl
  sluicegate conformance cases.jsonl --store redis://127.0.0.1:6379 --json

Exit status: 0 all passed, 1 a case failed, 2 the file can't be read, 3 the store failed.")]
    Conformance(ConformanceArgs),
    /// Take the place of envoyproxy/ratelimit: its files, variables, ports and answers
    #[cfg(feature = "envoy")]
    Envoy(EnvoyArgs),
    /// Explain how a request would be decided, and the origin of each number, without taking units
    #[command(after_help = EXPLAIN_HELP)]
    Explain(AskArgs),
    /// List the processes of a running service, and which of them have another configuration
    #[command(after_help = FLEET_HELP)]
    Fleet(ServiceArgs),
    /// Say whether a running service is ready
    #[command(after_help = HEALTH_HELP)]
    Health(HealthArgs),
    /// List the holds of a key
    #[command(after_help = HOLDERS_HELP)]
    Holders(HoldersArgs),
    /// List the keys that have a state under a limit
    #[command(after_help = KEYS_HELP)]
    Keys(KeysArgs),
    /// List the limits of a running service
    #[command(after_help = LIMITS_HELP)]
    Limits(ServiceArgs),
    /// Write the pages of the manual into a folder
    #[command(after_help = MAN_HELP)]
    Man(ManArgs),
    /// Give a limit or a key other numbers at run time, or list and end that
    #[command(after_help = OVERRIDE_HELP)]
    Override(OverrideArgs),
    /// Answer as a check would, without taking units
    #[command(after_help = PEEK_HELP)]
    Peek(AskArgs),
    /// Deny all requests for a key for a time
    #[command(after_help = PAUSE_HELP)]
    Pause(PauseArgs),
    /// List the newest decisions of a running service
    #[command(after_help = RECENT_HELP)]
    Recent(RecentArgs),
    /// Return units to a key
    #[command(after_help = REFUND_HELP)]
    Refund(AskArgs),
    /// End a hold whose units were used: its permits are released, its other units stay charged
    #[command(after_help = RELEASE_HELP)]
    Release(HoldArgs),
    /// Extend a hold
    #[command(after_help = RENEW_HELP)]
    Renew(RenewArgs),
    /// Play a recorded access log through policies
    Replay(ReplayArgs),
    /// Take units from a key ahead of time, and print when to act
    #[command(after_help = RESERVE_HELP)]
    Reserve(ReserveArgs),
    /// Forget the state of a key
    #[command(after_help = RESET_HELP)]
    Reset(AskArgs),
    /// End the pauses of a key
    #[command(after_help = RESUME_HELP)]
    Resume(ResumeArgs),
    /// Revoke a hold by its id, without its token
    #[command(after_help = REVOKE_HELP)]
    Revoke(RevokeArgs),
    /// Run the service: an HTTP API, metrics, and a page at /
    #[command(after_help = SERVE_HELP)]
    Serve(ServeArgs),
    /// Settle a hold with the units that were used
    #[command(after_help = SETTLE_HELP)]
    Settle(SettleArgs),
    /// Say what other policies, or another file, would have decided about recorded requests
    #[command(after_help = SIMULATE_HELP)]
    Simulate(SimulateArgs),
    /// Take as many units as a key has, up to the cost
    #[command(after_help = TAKE_HELP)]
    Take(TakeArgs),
    /// Show the busiest limits of a running service with their top keys, and its problems, each second
    #[command(after_help = TOP_HELP)]
    Top(TopArgs),
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

The token is that of `check --hold 30s` or of a service (`hold.token` in JSON). Only a service with clients
needs another one, of a client that may hold: --admin-token-file.

Exit status: 0 done, 1 there is no such hold, 2 invalid arguments or configuration, 3 the store failed."
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
    "  sluicegate ban --config limits.yaml --store redis://127.0.0.1:6379 --limit login --key alice --for 1h
  sluicegate ban --server http://127.0.0.1:8080 --limit login --key alice --for 7d"
);

const UNBAN_HELP: &str = ask_help!(
    "  sluicegate unban --config limits.yaml --store redis://127.0.0.1:6379 --limit login --key alice
  sluicegate unban --server http://127.0.0.1:8080 --limit login --key alice"
);

const PAUSE_HELP: &str = ask_help!(
    "  sluicegate pause --config limits.yaml --store redis://127.0.0.1:6379 --limit upstream --key acme --for 30s
  sluicegate pause --server http://127.0.0.1:8080 --limit llm --key acme --for 1min --policy tokens"
);

const RESUME_HELP: &str = ask_help!(
    "  sluicegate resume --config limits.yaml --store redis://127.0.0.1:6379 --limit upstream --key acme
  sluicegate resume --server http://127.0.0.1:8080 --limit llm --key acme --policy tokens"
);

const CHECK_HELP: &str = ask_help!(
    "  sluicegate check --limit demo --key alice --store redis://127.0.0.1:6379
  sluicegate check --config limits.yaml --limit llm --key alice --cost requests=1 --cost tokens=1200 --json
  sluicegate check --config limits.yaml --limit user --key alice --limit org --key acme --cost 3
  sluicegate check --server http://127.0.0.1:8080 --limit llm --key acme --cost tokens=1000 --hold 30s --json"
);

const EXPLAIN_HELP: &str = "\
Examples:
  sluicegate explain --server http://127.0.0.1:8080 --limit api --key acme
  sluicegate explain --config limits.yaml --store redis://127.0.0.1:6379 --limit api --key acme --cost 5 --json

The command charges nothing. A service may require the admin token.

Exit status: 0 the request would pass, 1 it would be denied, 2 invalid arguments or configuration, 3 the store failed.";

const PEEK_HELP: &str = ask_help!(
    "  sluicegate peek --limit demo --key alice --store redis://127.0.0.1:6379
  sluicegate peek --config limits.yaml --limit llm --key alice --cost requests=1 --cost tokens=1200 --json"
);

const REFUND_HELP: &str = ask_help!(
    "  sluicegate refund --limit demo --key alice --store redis://127.0.0.1:6379
  sluicegate refund --server http://127.0.0.1:8080 --limit llm --key alice --cost tokens=300"
);

const RESET_HELP: &str = ask_help!(
    "  sluicegate reset --limit demo --key alice --store redis://127.0.0.1:6379
  sluicegate reset --server http://127.0.0.1:8080 --limit llm --key alice --json"
);

const TAKE_HELP: &str = ask_help!(
    "  sluicegate take --limit demo --key alice --cost 50 --store redis://127.0.0.1:6379
  sluicegate take --server http://127.0.0.1:8080 --limit demo --key alice --cost 50 --json"
);

const COMPLETIONS_HELP: &str = "\
Examples:
  sluicegate completions bash > /etc/bash_completion.d/sluicegate
  sluicegate completions zsh > /usr/local/share/zsh/site-functions/_sluicegate
  sluicegate completions fish > ~/.config/fish/completions/sluicegate.fish";

const MAN_HELP: &str = "\
Examples:
  sluicegate man /usr/local/share/man/man1 && man sluicegate-serve

It writes sluicegate.1 and a page for each command, such as sluicegate-serve.1.";

const LIMITS_HELP: &str = "\
Examples:
  sluicegate limits
  sluicegate limits --server http://127.0.0.1:8080 --json

With --json each limit is a line.

Exit status: 0 listed, 2 invalid arguments, 3 the service failed.";

const FLEET_HELP: &str = "\
Examples:
  sluicegate fleet
  sluicegate fleet --server http://127.0.0.1:8080 --json

Exit status: 0 all have the same configuration, 1 some have another one, 2 invalid arguments, 3 the service failed.";

const SERVE_HELP: &str = "\
Examples:
  sluicegate serve
  curl -d '{\"limit\":\"demo\",\"key\":\"alice\"}' http://127.0.0.1:8080/v1/check

  SLUICEGATE_ADMIN_TOKEN=secret sluicegate serve --config limits.yaml --listen 0.0.0.0:8080
  sluicegate serve --config limits.yaml --grpc localhost:8081 --metrics localhost:9090

Each listener but --resp speaks HTTP/1.1 and HTTP/2, and each prints a line on standard error once it accepts connections:
`listening: http 127.0.0.1:8080`. Only the config file can give it TLS: `listeners`.

POST /v1/check, /v1/peek, /v1/take, /v1/acquire and /v1/reserve answer all clients. /v1/settle, /v1/cancel,
/v1/renew and /v1/release need a token that one of these calls issued.

These are admin calls: POST /v1/charge, /v1/refund, /v1/reset, /v1/ban, /v1/unban, /v1/pause, /v1/resume, /v1/revoke.
Also POST /v1/explain and /v1/simulate, GET /v1/audit, /v1/bans, /v1/config, /v1/stream, /v1/fleet, /v1/holders, /v1/keys,
/v1/recent, /v1/limits/LIMIT/top, and overrides under /v1/limits/.
With an admin token they need `Authorization: Bearer TOKEN`, from everywhere. Without one they are open to every program
on this machine, and to no request that a proxy forwarded.
GET /v1/limits, /healthz (the process is up), /readyz (the store has answered, and the service isn't
stopping), /metrics.

SIGTERM stops the service without losing a request: see --drain. SIGINT does so without the waits. Then leases are
given back to the store. A second signal ends the process immediately. SIGHUP reads the config file again.

Exit status: 0 stopped by a signal, 130 or 143 ended by a second SIGINT or SIGTERM, 2 invalid arguments or configuration.";

/// Arguments of `serve`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) setup: SetupArgs,

    #[command(flatten)]
    pub(crate) listeners: ListenArgs,

    #[command(flatten)]
    pub(crate) admin_token: AdminTokenArgs,

    /// The name of this process in its fleet, at most 100 bytes [default: HOST:PID]
    #[arg(long, value_name = "NAME", env = "SLUICEGATE_NAME", value_parser = parse_name)]
    pub(crate) name: Option<String>,

    #[command(flatten)]
    pub(crate) decision_log: DecisionLogArg,

    #[command(flatten)]
    pub(crate) recorder: RecorderArg,

    /// Report ready on /readyz before the store has answered for the first time
    #[arg(long)]
    pub(crate) ready_without_store: bool,

    /// The key that signs reservation tokens, at least 32 bytes; instances that share it can cancel each
    /// other's reservations [default: made at each start]
    #[arg(long, value_name = "KEY", env = "SLUICEGATE_TOKEN_KEY", hide_env_values = true)]
    pub(crate) token_key: Option<String>,

    /// The time after SIGTERM in which the service still accepts connections, while /readyz sends clients
    /// to other instances
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = parse_grace)]
    pub(crate) drain: Span,

    /// The maximum time for requests in flight once the service accepts no more connections
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = parse_deadline)]
    pub(crate) shutdown_timeout: Span,

    /// The format of the log on standard error
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) log_format: LogFormat,
}

/// Arguments of `acquire`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct AcquireArgs {
    #[command(flatten)]
    pub(crate) held: HeldArgs,

    /// The maximum wait for the units, up to 10min
    #[arg(long, value_name = "SPAN", value_parser = parse_grace)]
    pub(crate) within: Span,

    /// The priority in the queue of a limit with permits, from 0, the highest, to 15
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=15))]
    pub(crate) priority: u8,
}

/// Arguments of `reserve`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct ReserveArgs {
    #[command(flatten)]
    pub(crate) ask: AskArgs,

    /// The maximum wait until the caller may act, up to 10min
    #[arg(long, value_name = "SPAN", value_parser = parse_grace)]
    pub(crate) within: Span,
}

/// Arguments of `charge`, `check` and `take`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct TakeArgs {
    #[command(flatten)]
    pub(crate) held: HeldArgs,

    /// An id of 1 to 255 bytes: for a minute, a repeated request with this id gets the same answer and is
    /// charged nothing
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<String>,
}

/// Arguments of the commands that can hold their units.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct HeldArgs {
    #[command(flatten)]
    pub(crate) ask: AskArgs,

    /// The time to hold the units, 1ms to 1d, until they are settled; a limit with permits always holds
    /// [default: its policy's time]
    #[arg(long, value_name = "SPAN")]
    pub(crate) hold: Option<Span>,
}

/// Arguments of `settle`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct SettleArgs {
    #[command(flatten)]
    pub(crate) of: HoldArgs,

    /// The units that were used under every policy, or POLICY=N for one policy; others used what they were
    /// charged; may be repeated
    #[arg(long, value_name = "N", required = true)]
    pub(crate) used: Vec<UsedArg>,
}

/// Arguments of `ban`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct BanArgs {
    #[command(flatten)]
    pub(crate) ask: AskArgs,

    /// The length of the ban from now, 1s to 30d
    #[arg(long = "for", value_name = "SPAN")]
    pub(crate) lasts: Span,
}

/// Arguments of `pause`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    pub(crate) of: ResumeArgs,

    /// The length of the pause from now, 1ms or more
    #[arg(long = "for", value_name = "SPAN")]
    pub(crate) lasts: Span,
}

/// Arguments of `resume`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    pub(crate) ask: AskArgs,

    /// The name of the only policy that is meant [default: the whole limit]
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<String>,
}

/// Arguments of `renew`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct RenewArgs {
    #[command(flatten)]
    pub(crate) of: HoldArgs,

    /// The time until the hold expires, from now, 1ms to 1d
    #[arg(long = "for", value_name = "SPAN")]
    pub(crate) lasts: Span,
}

/// Arguments of the commands that use a token.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct HoldArgs {
    /// The token of the hold or the reservation
    #[arg(long, value_name = "TOKEN")]
    pub(crate) hold: String,

    #[command(flatten)]
    pub(crate) to: ToArgs,

    #[command(flatten)]
    pub(crate) admin_token: AdminTokenArgs,
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

/// The store or service to call, and the form of the answer.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct ToArgs {
    #[command(flatten)]
    pub(crate) setup: SetupArgs,

    /// Print the answer as JSON, as the service does
    #[arg(long)]
    pub(crate) json: bool,

    /// The URL of a running service to call instead of a store: http://HOST:PORT or https://HOST:PORT
    #[arg(long, value_name = "URL", conflicts_with_all = ["config", "store"])]
    pub(crate) server: Option<ServiceUrl>,

    /// The deadline of a call, connecting included [default: 5s for a service; for a store 1s, or the config
    /// file's if longer]
    #[arg(long, value_name = "SPAN", value_parser = parse_deadline)]
    pub(crate) deadline: Option<Span>,
}

/// Arguments of `completions`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

/// Arguments of `man`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct ManArgs {
    /// The folder, which is made if it is missing
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
}

/// The URL of a service with the default listener, on this machine.
const LOCAL_SERVICE: &str = "http://127.0.0.1:8080";

/// A running service to read from, and the form of the answer.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct ServiceArgs {
    /// The URL of a running service: http://HOST:PORT or https://HOST:PORT
    #[arg(long, value_name = "URL", default_value = LOCAL_SERVICE)]
    pub(crate) server: ServiceUrl,

    /// Print the answer as JSON, as the service does
    #[arg(long)]
    pub(crate) json: bool,

    /// The deadline of a call, connecting included
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = parse_deadline)]
    pub(crate) deadline: Span,

    #[command(flatten)]
    pub(crate) admin_token: AdminTokenArgs,
}

/// Arguments of `config`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct ConfigArgs {
    /// The command for config files.
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

/// The command for config files.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub(crate) enum ConfigCommand {
    /// Report every error of a file with its line and column
    #[command(after_help = "\
Examples:
  sluicegate config check limits.yaml
  sluicegate config check limits.yaml --connect

Exit status: 0 the file is valid, maybe with warnings; 2 it isn't; 3 its store can't decide.")]
    Check {
        /// The file
        file: PathBuf,

        /// Also connect to the store of the file, and let every limit decide about the key
        /// `sluicegate-config-check`, which is forgotten afterwards
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

    /// The store to check, `memory:` or redis://HOST:PORT
    #[arg(long, value_name = "URL", default_value = "memory")]
    pub(crate) store: String,

    /// Print one JSON object instead of lines
    #[arg(long)]
    pub(crate) json: bool,

    /// The deadline of a call to the store
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = parse_deadline)]
    pub(crate) deadline: Span,
}
