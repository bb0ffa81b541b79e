//! `check`, `peek`, `take`, `acquire`, `charge`, `refund`, `reset`, `ban` and `unban`.

use sluicegate::{Config, Decision, Error, Gate, Registry, Span};

use super::verb::Verb;
use super::{CostArg, lines, remote};
use crate::answer::Answer;
use crate::cli::AskArgs;
use crate::cost::AskedCost;
use crate::output::{Exit, Failure, complain, say};

/// The least that a command waits for its store unless told: it connects first.
const PATIENCE: Span = Span::SECOND;

/// Asks once, the store or a service, and prints the answer.
///
/// # Errors
/// When the arguments can't be used, or the store failed.
pub(crate) async fn ask(verb: Verb, args: AskArgs) -> Result<Exit, Failure> {
    let cost = CostArg::together(&args.cost).map_err(Failure::usage)?;
    if let Some(service) = &args.server {
        return remote::ask(verb, &args, service, &cost).await;
    }
    let mut config = args.setup.config()?;
    for limit in &mut config.limits {
        limit.deadline = args.deadline.or_else(|| limit.deadline.max(Some(PATIENCE)));
    }
    let registry = Registry::open(&config).map_err(Failure::usage)?;
    let gate = registry.find(&args.limit).ok_or_else(|| unknown(&args.limit, &config))?;
    let decision = ask_gate(verb, &gate, &args, &cost).await.map_err(|error| failure(&error))?;
    if decision.notes().discarded {
        complain("note: a stored state could not be read and counted as absent");
    }
    let answer = Answer::new(&args.limit, &decision);
    let answer = match verb {
        Verb::Acquire { .. } => answer.waited_out(),
        Verb::Take => answer.granting(&decision, || {
            registry.limit(&args.limit).map_or(0, |config| cost.whole(&config.limit))
        }),
        _ => answer,
    };
    if args.json {
        say(serde_json::to_string(&answer).map_err(Failure::usage)?);
    } else {
        lines::print(verb, &answer, &cost);
    }
    Ok(exit(&answer))
}

/// How a command ends that got an answer.
pub(super) const fn exit(answer: &Answer<'_>) -> Exit {
    if answer.allowed { Exit::Allowed } else { Exit::Denied }
}

/// What kind of failure an error of the store is to the user.
pub(crate) fn failure(error: &Error) -> Failure {
    if error.is_store_failure() { Failure::store(error) } else { Failure::usage(error) }
}

async fn ask_gate(
    verb: Verb,
    gate: &Gate,
    args: &AskArgs,
    cost: &AskedCost,
) -> Result<Decision, Error> {
    let ask = cost.ask(args.key.as_encoded_bytes());
    let ask = match &args.request_id {
        Some(id) => ask.request_id(id),
        None => ask,
    };
    match verb {
        Verb::Acquire { within } => gate.acquire(ask, within).await,
        Verb::Ban { lasts } => gate.ban(ask, lasts).await,
        Verb::Charge => gate.charge(ask).await,
        Verb::Check => gate.check(ask).await,
        Verb::Peek => gate.peek(ask).await,
        Verb::Refund => gate.refund(ask).await,
        Verb::Reset => gate.reset(ask).await,
        Verb::Take => gate.take_up_to(ask).await,
        Verb::Unban => gate.lift_ban(ask).await,
    }
}

fn unknown(name: &str, config: &Config) -> Failure {
    let names: Vec<_> = config.limits.iter().map(|config| config.limit.name().as_str()).collect();
    Failure::usage(format_args!(
        "there is no limit called `{}`: the limits are {}",
        name.escape_debug(),
        names.join(", ")
    ))
}
