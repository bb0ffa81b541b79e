//! `fleet`: lists the processes of a service.

use std::collections::BTreeMap;

use serde::Deserialize;
use sluicegate_core::printable;

use super::lines;
use super::remote::{Call, foreign};
use crate::cli::ServiceArgs;
use crate::fleet::Entry;
use crate::output::{Exit, Failure, say};

#[derive(Deserialize)]
struct Fleet {
    processes: Vec<Entry>,
    differing_for_ms: Option<u64>,
}

/// The configuration of a process that has no file.
const NO_FILE: &str = "no file";

/// Lists the processes of a service.
///
/// # Errors
/// Returns an error if the service can't be reached, or answers with an error.
pub(crate) async fn fleet(args: ServiceArgs) -> Result<Exit, Failure> {
    let token = args.admin_token.read()?;
    let call = Call::get(&args.server, "/v1/fleet".to_owned(), token.as_deref());
    let body = call.read(Some(args.deadline)).await?;
    let fleet: Fleet = serde_json::from_slice(&body).map_err(|_| foreign(&args.server))?;
    if args.json {
        say(String::from_utf8_lossy(&body));
    } else {
        print(&fleet);
    }
    Ok(if fleet.differing_for_ms.is_some() { Exit::Denied } else { Exit::Allowed })
}

fn print(fleet: &Fleet) {
    for entry in &fleet.processes {
        let config = entry.config.as_deref().unwrap_or(NO_FILE);
        say(format_args!(
            "{}  {}  up {}  {} decisions/s  {} leased  config {} for {}",
            printable(&entry.name),
            printable(&entry.version),
            words(entry.uptime_ms),
            entry.decisions_per_s,
            entry.leased_units,
            printable(config),
            words(entry.config_age_ms),
        ));
        if let Some(refused) = &entry.refused {
            let mut lines = refused.message.lines();
            let (age, why) = (words(refused.age_ms), printable(lines.next().unwrap_or_default()));
            say(format_args!("    refused a configuration {age} ago: {why}"));
            for line in lines {
                say(format_args!("    {}", printable(line)));
            }
        }
    }
    let Some(differing) = fleet.differing_for_ms else {
        let is_refused = fleet.processes.iter().any(|entry| entry.refused.is_some());
        return say(match is_refused {
            true => "all have the same configuration: the newest file is refused",
            false => "all have the same configuration",
        });
    };
    let mut holders: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for Entry { name, config, .. } in &fleet.processes {
        holders.entry(config.as_deref().unwrap_or(NO_FILE)).or_default().push(name);
    }
    say(format_args!(
        "{} configurations have decided at the same time for {}:",
        holders.len(),
        words(differing)
    ));
    for (config, names) in holders {
        say(format_args!("    {}  {}", printable(config), printable(&names.join(", "))));
    }
}

fn words(millis: u64) -> String {
    lines::words(millis.saturating_mul(1_000))
}
