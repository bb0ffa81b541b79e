//! `limits`: lists the limits of a service.

use serde::Deserialize;
use serde_json::value::RawValue;
use sluicegate_core::printable;

use super::remote::{Call, foreign};
use crate::cli::ServiceArgs;
use crate::output::{Exit, Failure, say};

/// A page of the service's list.
#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    limits: Vec<&'a RawValue>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Limit {
    name: String,
    key: String,
    policies: Vec<Policy>,
    rollout: String,
    file: Option<String>,
    line: Option<u64>,
    allow: u64,
    block: u64,
    overrides: u64,
    run_time_overrides: u64,
    is_overridden: bool,
}

#[derive(Deserialize)]
struct Policy {
    spec: String,
}

/// Lists all limits, page by page.
///
/// # Errors
/// Returns an error if the service can't be reached, or answers with an error.
pub(crate) async fn limits(args: ServiceArgs) -> Result<Exit, Failure> {
    let token = args.admin_token.read()?;
    let foreign = |_| foreign(&args.server);
    let mut path = "/v1/limits?count=1000".to_owned();
    loop {
        let call = Call::get(&args.server, path, token.as_deref());
        let body = call.read(Some(args.deadline)).await?;
        let page: Page<'_> = serde_json::from_slice(&body).map_err(foreign)?;
        for limit in page.limits {
            if args.json {
                say(limit.get());
            } else {
                say(line_of(&serde_json::from_str(limit.get()).map_err(foreign)?));
            }
        }
        let Some(next) = page.next else { return Ok(Exit::Allowed) };
        path = format!("/v1/limits?count=1000&after={next}");
    }
}

fn line_of(limit: &Limit) -> String {
    let specs = limit.policies.iter().map(|policy| printable(&policy.spec).to_string());
    let mut line = format!(
        "{}  {}  key {}",
        printable(&limit.name),
        specs.collect::<Vec<_>>().join(", "),
        printable(&limit.key)
    );
    if limit.rollout != "enforced" {
        line.push_str(&format!("  {}", printable(&limit.rollout.replace('_', " "))));
    }
    if let (Some(file), Some(number)) = (&limit.file, limit.line) {
        line.push_str(&format!("  {}:{number}", printable(file)));
    }
    if limit.is_overridden {
        line.push_str("  overridden at run time");
    }
    for (number, one, several) in [
        (limit.allow, "allow entry", "allow entries"),
        (limit.block, "block entry", "block entries"),
        (limit.overrides, "override", "overrides"),
        (limit.run_time_overrides, "override at run time", "overrides at run time"),
    ] {
        if number > 0 {
            line.push_str(&format!("  {number} {}", if number == 1 { one } else { several }));
        }
    }
    line
}
