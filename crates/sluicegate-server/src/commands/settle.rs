//! `settle`, `cancel`, `renew` and `release`: the commands that use a token.

use sluicegate::Limit;
use sluicegate::decision::HoldFound;

use super::ask::{failure, note};
use super::hold_verb::HoldVerb;
use super::setup::{OnFreshStore, open};
use super::{lines, remote};
use crate::cli::HoldArgs;
use crate::output::{Exit, Failure, say};
use crate::token::Token;
use sluicegate_client::json::Answer;

/// Settles, renews, cancels or releases a hold, in the store or at a service, and prints the
/// answer.
///
/// # Errors
/// Returns an error if the arguments are invalid, the store failed, or the hold doesn't exist.
pub(crate) async fn settle(verb: HoldVerb, args: HoldArgs) -> Result<Exit, Failure> {
    let HoldArgs { hold, to, admin_token } = args;
    if let Some(service) = &to.server {
        let (path, body) = verb.call(&hold);
        let token = admin_token.read()?;
        let call = remote::Call::post(service, path, token.as_deref(), body);
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
        Ok(Exit::of(answer))
    };
    let token = match token {
        Token::Hold(token) => token,
        Token::Reservation(receipt) if verb == HoldVerb::Cancel => {
            let is_given_back = registry.cancel(&receipt).await.map_err(|error| failure(&error))?;
            let name = Token::Reservation(receipt).name();
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
            "this token's hold has ended: it expired, was released, or its key was reset; nothing \
             was changed",
        ));
    }
    let name = decision.limit().map_or("", |limit| limit.name().as_str());
    let answer = Answer::new(name, &decision);
    let is_list = decision.limit().map_or(&[][..], Limit::parts).len() > 1;
    let answer = if is_list { answer.naming_limits(&decision) } else { answer };
    tell(&answer.holding(decision.hold().map(|held| (hold.trim().to_owned(), held.lasts))))
}
