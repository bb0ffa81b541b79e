//! Arguments of `recent`.

use clap::{Args, ValueEnum};
use sluicegate::store::Span;
use sluicegate_client::ServiceUrl;

use super::{AdminTokenArgs, LOCAL_SERVICE};
use crate::setup::parse_deadline;

pub(super) const RECENT_HELP: &str = "\
Examples:
  sluicegate recent --server http://127.0.0.1:8080 --outcome denied --limit login
  sluicegate recent --server http://127.0.0.1:8080 --follow --prefix tenant-7:
  sluicegate recent --server http://127.0.0.1:8080 --count 1000 --json > recent.jsonl

The service keeps the newest 1,000 admitted rows and as many denied ones, at most 1,000 admitted and 1,000 denied
decisions of each second. With --json each row is a line of JSON, which `sluicegate replay` reads. A service may
require the admin token.

Exit status: 0 listed, 2 invalid arguments, 3 the service failed. After SIGINT or SIGTERM it is 130 or 143.";

/// Arguments of `recent`.
#[derive(Args, Debug)]
#[non_exhaustive]
pub(crate) struct RecentArgs {
    /// The URL of the service: http://HOST:PORT or https://HOST:PORT
    #[arg(long, value_name = "URL", default_value = LOCAL_SERVICE)]
    pub(crate) server: ServiceUrl,

    /// Print new decisions as they come, until a signal
    #[arg(long)]
    pub(crate) follow: bool,

    /// Only decisions of this limit
    #[arg(long, value_name = "NAME")]
    limit: Option<String>,

    /// Only decisions about this key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,

    /// Only decisions about keys that begin so
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,

    /// Only decisions with this outcome
    #[arg(long, value_enum, value_name = "OUTCOME")]
    outcome: Option<OutcomeArg>,

    /// Only decisions that this policy refuses, also as a shadow
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,

    /// Only decisions from this source: store, fallback, lease, deny-cache or bypass
    #[arg(long, value_name = "SOURCE")]
    source: Option<String>,

    /// Only decisions for this client
    #[arg(long, value_name = "NAME")]
    client: Option<String>,

    /// The maximum number of rows, 1 to 1000 [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000))]
    count: Option<u64>,

    /// Print each row as a line of JSON, as in a decision log
    #[arg(long)]
    pub(crate) json: bool,

    /// The deadline of a call, connecting included [default: 5s]
    #[arg(long, value_name = "SPAN", value_parser = parse_deadline)]
    pub(crate) deadline: Option<Span>,

    #[command(flatten)]
    pub(crate) admin_token: AdminTokenArgs,
}

/// The outcome of a decision, as an argument.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum OutcomeArg {
    Allowed,
    Denied,
    /// Allowed, although a shadow policy refuses.
    ShadowDenied,
}

impl RecentArgs {
    /// Returns the query for the rows after a number.
    pub(crate) fn query(&self, since: Option<u64>) -> String {
        let outcome = self.outcome.as_ref().map(|outcome| match outcome {
            OutcomeArg::Allowed => "allowed",
            OutcomeArg::Denied => "denied",
            OutcomeArg::ShadowDenied => "shadow_denied",
        });
        let (since, count) = (since.map(|it| it.to_string()), self.count.map(|it| it.to_string()));
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, value) in [
            ("limit", self.limit.as_deref()),
            ("key", self.key.as_deref()),
            ("prefix", self.prefix.as_deref()),
            ("outcome", outcome),
            ("policy", self.policy.as_deref()),
            ("source", self.source.as_deref()),
            ("client", self.client.as_deref()),
            ("since", since.as_deref()),
            ("count", count.as_deref()),
        ] {
            query.extend_pairs(value.map(|value| (name, value)));
        }
        query.finish()
    }
}
