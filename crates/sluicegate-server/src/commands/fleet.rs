//! `fleet`: lists the processes of a service.

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
        let config = entry.config.as_deref().unwrap_or("no file");
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
            say(format_args!("    refused a configuration {} ago:", words(refused.age_ms)));
            refused.message.lines().for_each(|line| say(format_args!("      {}", printable(line))));
        }
    }
    match fleet.differing_for_ms {
        Some(differing) => say(format_args!(
            "two configurations have decided at the same time for {}",
            words(differing)
        )),
        None => say("all have the same configuration"),
    }
}

fn words(millis: u64) -> String {
    lines::words(millis.saturating_mul(1_000))
}
