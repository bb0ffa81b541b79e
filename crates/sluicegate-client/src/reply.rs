//! Decodes a service's replies.

use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::for_stores::{Change, PartReceipt, Told, ToldOutcome};
use sluicegate_core::{
    Algorithm, Banned, Decision, Error, Hold, HoldFound, HoldToken, Limit, Member, Paused, Queued,
    Receipt, Request, RequestError, RequestErrorKind, RetryAfter, Source, Span, StoreError,
    StoreErrorKind, StoreId, Ticket, Warnings, printable,
};

use crate::answer::{Ready, Reply, ServiceError};
use crate::json::{Answer, BanAnswer, PauseAnswer, PolicyAnswer, STORE_FULL};

/// Error code of a service whose store failed, under a limit with `on_store_failure: deny`.
const FAILED_CLOSED: &str = "store_failed_closed";

/// Decodes the decision on a request to `limit`. Returns `None` if the reply has no decision.
///
/// # Errors
/// Returns an error if the answer is invalid or doesn't match the limit's policies.
pub(crate) fn decision(
    limit: &Limit,
    request: &Request<'_>,
    reply: &Reply,
) -> Option<Result<Decision, String>> {
    let Ok(answer) = serde_json::from_slice::<Answer<'_>>(&reply.body) else {
        // The service's `on_store_failure` decided, not the program's.
        let is_denied = reply.error().is_some_and(|error| error.code == FAILED_CLOSED);
        return is_denied.then(|| Ok(Decision::fallback(limit, false)));
    };
    Some(told(limit, request, &answer))
}

fn told(limit: &Limit, request: &Request<'_>, answer: &Answer<'_>) -> Result<Decision, String> {
    if let Some(is_given_back) = answer.cancelled {
        return Ok(Decision::cancelled(limit, is_given_back));
    }
    let source = match &*answer.source {
        "store" => Source::Store,
        "fallback" => Source::Fallback,
        "lease" => Source::Lease,
        "deny-cache" => Source::DenyCache,
        "bypass" => Source::Bypass,
        other => return Err(format!("its answer is from `{}`", printable(other))),
    };
    let asked = in_force(limit, &answer.policies);
    let mut policies = Vec::with_capacity(asked.members().len());
    let mut given = Vec::with_capacity(asked.members().len());
    let has_found = answer.found.is_some();
    for member in asked.members() {
        let name = asked.parts()[member.part()].as_str();
        let said = answer.policies.iter().find(|policy| {
            policy.name == member.name().as_str()
                && policy.limit_name.as_deref().is_none_or(|limit| limit == name)
        });
        let Some(said) = said else {
            if answer.policies.is_empty() {
                break;
            }
            return Err(format!(
                "its limit `{name}` has no policy `{}`: give it, and the program, the same policies",
                member.name()
            ));
        };
        policies.push(outcome(said, member.policy().algorithm(), has_found)?);
        given.push(said.given_back);
    }
    if answer.policies.len() != policies.len() {
        return Err(format!(
            "its limit `{}` has {} policies, and that of the program {}: give both the same",
            limit.name(),
            answer.policies.len(),
            policies.len()
        ));
    }
    let binding = answer.binding.as_ref().and_then(|binding| {
        asked.members().iter().position(|member| {
            let name = asked.parts()[member.part()].as_str();
            member.name().as_str() == binding
                && answer.binding_limit.as_deref().is_none_or(|limit| limit == name)
        })
    });
    let ban = answer.ban.as_ref().map(|ban| banned(&asked, ban)).transpose()?;
    let pause = answer.pause.as_ref().map(|pause| paused(&asked, pause)).transpose()?;
    let retry_after = retry(answer.allowed, answer.retry_after_us)?;
    let is_full = answer.code.as_deref() == Some(STORE_FULL);
    let mut warnings = Warnings::default();
    (warnings.restamped, warnings.full) = (answer.restamped, is_full);
    let told = Told {
        allowed: answer.allowed,
        source,
        retry_after,
        binding,
        granted: answer.granted,
        forgotten: answer.forgotten,
        ban,
        pause,
        is_repeat: answer.repeat,
        warnings,
        policies: &policies,
    };
    let decision = Decision::told(&asked, request, &told);
    let decision = match answer.found.as_deref() {
        None => decision,
        Some("live") => decision.of_hold(HoldFound::Live, given.into_iter()),
        Some("waited") => decision.of_hold(HoldFound::Waited, given.into_iter()),
        Some(_) => decision.of_hold(HoldFound::Settled, given.into_iter()),
    };
    let decision = match answer.code.as_deref() {
        Some("queue_full") => decision.with_queued(Queued::Full),
        // The service gave up the queue position, so a retry starts at the end of the queue.
        Some("timed_out") => decision.with_queued(Queued::Waits {
            ahead: answer.ahead.unwrap_or(0),
            ask_within: Ticket::MIN_LIVES,
        }),
        _ => decision,
    };
    with_hold(decision, limit, request, answer)
}

/// Adds the hold to a decision: under the request's id, or as the receipt of a reservation.
fn with_hold(
    decision: Decision,
    limit: &Limit,
    request: &Request<'_>,
    answer: &Answer<'_>,
) -> Result<Decision, String> {
    use sluicegate_core::Operation;
    let Some(held) = &answer.hold else { return Ok(decision) };
    let lasts = span(held.expires_in_us)?;
    let id = match (request.holds(), request.operation()) {
        // A repeat returns the first request's hold, with its id.
        (Some(_), _) => {
            let token: Result<HoldToken, _> = held.token.parse();
            Some(token.map_err(|error| format!("its answer has an invalid token: {error}"))?.id())
        }
        (None, Operation::Renew { id, .. }) => Some(id),
        _ => None,
    };
    Ok(match id {
        Some(id) => decision.with_hold(Hold { id, lasts: lasts.into() }),
        None if request.wants_receipt() => {
            // The token takes the place of a state: only the service reads it.
            let token = || Change { before: None, after: held.token.as_bytes().to_vec() };
            let parts = limit.parts().iter().enumerate().map(|(part, name)| PartReceipt {
                limit: name.clone(),
                subject: request.subject(part).to_vec(),
                change: (part == 0).then(token),
            });
            decision.with_receipt(Receipt::new(parts.collect()))
        }
        None => decision,
    })
}

/// Decodes the ban in an answer.
fn banned(limit: &Limit, ban: &BanAnswer<'_>) -> Result<Banned, String> {
    let part = limit.parts().iter().position(|part| part.as_str() == ban.limit);
    let part = part.ok_or_else(|| {
        format!("its answer has a ban of limit `{}`, which wasn't asked", printable(&ban.limit))
    })?;
    Ok(Banned::new(part, span(ban.ends_in_us)?.as_micros(), ban.begins))
}

/// Decodes the pause in an answer.
fn paused(limit: &Limit, pause: &PauseAnswer<'_>) -> Result<Paused, String> {
    let part = limit.parts().iter().position(|part| part.as_str() == pause.limit);
    let part = part.ok_or_else(|| {
        let name = printable(&pause.limit);
        format!("its answer has a pause of limit `{name}`, which wasn't asked")
    })?;
    let policy = pause.policy.as_deref().map(|policy| {
        let is_meant = |member: &Member| member.part() == part && member.name().as_str() == policy;
        limit.members().iter().position(is_meant).ok_or_else(|| {
            let name = printable(policy);
            format!(
                "its answer has a pause of policy `{name}`, which the program's limit doesn't have"
            )
        })
    });
    Ok(Paused::new(part, policy.transpose()?, span(pause.ends_in_us)?.as_micros()))
}

/// Returns the limit without the parts that the service skipped, because they are off or allow-list
/// the key.
fn in_force(limit: &Limit, policies: &[PolicyAnswer<'_>]) -> Limit {
    if limit.parts().len() == 1 || policies.is_empty() {
        return limit.clone();
    }
    let is_asked = |part: &usize| {
        let name = limit.parts()[*part].as_str();
        policies.iter().any(|policy| policy.limit_name.as_deref().is_none_or(|of| of == name))
    };
    let parts: Vec<usize> = (0..limit.parts().len()).filter(is_asked).collect();
    if parts.len() == limit.parts().len() { limit.clone() } else { limit.only(&parts) }
}

fn outcome(
    said: &PolicyAnswer<'_>,
    algorithm: &Algorithm,
    is_of_hold: bool,
) -> Result<ToldOutcome, String> {
    // The service omits the index if there is only one window.
    let is_of_one = match algorithm {
        Algorithm::SlidingLog { tiers } => tiers.len() == 1,
        Algorithm::SlidingWindow { .. } => true,
        _ => false,
    };
    let only: &[usize] = if is_of_one && !said.allowed { &[0] } else { &[] };
    let violated = said.violated.iter().chain(only).filter(|index| **index < u32::BITS as usize);
    Ok(ToldOutcome {
        retry_after: retry(said.allowed, said.retry_after_us)?,
        remaining: said.remaining,
        reset_after: said.reset_after_us.map(span).transpose()?,
        wait: span(said.wait_us)?,
        given_back: said.given_back.filter(|_| !is_of_hold),
        used: said.window_total,
        current_slice: said.current_slice,
        violated: violated.fold(0, |bits, index| bits | 1 << index),
    })
}

fn retry(is_admitted: bool, micros: Option<u64>) -> Result<RetryAfter, String> {
    Ok(match micros {
        _ if is_admitted => RetryAfter::NotRefused,
        None => RetryAfter::Never,
        Some(micros) => RetryAfter::After(span(micros)?.into()),
    })
}

pub(crate) fn span(micros: u64) -> Result<Span, String> {
    Span::from_micros(micros).map_err(|_| format!("its answer has a time of {micros} µs"))
}

/// Reads whether a ready service's store answers.
///
/// # Errors
/// Returns the service's message if the store doesn't answer.
pub(crate) fn readiness(store: &StoreId, reply: &Reply) -> Result<(), StoreError> {
    if !reply.status.is_success() {
        return Err(match error(store, reply) {
            Error::Store(error) => error,
            error => StoreError::new(StoreErrorKind::Unexpected, error.to_string()),
        });
    }
    match serde_json::from_slice::<Ready>(&reply.body) {
        Ok(ready) if ready.store == "up" => Ok(()),
        Ok(ready) => {
            let why = ready.store_error.unwrap_or_else(|| format!("it is {}", ready.store));
            let message = format!("the store of the service at {store} doesn't answer: {why}");
            Err(StoreError::new(StoreErrorKind::Unavailable, message))
        }
        Err(_) => {
            let message = format!(
                "the service at {store} answered /readyz, but not as a Sluicegate service does: check the URL"
            );
            Err(StoreError::new(StoreErrorKind::Unexpected, message))
        }
    }
}

/// Returns `true` if the reply says that the token's hold has ended.
pub(crate) fn is_expired(reply: &Reply) -> bool {
    reply.error().is_some_and(|error| error.code == "hold_expired")
}

/// Converts a reply without a decision to an error.
#[cold]
pub(crate) fn error(store: &StoreId, reply: &Reply) -> Error {
    let Some(ServiceError { code, message }) = reply.error() else {
        return unexpected(
            store,
            &format!(
                "answered {}, but not as a Sluicegate service does: check the URL",
                reply.status.as_u16()
            ),
        );
    };
    let message = format!("the service at {store} answered: {}", printable(&message));
    let request = match &*code {
        "malformed" | "too_large" => Some(RequestErrorKind::Invalid),
        "overflow" => Some(RequestErrorKind::Overflow),
        "unsupported" => Some(RequestErrorKind::Unsupported),
        "conflict" => Some(RequestErrorKind::Conflict),
        "full" => Some(RequestErrorKind::Full),
        "store_too_small" => Some(RequestErrorKind::StoreTooSmall),
        "unfit_key" => Some(RequestErrorKind::UnfitKey),
        "unknown_limit" => Some(RequestErrorKind::UnknownLimit),
        _ => None,
    };
    if let Some(kind) = request {
        return RequestError::new(kind, message).into();
    }
    let kind = match &*code {
        "store_disconnected" => StoreErrorKind::Disconnected,
        "store_timeout" => StoreErrorKind::Timeout,
        "store_unavailable" | "draining" | "unready" => StoreErrorKind::Unavailable,
        "store_overloaded" | "overloaded" => StoreErrorKind::Overloaded,
        "store_unacknowledged" => StoreErrorKind::Unacknowledged,
        _ => StoreErrorKind::Unexpected,
    };
    StoreError::new(kind, message).into()
}

/// Returns the error for an answer that can't be understood.
#[cold]
pub(crate) fn unexpected(store: &StoreId, why: &str) -> Error {
    let message = format!("the service at {store}: {why}");
    StoreError::new(StoreErrorKind::Unexpected, message).into()
}
