//! Arguments of `health`.

use clap::Args;
use sluicegate::store::Span;
use sluicegate_client::ServiceUrl;

use super::LOCAL_SERVICE;
use crate::setup::parse_deadline;

pub(super) const HEALTH_HELP: &str = "\
Examples:
  sluicegate health
  sluicegate health --server http://127.0.0.1:8081 --deadline 500ms

Use it where there is no shell, as in the health check of a container: it calls /readyz.

Exit status: 0 ready, 1 not ready or not reachable, 2 invalid arguments.";

/// Arguments of `health`.
#[derive(Args, Debug)]
pub(crate) struct HealthArgs {
    /// The URL of the service, or of its --health listener: http://HOST:PORT or https://HOST:PORT
    #[arg(long, value_name = "URL", default_value = LOCAL_SERVICE)]
    pub(crate) server: ServiceUrl,

    /// The deadline of the call, connecting included
    #[arg(long, value_name = "SPAN", default_value = "2s", value_parser = parse_deadline)]
    pub(crate) deadline: Span,
}
