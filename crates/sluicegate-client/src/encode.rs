//! Encodes requests as calls of a service.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::{Map, Value, json};
use sluicegate_core::{
    Costs, HoldToken, Limit, Operation, Receipt, Request, RequestError, RequestErrorKind, Span,
};

/// Time for which a service recognizes a repeated request id.
const KNOWN_FOR: Duration = Duration::from_secs(60);

/// A call to a service.
pub(crate) struct Call {
    pub(crate) path: Cow<'static, str>,
    pub(crate) body: Value,
}

impl Call {
    /// Encodes a request as a call.
    ///
    /// # Errors
    /// Returns an error if the service has no call for the request.
    pub(crate) fn of(limit: &Limit, request: &Request<'_>) -> Result<Self, RequestError> {
        let operation = request.operation();
        let (name, id) = match operation {
            Operation::Slices => return Err(unsupported(limit, "doesn't report slices")),
            Operation::GiveBack { .. } => {
                return Err(unsupported(
                    limit,
                    "can't give units back by the time of their request: hold the units, and settle the hold",
                ));
            }
            Operation::Cancel(receipt) => {
                let body = json!({"hold": token_of(receipt)?});
                return Ok(Self { path: "/v1/cancel".into(), body });
            }
            Operation::Settle { id, used } if used.iter().all(Option::is_none) => ("release", id),
            Operation::Settle { id, used } if is_nothing(used, limit) => ("cancel", id),
            Operation::Settle { id, .. } | Operation::Renew { id, .. } => (operation.name(), id),
            _ if request.ticket().is_some() => {
                return Err(unsupported(limit, "queues only calls that wait for their turn"));
            }
            _ => {
                let path = format!("/v1/{}", operation.name()).into();
                return Ok(Self { path, body: asking(limit, request)? });
            }
        };
        let subjects = (0..limit.parts().len()).map(|part| request.subject(part));
        let token = HoldToken::new(id, limit.parts().iter().cloned().zip(subjects))?;
        let mut body = json!({"hold": token.to_string()});
        match operation {
            Operation::Settle { used, .. } if name == "settle" => {
                body["used"] = used_by_name(limit, used)?;
            }
            Operation::Renew { lasts, .. } => body["for"] = lasts.to_string().into(),
            _ => {}
        }
        Ok(Self { path: format!("/v1/{name}").into(), body })
    }

    /// Encodes a check that waits in a queue for up to `within`. The service waits while the
    /// request is open.
    ///
    /// # Errors
    /// Returns an error if the request isn't a check, or if the service has no call for it.
    pub(crate) fn waiting(
        limit: &Limit,
        request: &Request<'_>,
        priority: u8,
        within: Span,
    ) -> Result<Self, RequestError> {
        if request.operation() != Operation::Check {
            return Err(unsupported(limit, "queues only checks"));
        }
        let mut body = asking(limit, request)?;
        body["within"] = within.to_string().into();
        body["priority"] = priority.into();
        Ok(Self { path: "/v1/acquire".into(), body })
    }

    /// Adds the policies of the limit, for a service that takes them from requests.
    pub(crate) fn with_policies(mut self, limit: &Limit) -> Self {
        let policies = |part| Value::from(specs(limit, part));
        if let Some(Value::Array(entries)) = self.body.get_mut("limits") {
            for (part, entry) in entries.iter_mut().enumerate() {
                entry["policies"] = policies(part);
            }
        } else if self.body.get("limit").is_some() {
            self.body["policies"] = policies(0);
        } else {
            // A token has the names alone.
            let by_name = limit.parts().iter().enumerate();
            let by_name = by_name.map(|(part, name)| (name.to_string(), policies(part)));
            self.body["policies"] = by_name.collect::<Map<_, _>>().into();
        }
        self
    }

    /// Encodes a peek at the subjects of a request, at no cost.
    ///
    /// # Errors
    /// Returns an error if the service has no call for it.
    pub(crate) fn peek(limit: &Limit, request: &Request<'_>) -> Result<Self, RequestError> {
        let nothing = vec![0; limit.members().len()];
        let subjects: Vec<&[u8]> =
            (1..limit.parts().len()).map(|part| request.subject(part)).collect();
        let peek = Request::new(Operation::Peek, request.subject(0));
        Self::of(limit, &peek.also(&subjects).costs(Costs::Each(&nothing)))
    }
}

/// Encodes the body of a request to one or several limits.
fn asking(limit: &Limit, request: &Request<'_>) -> Result<Value, RequestError> {
    let several = limit.parts().len() > 1;
    let mut entries = Vec::with_capacity(limit.parts().len());
    for (part, name) in limit.parts().iter().enumerate() {
        let key = std::str::from_utf8(request.subject(part))
            .map_err(|_| unsupported(limit, "takes keys that are text: this one is not UTF-8"))?;
        let mut entry = Map::new();
        entry.insert("limit".to_owned(), name.as_str().into());
        entry.insert("key".to_owned(), key.into());
        if let Some(cost) = cost_of(limit, request.cost(), part) {
            entry.insert("cost".to_owned(), cost);
        }
        entries.push(Value::from(entry));
    }
    let mut body = match entries.pop() {
        Some(one) if !several => one,
        last => {
            entries.extend(last);
            json!({"limits": entries})
        }
    };
    match request.operation() {
        Operation::Ban { lasts } | Operation::Pause { lasts, .. } => {
            body["for"] = lasts.to_string().into();
        }
        Operation::Reserve { within } => {
            body["within"] = within.to_string().into();
        }
        _ => {}
    }
    let paused = request.operation().paused_policy();
    if let Some(member) = paused.and_then(|it| limit.members().get(it)) {
        body["policy"] = member.name().as_str().into();
    }
    if let Some(once) = request.idempotency() {
        if once.lasts > KNOWN_FOR {
            return Err(unsupported(limit, "knows a repeat for a minute: let ids last no longer"));
        }
        body["request_id"] = once.id.to_string().into();
    }
    if let Some(hold) = request.holds() {
        body["hold"] =
            json!({"for": Span::from(hold.lasts).to_string(), "id": hold.id.to_string()});
    }
    Ok(body)
}

/// Returns the specs of the policies of one of several limits.
pub(crate) fn specs(limit: &Limit, part: usize) -> Vec<String> {
    let own = limit.members().iter().filter(|member| member.part() == part);
    own.map(|member| member.policy().to_string()).collect()
}

/// Encodes the cost of a request under one of its limits.
fn cost_of(limit: &Limit, costs: Costs<'_>, part: usize) -> Option<Value> {
    match costs {
        Costs::Own => None,
        Costs::Same(cost) => Some(cost.get().into()),
        costs => {
            let members = limit.members().iter().enumerate();
            let own = members.filter(|(_, member)| member.part() == part);
            let each = own.map(|(index, member)| {
                (member.name().to_string(), Value::from(costs.of(limit, index)))
            });
            Some(each.collect::<Map<_, _>>().into())
        }
    }
}

/// Returns `true` if no policy used a unit.
fn is_nothing(used: &[Option<u64>], limit: &Limit) -> bool {
    used.len() == limit.members().len() && used.iter().all(|units| *units == Some(0))
}

/// Encodes the used units by policy name. A name applies to the policies of all limits.
fn used_by_name(limit: &Limit, each: &[Option<u64>]) -> Result<Value, RequestError> {
    let mut used = Map::new();
    let each = || limit.members().iter().zip(each.iter().copied().chain(std::iter::repeat(None)));
    for (member, units) in each() {
        let mut namesakes = each().filter(|(namesake, _)| namesake.name() == member.name());
        if namesakes.any(|(_, other)| other != units) {
            let message = format!(
                "policies `{}` of several limits used different units, and the call can't tell \
                 them apart: rename the policy of limit `{}`",
                member.name(),
                limit.name()
            );
            return Err(RequestError::new(RequestErrorKind::Unsupported, message));
        }
        if let Some(units) = units {
            used.insert(member.name().to_string(), units.into());
        }
    }
    Ok(used.into())
}

/// Returns the token of a service's reservation, which the receipt stores in place of a state.
fn token_of(receipt: &Receipt) -> Result<&str, RequestError> {
    let change = receipt.parts().first().and_then(|part| part.change.as_ref());
    let token = change.and_then(|change| std::str::from_utf8(&change.after).ok());
    token.ok_or_else(|| {
        let message = "the receipt is not of a reservation that a service made: cancel it in the store that made it";
        RequestError::new(RequestErrorKind::Invalid, message)
    })
}

#[cold]
pub(crate) fn unsupported(limit: &Limit, what: &str) -> RequestError {
    let message = format!("limit `{}` is decided by a service, which {what}", limit.name());
    RequestError::new(RequestErrorKind::Unsupported, message)
}
