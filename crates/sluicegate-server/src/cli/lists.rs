//! Arguments of the commands that list, and of `revoke`.

use std::ffi::OsString;

use clap::Args;
use sluicegate::admin::Cursor;
use sluicegate::decision::HoldId;

use super::{AdminTokenArgs, ToArgs};

macro_rules! list_help {
    ($examples:literal) => {
        concat!(
            "Examples:\n",
            $examples,
            "

The command connects to the store of the config file or of --store, or sends the request to a running
service: --server. A service may require the admin token.

Exit status: 0 listed, 2 invalid arguments or configuration, 3 the store failed."
        )
    };
}

pub(super) const HOLDERS_HELP: &str = list_help!(
    "  sluicegate holders --config limits.yaml --store redis://127.0.0.1:6379 --limit jobs --key acme
  sluicegate holders --server http://127.0.0.1:8080 --limit jobs --key acme --count 1000 --json"
);

pub(super) const BANS_HELP: &str = list_help!(
    "  sluicegate bans --config limits.yaml --store redis://127.0.0.1:6379 --limit login
  sluicegate bans --server http://127.0.0.1:8080 --limit login --count 1000 --json

On a Redis server, all keys are scanned: a page may be short or empty although there are more."
);

pub(super) const KEYS_HELP: &str = list_help!(
    "  sluicegate keys --config limits.yaml --store redis://127.0.0.1:6379 --limit login
  sluicegate keys --server http://127.0.0.1:8080 --limit login --prefix tenant:7: --count 1000 --json

On a Redis server, all keys are scanned: a page may be short or empty although there are more. The embedded
store keeps fingerprints of keys, so it has no such list."
);

pub(super) const REVOKE_HELP: &str = "\
Examples:
  sluicegate revoke --config limits.yaml --store redis://127.0.0.1:6379 --limit jobs --key acme \\
    --hold 00112233445566778899aabbccddeeff
  sluicegate revoke --server http://127.0.0.1:8080 --limit jobs --key acme --hold 00112233445566778899aabbccddeeff

`sluicegate holders` lists the ids. A service may require the admin token.

Exit status: 0 ended, 1 there is no such hold, 2 invalid arguments or configuration, 3 the store failed.";

/// Arguments of `holders`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct HoldersArgs {
    #[command(flatten)]
    pub(crate) of: ListArgs,

    /// The key: any text
    #[arg(long, value_name = "KEY")]
    pub(crate) key: OsString,
}

/// Arguments of `keys`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct KeysArgs {
    #[command(flatten)]
    pub(crate) of: ListArgs,

    /// The beginning of the keys; a long key is listed only without it
    #[arg(long, value_name = "PREFIX")]
    pub(crate) prefix: Option<OsString>,
}

/// Arguments of the commands that list.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct ListArgs {
    /// The limit
    #[arg(long, value_name = "NAME")]
    pub(crate) limit: String,

    /// The cursor at the end of the previous page, where this page begins
    #[arg(long, value_name = "CURSOR")]
    pub(crate) after: Option<Cursor>,

    /// The maximum number of entries, 1 to 1000 [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub(crate) count: Option<u64>,

    #[command(flatten)]
    pub(crate) to: ToArgs,

    #[command(flatten)]
    pub(crate) admin_token: AdminTokenArgs,
}

/// Arguments of `revoke`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct RevokeArgs {
    /// The limit
    #[arg(long, value_name = "NAME")]
    pub(crate) limit: String,

    /// The key: any text
    #[arg(long, value_name = "KEY")]
    pub(crate) key: OsString,

    /// The id of the hold: 32 hexadecimal digits
    #[arg(long, value_name = "ID")]
    pub(crate) hold: HoldId,

    #[command(flatten)]
    pub(crate) to: ToArgs,

    #[command(flatten)]
    pub(crate) admin_token: AdminTokenArgs,
}
