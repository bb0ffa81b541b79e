//! Arguments of `top`.

use clap::{Args, ValueEnum};

use super::ServiceArgs;

pub(super) const TOP_HELP: &str = "\
Examples:
  sluicegate top
  sluicegate top --server http://127.0.0.1:8080 --limit login
  sluicegate top --sort rate --count 10 --once
  sluicegate top --once --json | jq .now.problems

In a terminal the table is drawn again each second, until you press q or a signal comes. If the service stops
answering, the table says so until it answers again. Otherwise, and with --once, it is printed once. With --json the
state and the limits are a line of JSON, each second or once. A service may require the admin token.

Exit status: 0 printed, 2 invalid arguments, 3 the service failed. After SIGINT or SIGTERM it is 130 or 143.";

/// Arguments of `top`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct TopArgs {
    /// Only limits whose names contain this text
    #[arg(long, value_name = "NAME")]
    limit: Option<String>,

    /// The order of limits
    #[arg(long, value_enum, value_name = "ORDER", default_value = "denied")]
    sort: SortArg,

    /// The maximum number of limits, 1 to 200
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=200))]
    count: u64,

    /// Print the table once
    #[arg(long)]
    pub(crate) once: bool,

    #[command(flatten)]
    pub(crate) service: ServiceArgs,
}

/// The order of limits, as an argument.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum SortArg {
    /// By denials in the last 15 min.
    Denied,
    /// By requests per second.
    Rate,
    Name,
    /// By requests that a shadow policy would have denied.
    Shadow,
    /// By the share of a limit that its heaviest key uses.
    Capacity,
}

impl TopArgs {
    /// Returns the path of the call, with its query.
    pub(crate) fn path(&self) -> String {
        let sort = match self.sort {
            SortArg::Denied => "denied",
            SortArg::Rate => "rate",
            SortArg::Name => "name",
            SortArg::Shadow => "shadow",
            SortArg::Capacity => "capacity",
        };
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("follow", "off").append_pair("recent", "off").append_pair("sort", sort);
        query.append_pair("count", &self.count.to_string());
        query.extend_pairs(self.limit.as_deref().map(|limit| ("search", limit)));
        format!("/v1/stream?{}", query.finish())
    }
}
