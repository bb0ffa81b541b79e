//! `settle`, `cancel`, `renew` and `release`: what goes by a token.

use serde_json::{Value, json};
use sluicegate::{Decision, Error, HoldFound, Limit, Registry, Span, Usage};

use super::ask::{exit, failure, note};
use super::setup::{OnFreshStore, open};
use super::{lines, remote};
use crate::answer::Answer;
use crate::cli::HoldArgs;
use crate::cost::UsedUnits;
use crate::output::{Exit, Failure, say};
use crate::token::Token;

/// What is to become of what is held.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum HoldVerb {
    Cancel,
    Release,
    Renew { lasts: Span },
    Settle { used: UsedUnits },
}

/// Settles, renews, cancels or releases, in the store or at a service, and prints the answer.
///
/// # Errors
/// When the arguments can't be used, the store failed, or nothing is held.
pub(crate) async fn settle(verb: HoldVerb, args: HoldArgs) -> Result<Exit, Failure> {
    let HoldArgs { hold, to } = args;
    if let Some(service) = &to.server {
        let (path, body) = verb.call(&hold);
        let (path, body) = (path.into(), Some(body.to_string().into_bytes()));
        let call = remote::Call { service, path, token: None, body, wait: Span::ZERO };
        return call.tell(&to, |answer| lines::print_settled(&verb, answer)).await;
    }
    let token = Token::read_trusted(hold.trim())
        .map_err(|error| Failure::usage(format_args!("--hold: {error}")))?;
    let (registry, _) = open(&to, OnFreshStore::Refuses)?;
    let tell = |answer: &Answer<'_>| {
        if to.json {
            say(serde_json::to_string(answer).map_err(Failure::usage)?);
        } else {
            lines::print_settled(&verb, answer);
        }
        Ok(exit(answer))
    };
    let token = match token {
        Token::Hold(token) => token,
        Token::Reservation(receipt) if verb == HoldVerb::Cancel => {
            let is_given_back = registry.cancel(&receipt).await.map_err(|error| failure(&error))?;
            let name = Token::Reservation(receipt).limits();
            return tell(&Answer::of_cancellation(&name, is_given_back));
        }
        Token::Reservation(_) => {
            return Err(Failure::usage(
                "--hold is of a reservation, whose units are used when its turn comes: only `cancel` \
                 takes it",
            ));
        }
    };
    let decision = verb.ask(&registry, &token).await.map_err(|error| failure(&error))?;
    note(&decision);
    if decision.hold_found() == Some(HoldFound::Unknown) {
        return Err(Failure::denied(
            "nothing is held by this token any more: it has expired, was released, or its key was \
             reset; what it had taken stays as it is",
        ));
    }
    let name = decision.limit().map_or("", |limit| limit.name().as_str());
    let answer = Answer::new(name, &decision);
    let is_list = decision.limit().map_or(&[][..], Limit::parts).len() > 1;
    let answer = if is_list { answer.naming_limits(&decision) } else { answer };
    tell(&answer.holding(decision.hold().map(|held| (hold.trim().to_owned(), held.lasts))))
}

impl HoldVerb {
    /// The call of a service that does the same.
    fn call(&self, hold: &str) -> (&'static str, Value) {
        let hold = hold.trim();
        match self {
            Self::Cancel => ("/v1/cancel", json!({"hold": hold})),
            Self::Release => ("/v1/release", json!({"hold": hold})),
            Self::Renew { lasts } => ("/v1/renew", json!({"hold": hold, "for": lasts.to_string()})),
            Self::Settle { used } => {
                let used = match used {
                    UsedUnits::Same(units) => json!(units),
                    UsedUnits::Each(each) => each
                        .iter()
                        .map(|(policy, units)| (policy.clone(), Value::from(*units)))
                        .collect::<serde_json::Map<_, _>>()
                        .into(),
                };
                ("/v1/settle", json!({"hold": hold, "used": used}))
            }
        }
    }

    async fn ask(
        &self,
        registry: &Registry,
        token: &sluicegate::HoldToken,
    ) -> Result<Decision, Error> {
        match self {
            Self::Cancel => registry.settle(token, Usage::nothing()).await,
            Self::Release => registry.settle(token, Usage::as_charged()).await,
            Self::Renew { lasts } => registry.renew(token, *lasts).await,
            Self::Settle { used } => registry.settle(token, used.usage()).await,
        }
    }
}
