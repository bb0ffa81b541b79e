//! Arguments of `override`.

use std::ffi::OsString;

use clap::{Args, Subcommand};
use sluicegate::Policy;
use sluicegate::config::Times;
use sluicegate::store::Span;

use super::{AdminTokenArgs, ToArgs};

pub(super) const OVERRIDE_HELP: &str = "\
Examples:
  sluicegate override set --server http://127.0.0.1:8080 --limit api --key acme --times 10 --for 2h --note 'launch day'
  sluicegate override set --server http://127.0.0.1:8080 --limit api --policy 'token_bucket 5/s burst 10'
  sluicegate override list --server http://127.0.0.1:8080 --limit api
  sluicegate override clear --server http://127.0.0.1:8080 --limit api --key acme
  sluicegate override audit --server http://127.0.0.1:8080

An override wins over the configuration, in all processes with the same store. Without --key it is of the whole
limit. Consumed units are kept.";

/// Arguments of `override`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct OverrideArgs {
    /// The command for overrides.
    #[command(subcommand)]
    pub(crate) command: OverrideCommand,
}

const EXIT: &str = "\
Exit status: 0 done, 1 there is no override, 2 invalid arguments or configuration, 3 the store failed.";

/// The command for overrides.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub(crate) enum OverrideCommand {
    /// List the changes of overrides, the newest first
    #[command(after_help = EXIT)]
    Audit(AuditArgs),
    /// End the override of a key, or of a whole limit
    #[command(after_help = EXIT)]
    Clear(OverrideOfArgs),
    /// Print the override of a key, or of a whole limit
    #[command(after_help = EXIT)]
    Get(OverrideOfArgs),
    /// List the overrides of a limit: that of the whole limit, and those of its keys
    #[command(after_help = EXIT)]
    List(OverrideListArgs),
    /// Set the override of a key, or of a whole limit
    #[command(after_help = EXIT)]
    Set(OverrideSetArgs),
}

/// The limit or key that an override is of.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct OverrideOfArgs {
    /// The limit
    #[arg(long, value_name = "NAME")]
    pub(crate) limit: String,

    /// The key: any text; without it the override is of the whole limit
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<OsString>,

    #[command(flatten)]
    pub(crate) to: ToArgs,

    #[command(flatten)]
    pub(crate) admin_token: AdminTokenArgs,
}

/// Arguments of `override set`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct OverrideSetArgs {
    #[command(flatten)]
    pub(crate) of: OverrideOfArgs,

    #[command(flatten)]
    pub(crate) said: SaidArgs,

    /// The time until the override ends, 1ms to 3660d [default: no end]
    #[arg(long = "for", value_name = "SPAN")]
    pub(crate) lasts: Option<Span>,

    /// A note for colleagues, which the audit keeps
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
}

/// The content of an override.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
#[non_exhaustive]
pub(crate) struct SaidArgs {
    /// A policy with other numbers; repeat it for each policy of the limit, in the same order
    #[arg(long = "policy", value_name = "SPEC")]
    pub(crate) policies: Vec<Policy>,

    /// A multiple of the configuration's numbers, such as 10 or 0.5
    #[arg(long, value_name = "N")]
    pub(crate) times: Option<Times>,

    /// Let requests pass, without counting them
    #[arg(long)]
    pub(crate) allow: bool,

    /// Deny requests
    #[arg(long)]
    pub(crate) block: bool,
}

/// Arguments of `override list`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct OverrideListArgs {
    /// The limit
    #[arg(long, value_name = "NAME")]
    pub(crate) limit: String,

    #[command(flatten)]
    pub(crate) page: PageArgs,

    #[command(flatten)]
    pub(crate) to: ToArgs,

    #[command(flatten)]
    pub(crate) admin_token: AdminTokenArgs,
}

/// Arguments of `override audit`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    pub(crate) page: PageArgs,

    #[command(flatten)]
    pub(crate) to: ToArgs,

    #[command(flatten)]
    pub(crate) admin_token: AdminTokenArgs,
}

/// A page of a list.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct PageArgs {
    /// The end of the previous page, as it was printed
    #[arg(long, value_name = "CURSOR")]
    pub(crate) after: Option<String>,

    /// The maximum number of entries, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(crate) count: u16,
}
