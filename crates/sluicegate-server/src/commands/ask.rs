//! `check`, `peek`, `take`, `acquire`, `reserve`, `charge`, `refund`, `reset`, `ban`, `unban`,
//! `pause` and `resume`.

use std::time::Duration;

use sluicegate::config::StoreUrl;
use sluicegate::decision::Holding;
use sluicegate::store::Operation;
use sluicegate::{Ask, Config, Decision, Error, Gate, Grant, Registry};

use super::setup::open;
use super::terms::Terms;
use super::verb::Verb;
use super::{AskedLimits, interrupt, lines, remote};
use crate::cli::AskArgs;
use crate::output::{Exit, Failure, complain, say};
use crate::token::{Token, bare, reservation_lasts};
use sluicegate_client::json::{Answer, WaitEnded};

/// Sends one request to the store or a service, and prints the answer.
///
/// # Errors
/// Returns an error if the arguments are invalid or the store failed.
pub(crate) async fn ask(verb: Verb, terms: Terms, args: AskArgs) -> Result<Exit, Failure> {
    let AskArgs { asked, to, admin_token } = args;
    if let Some(service) = &to.server {
        let body = remote::body(verb, &terms, &asked)?;
        let token = admin_token.read()?;
        let call = remote::Call::post(service, verb.path(), token.as_deref(), body);
        let call = remote::Call { wait: verb.wait(), ..call };
        let print = |answer: &Answer<'_>| lines::print(verb, answer, &asked);
        return if verb.takes_turns() {
            call.tell_turn(verb, &to, print).await
        } else {
            call.tell(&to, print).await
        };
    }
    let (registry, config) = open(&to, verb.on_fresh_store())?;
    let gate = gate_of(&registry, &config, &asked)?;
    let asking = ask_gate(verb, &gate, &asked, &terms);
    let answered = if verb.takes_turns() {
        match interrupt::or_signal(verb, asking).await? {
            Ok(answered) => answered,
            Err(mut interrupted) => {
                let giving = give_back(&registry, verb, interrupted.reserved.take());
                return Ok(interrupted.give_back(giving).await);
            }
        }
    } else {
        asking.await
    };
    let (grant, held) = answered.map_err(|error| failure(&error))?;
    note_store(&config);
    note(&grant);
    if grant.is_denied() && grant.is_assumed() {
        return Err(Failure::store(format_args!(
            "the store failed, and limit `{}` denies requests then (`on_store_failure: deny`)",
            gate.name()
        )));
    }
    let answer = Answer::new(gate.name(), &grant).holding(held);
    let answer = if asked.are_several() { answer.naming_limits(&grant) } else { answer };
    let answer = match verb {
        Verb::Acquire { .. } => answer.waited_out().ending(WaitEnded::of(&grant, true)),
        Verb::Decide(Operation::Take) => answer.granting(&grant, || {
            let whole = |entry: &super::AskedLimit| {
                Some(entry.cost.whole(&registry.limit(&entry.limit)?.limit))
            };
            asked.entries.iter().filter_map(whole).max().unwrap_or(0)
        }),
        _ => answer,
    };
    if to.json {
        say(serde_json::to_string(&answer).map_err(Failure::usage)?);
    } else {
        lines::print(verb, &answer, &asked);
    }
    Ok(Exit::of(&answer))
}

/// Returns the gate of the limits of a command.
///
/// # Errors
/// Returns an error if a limit is unknown, or none is named.
pub(super) fn gate_of(
    registry: &Registry,
    config: &Config,
    asked: &AskedLimits,
) -> Result<Gate, Failure> {
    let find = |name: &str| registry.find(name).ok_or_else(|| unknown(name, config));
    let gates: Result<Vec<Gate>, Failure> =
        asked.entries.iter().map(|entry| find(&entry.limit)).collect();
    let joined = gates?.into_iter().map(Ok).reduce(|one, two| one?.and(two?));
    let joined = joined.transpose().map_err(Failure::usage)?;
    joined.ok_or_else(|| Failure::usage("no limit is named: --limit names one"))
}

/// Returns the keys and costs of a command.
pub(super) fn ask_of(asked: &AskedLimits) -> Ask<'_> {
    let asks = asked.entries.iter().map(|entry| entry.cost.ask(entry.key.as_encoded_bytes()));
    asks.reduce(Ask::and).unwrap_or(Ask::nothing())
}

/// Prints a note if only this command uses the store.
pub(super) fn note_store(config: &Config) {
    if config.store == StoreUrl::Memory {
        complain(
            "note: this command's store `memory:` is new, and every key is unused; --server or \
             --store redis://HOST:PORT names a shared one",
        );
    }
}

/// Prints a note if the store discarded a stored state.
pub(super) fn note(decision: &Decision) {
    if decision.warnings().discarded {
        complain("note: a stored state could not be read and counted as absent");
    }
}

/// Converts an error of the store to a failure for the user.
pub(crate) fn failure(error: &Error) -> Failure {
    if error.is_store_failure() { Failure::store(error) } else { Failure::usage(error) }
}

/// An answer, with the token and the lifetime of its hold.
type Answered = Result<(Grant, Option<(String, Duration)>), Error>;

/// Returns the units that an interrupted command took. Returns whether it succeeded.
async fn give_back(registry: &Registry, verb: Verb, reserved: Option<Answered>) -> bool {
    match reserved {
        Some(Ok((_, Some((token, _))))) => match Token::read_trusted(&token) {
            Ok(Token::Reservation(receipt)) => registry.cancel(&receipt).await.is_ok(),
            _ => false,
        },
        // Denied.
        Some(Ok((_, None))) => true,
        // The units may have been taken.
        Some(Err(error)) => !error.is_store_failure(),
        None if matches!(verb, Verb::Decide(Operation::Reserve { .. })) => false,
        None => {
            sluicegate::testing::given_back().await;
            true
        }
    }
}

async fn ask_gate(verb: Verb, gate: &Gate, asked: &AskedLimits, terms: &Terms) -> Answered {
    let ask = ask_of(asked);
    let ask = match &terms.request_id {
        Some(id) => ask.request_id(id),
        None => ask,
    };
    let holding = terms.hold.map_or(Holding::as_needed(), |lasts| Holding::lasting(lasts.into()));
    let operation = match verb {
        Verb::Acquire { within, priority } => {
            let check = gate.check(ask).priority(priority).holding(holding);
            return Ok(with_token(check.within(within.into()).await?));
        }
        Verb::Decide(Operation::Reserve { within }) => {
            let reservation = gate.reserve(ask, within.into()).await?;
            let lasts = reservation_lasts(reservation.wait());
            let held = reservation.receipt().map(|receipt| (bare(receipt), lasts));
            return Ok((Grant::from(reservation.into_decision()), held));
        }
        Verb::Decide(operation) if operation.changes_pauses() => {
            let question = match operation {
                Operation::Pause { lasts, .. } => gate.pause(ask, lasts.into()),
                _ => gate.resume(ask),
            };
            let question = match &terms.policy {
                Some(policy) => question.policy(policy),
                None => question,
            };
            return Ok((Grant::from(question.await?), None));
        }
        Verb::Decide(operation) => operation,
    };
    Ok(with_token(gate.decide(operation, ask).holding(holding).await?))
}

fn with_token(grant: Grant) -> (Grant, Option<(String, Duration)>) {
    let held = grant.hold().zip(grant.token());
    let held = held.map(|(hold, token)| (token.to_string(), hold.lasts));
    (grant, held)
}

pub(super) fn unknown(name: &str, config: &Config) -> Failure {
    let names: Vec<_> = config.limits.iter().map(|config| config.limit.name().as_str()).collect();
    Failure::usage(format_args!(
        "there is no limit called `{}`: the limits are {}",
        name.escape_debug(),
        names.join(", ")
    ))
}
