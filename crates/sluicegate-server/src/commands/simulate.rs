//! `simulate`: what other limits would have decided about recorded requests.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde_json::json;
use sluicegate::Limit;
use sluicegate::config::LimitConfig;
use sluicegate::store::Span;
use sluicegate_core::printable;

use super::lines;
use super::remote::{Call, foreign};
use crate::cli::SimulateArgs;
use crate::output::{Exit, Failure, counted, say};
use crate::simulate::{
    Bounds, LimitAnswer, Problem, Proposal, Simulation, Terms, play, policies_of, read_log,
};

/// Simulates, with the decisions of a service or of a log, and prints the result.
///
/// # Errors
/// Returns an error if the arguments are invalid, or if the service or the log gives no decisions.
pub(crate) async fn simulate(args: SimulateArgs) -> Result<Exit, Failure> {
    let simulation = match args.log {
        Some(_) => {
            let is_json = args.json;
            let of_log = tokio::task::spawn_blocking(move || of_log(&args)).await;
            let simulation = of_log.map_err(Failure::usage)??;
            if is_json {
                say(serde_json::to_string(&simulation).map_err(Failure::usage)?);
                return Ok(Exit::Allowed);
            }
            simulation
        }
        None => {
            let body = of_service(&args).await?;
            let simulation = serde_json::from_slice(&body).map_err(|_| foreign(&args.server))?;
            if args.json {
                say(String::from_utf8_lossy(&body));
                return Ok(Exit::Allowed);
            }
            simulation
        }
    };
    print(&simulation);
    Ok(Exit::Allowed)
}

/// Calls a service, and returns the body of its answer.
async fn of_service(args: &SimulateArgs) -> Result<Vec<u8>, Failure> {
    /// Longer than a simulation takes.
    const PATIENCE: u64 = 45_000;
    let patience = Span::from_millis(PATIENCE).map_err(Failure::usage)?;
    let mut body = json!({"since": args.since.to_string(), "scale": args.scale});
    if let Some(limit) = &args.limit {
        body["limit"] = limit.as_str().into();
    }
    if let Some(from) = args.from {
        body["from"] = from.to_string().into();
    }
    match &args.config {
        Some(_) if !args.policy.is_empty() => {
            return Err(Failure::usage(
                "--policy replaces the policies of a limit that the service has: leave out --config, or --policy",
            ));
        }
        Some(file) => {
            // Its problems are clearer here, with the name of the file.
            args.caps.load(file)?;
            let text = std::fs::read_to_string(file);
            let text =
                text.map_err(|error| Failure::usage(format_args!("{}: {error}", file.display())))?;
            body["config"] = text.into();
        }
        None => body["policies"] = args.policy.as_slice().into(),
    }
    let token = args.admin_token.read()?;
    let call = Call::post(&args.server, "/v1/simulate", token.as_deref(), body);
    call.read(Some(args.deadline.unwrap_or(patience))).await
}

/// Simulates with a log. Blocks its thread.
fn of_log(args: &SimulateArgs) -> Result<Simulation, Failure> {
    let config = args.config.as_ref().map(|file| args.caps.load(file)).transpose()?;
    let limit = args.limit.as_deref();
    let proposal = match (config, limit) {
        (Some(config), limit) if args.policy.is_empty() => Proposal::of_config(&config, limit),
        (Some(config), Some(name)) => {
            let known = config.limit(name).ok_or_else(|| {
                Failure::usage(format_args!("the file has no limit called `{}`", printable(name)))
            })?;
            Proposal::of_policies(known, &args.policy)
        }
        (_, name) => {
            let policies = policies_of(&args.policy).map_err(failure)?;
            let limit = Limit::new(name.unwrap_or_default(), policies).map_err(Failure::usage)?;
            Proposal::of_policies(&LimitConfig::new(limit), &args.policy)
        }
    };
    let proposal = proposal.map_err(failure)?;
    let Some(log) = &args.log else { return Err(Failure::usage("--log names no file")) };
    let terms = Terms { since: args.since.into(), scale: args.scale, from: None };
    let wanted: BTreeSet<String> = proposal.names().map(str::to_owned).collect();
    let bounds = Bounds::from_now();
    let gathered = read_log(log, wanted, terms, None, bounds).map_err(failure)?;
    play(&proposal, gathered, None, args.scale, bounds).map_err(failure)
}

fn failure(problem: Problem) -> Failure {
    match problem {
        Problem::Wrong(message) => Failure::usage(message),
        Problem::Sampled(_) => Failure::usage(
            "the log has only a sample of the allowed decisions: give --scale for estimates, or a log with `sample: 1`",
        ),
        Problem::Unrecorded(message) => Failure::usage(message),
        Problem::Failed(message) => Failure::store(message),
    }
}

fn print(simulation: &Simulation) {
    let Simulation { covers_ms, from, decisions, left_out, estimated, limits, .. } = simulation;
    let ago = |ms: u64| lines::words(ms.saturating_mul(1_000));
    let from = printable(from);
    let decisions = counted(*decisions, "decision");
    say(format_args!("{decisions} of the {from}, of the last {}", ago(*covers_ms)));
    if *estimated {
        say("All numbers are estimates, from a sample.");
    }
    if *left_out > 0 {
        say(format_args!("{left_out} more decisions are left out."));
    }
    let mut asked: Vec<_> = limits.iter().filter(|limit| limit.requests > 0).collect();
    asked.sort_by_key(|limit| Reverse(limit.newly_denied));
    for limit in &asked {
        let LimitAnswer { requests, denied, was_denied, newly_denied, newly_allowed, .. } = *limit;
        let name = printable(&limit.limit);
        say(format_args!(
            "{name}: {denied} of {requests} denied, {was_denied} then; {newly_denied} newly denied, {newly_allowed} newly allowed"
        ));
        for policy in &limit.unplayed {
            say(format_args!("  not simulated: {}", printable(policy)));
        }
        for key in limit.keys.iter().filter(|key| key.newly_denied > 0).take(20) {
            let name = lines::key(key.key.as_deref(), key.key_bytes.as_deref());
            let last = key
                .last_denied_ms_ago
                .map_or_else(String::new, |ms| format!(", last {} ago", ago(ms)));
            say(format_args!(
                "  {name}  {} of {} newly denied{last}",
                key.newly_denied, key.requests
            ));
        }
    }
    let idle = limits.len() - asked.len();
    if idle > 0 {
        let idle = counted(u64::try_from(idle).unwrap_or(u64::MAX), "limit");
        say(format_args!("{idle} without a recorded request."));
    }
}
