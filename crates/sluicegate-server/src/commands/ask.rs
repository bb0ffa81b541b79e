//! `check`, `peek`, `refund` and `reset`.

use std::fmt::Write as _;

use sluicegate::{Ask, Decision, Error, Outcome, Registry, RetryAfter, Source, Span};

use super::CostArg;
use crate::answer::Answer;
use crate::cli::AskArgs;
use crate::output::{Exit, Failure, complain, counted, say};

/// What is asked of a limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verb {
    Check,
    Peek,
    Refund,
    Reset,
}

/// The least that a command waits for its store unless told: it connects first.
const PATIENCE: Span = Span::SECOND;

/// Asks once and prints the answer.
///
/// # Errors
/// When the arguments can't be used, or the store failed.
pub(crate) async fn ask(verb: Verb, args: AskArgs) -> Result<Exit, Failure> {
    let mut config = args.setup.config()?;
    for limit in &mut config.limits {
        limit.deadline = args.deadline.or_else(|| limit.deadline.max(Some(PATIENCE)));
    }
    let registry = Registry::open(&config).map_err(Failure::usage)?;
    let gate = registry.find(&args.limit).ok_or_else(|| {
        let names: Vec<_> =
            config.limits.iter().map(|config| config.limit.name().as_str()).collect();
        Failure::usage(format_args!(
            "there is no limit called `{}`: the limits are {}",
            args.limit.escape_debug(),
            names.join(", ")
        ))
    })?;
    let ask = CostArg::add_all(&args.cost, Ask::new(args.key.as_encoded_bytes()))
        .map_err(Failure::usage)?;
    let answer = match verb {
        Verb::Check => gate.check(ask).await,
        Verb::Peek => gate.peek(ask).await,
        Verb::Refund => gate.refund(ask).await,
        Verb::Reset => gate.reset(ask).await,
    };
    let decision = answer.map_err(|error| failure(&error))?;
    if decision.notes().discarded {
        complain("note: a stored state could not be read and counted as absent");
    }
    if args.json {
        let answer = Answer::new(&args.limit, &decision);
        say(serde_json::to_string(&answer).map_err(Failure::usage)?);
    } else {
        print(verb, &args.limit, &decision);
    }
    Ok(if decision.is_allowed() { Exit::Allowed } else { Exit::Denied })
}

/// What kind of failure an error of the store is to the user.
pub(crate) fn failure(error: &Error) -> Failure {
    if error.is_store_failure() { Failure::store(error) } else { Failure::usage(error) }
}

/// One line per policy.
fn print(verb: Verb, limit: &str, decision: &Decision) {
    let without_policies = match decision.source() {
        _ if decision.is_assumed() => {
            Some("the store failed; the limit's on_store_failure decided")
        }
        Source::Bypass if decision.is_allowed() => {
            Some("nothing was asked: the limit is off, or the key is on its allow list")
        }
        Source::Bypass => Some("nothing was asked: the key is on the limit's block list"),
        _ if decision.is_denied() && decision.notes().full => Some("the embedded store is full"),
        _ => None,
    };
    if let Some(reason) = without_policies {
        let verdict = match verb {
            Verb::Check | Verb::Peek => verdict(decision.is_allowed()),
            Verb::Refund | Verb::Reset => "unchanged",
        };
        say(format_args!("{verdict:7}  {limit}  {reason}"));
    }
    for outcome in decision.policies() {
        let done = Done::of(verb, decision, outcome);
        say(line(&done, &format!("{limit}/{}", outcome.name()), outcome));
    }
}

/// What happened to one policy: a word, and what there is to say about it.
struct Done(&'static str, Option<String>);

impl Done {
    fn of(verb: Verb, decision: &Decision, outcome: Outcome<'_>) -> Self {
        let unchanged = |why: &str| Self("unchanged", Some(why.to_owned()));
        match (verb, outcome.given_back(), decision.forgotten()) {
            (Verb::Check | Verb::Peek, ..) => Self(verdict(outcome.is_admitted()), None),
            (Verb::Refund, None, _) => unchanged("its cost is 0"),
            (Verb::Refund, Some(0), _) => unchanged("nothing had been taken"),
            (Verb::Refund, Some(units), _) => {
                Self("refunded", Some(format!("{} given back", counted(units, "unit"))))
            }
            (Verb::Reset, _, Some(true)) => Self("forgotten", None),
            (Verb::Reset, ..) => unchanged("nothing was known of the key"),
        }
    }
}

const fn verdict(allowed: bool) -> &'static str {
    if allowed { "allowed" } else { "denied" }
}

fn line(Done(word, about): &Done, name: &str, outcome: Outcome<'_>) -> String {
    let mut line = format!("{word:7}  {name}  ");
    if let Some(about) = about {
        let _ = write!(line, "{about}, ");
    }
    // Writing into a string can't fail.
    let _ = match (outcome.remaining(), outcome.limit()) {
        (Some(remaining), Some(limit)) => write!(line, "{remaining} of {limit} left"),
        (Some(remaining), None) => write!(line, "{remaining} left"),
        (None, _) => write!(line, "any number left"),
    };
    let _ = match outcome.retry_after() {
        RetryAfter::After(span) => write!(line, ", retry after {}", span.in_words()),
        RetryAfter::Never => write!(line, ", could never pass"),
        _ => Ok(()),
    };
    if !outcome.wait().is_zero() {
        let _ = write!(line, ", act in {}", outcome.wait().in_words());
    }
    let _ = match outcome.reset_after() {
        Some(Span::ZERO) => write!(line, ", like new"),
        Some(span) => write!(line, ", like new in {}", span.in_words()),
        None => Ok(()),
    };
    if outcome.is_shadow() {
        line.push_str(" (only watching)");
    }
    line
}

#[cfg(test)]
mod tests {
    use sluicegate::{Limiter, MemoryStore};

    use super::*;

    fn lines(policies: &[&str], cost: u64) -> Vec<String> {
        let limiter = Limiter::new(MemoryStore::new(), sluicegate::limit("l", policies).unwrap());
        let decision = limiter.check_now(Ask::new("k").cost(cost)).unwrap();
        let line = |outcome: Outcome<'_>| {
            line(&Done::of(Verb::Check, &decision, outcome), outcome.name().as_str(), outcome)
        };
        decision.policies().map(line).collect()
    }

    #[test]
    fn each_policy_has_a_readable_line() {
        assert_eq!(
            lines(
                &["token_bucket 10/s burst 20", "smooth 1/s start full", "gcra 0/s shadow as s"],
                1
            ),
            [
                "allowed  token_bucket  19 of 20 left, like new in 100 ms",
                "allowed  smooth  any number left, like new in 1 s",
                "denied   s  0 of 0 left, could never pass, like new (only watching)",
            ]
        );
        assert_eq!(
            lines(&["gcra 1/s burst 2"], 3),
            ["denied   gcra  2 of 2 left, could never pass, like new"]
        );
    }
}
