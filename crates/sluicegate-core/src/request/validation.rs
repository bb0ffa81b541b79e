//! Checks that a request fits its limit.

use super::{Operation, Request};
use crate::algorithm::Queue;
use crate::failure::{RequestError, RequestErrorKind};
use crate::hold::Hold;
use crate::lease::Leasing;
use crate::limit::Limit;
use crate::number::MAX_EXACT;
use crate::request_id::Idempotency;
use crate::ticket::Ticket;
use crate::time::Span;

impl Request<'_> {
    /// Checks that the request is valid for a limit, regardless of the limit's states.
    ///
    /// # Errors
    /// Returns an error of kind [`RequestErrorKind::Invalid`] for costs or subjects that don't fit
    /// the limit. Returns [`RequestErrorKind::Unsupported`] for a feature that its policies don't
    /// offer.
    pub fn validate(&self, limit: &Limit) -> Result<(), RequestError> {
        match self.hold {
            Some(hold) => self.validate_hold(hold, limit)?,
            None => self.validate_without_hold(limit)?,
        }
        if let Some(once) = self.once {
            self.validate_once(once, limit)?;
        }
        if let Some(ticket) = self.ticket {
            self.validate_ticket(ticket, limit)?;
        }
        self.validate_apart_from_holds(limit)
    }

    pub(crate) fn validate_apart_from_holds(&self, limit: &Limit) -> Result<(), RequestError> {
        self.validate_subjects(limit)?;
        if let Some(leasing) = self.leasing {
            leasing.validate(limit, self.operation)?;
        }
        match self.operation {
            Operation::Cancel(receipt) => receipt.validate(limit),
            Operation::Slices => crate::slices::SliceCounts::ring(limit).map(drop),
            Operation::Settle { used, .. } => validate_used(used, limit),
            Operation::Renew { lasts, .. } => validate_life(lasts, limit),
            operation => {
                operation.validate(limit)?;
                self.costs.validate(limit)
            }
        }
    }

    /// Checks that the request carries a time if and only if the limit was opened with injected
    /// time.
    ///
    /// # Errors
    /// Returns an error of kind [`RequestErrorKind::Invalid`] otherwise.
    #[inline]
    pub fn validate_time(&self, limit: &Limit, is_injected: bool) -> Result<(), RequestError> {
        if self.at.is_some() == is_injected { Ok(()) } else { Err(wrong_time(limit, is_injected)) }
    }

    fn validate_hold(&self, hold: &Hold, limit: &Limit) -> Result<(), RequestError> {
        let why = match (self.operation.can_hold(), self.leasing) {
            (true, None) => return hold.validate(limit),
            (true, Some(leasing)) if !leasing.asks() => return hold.validate(limit),
            (true, Some(_)) => "it also requests a lease",
            (false, _) => "only a check, a charge and a take can hold their units",
        };
        let message = format!("the request can't hold anything: {why}");
        Err(RequestError::new(RequestErrorKind::Invalid, message))
    }

    fn validate_once(&self, once: Idempotency, limit: &Limit) -> Result<(), RequestError> {
        let lasts = Span::from(once.lasts);
        let (least, most) = (Idempotency::MIN_LASTS.into(), Span::from(Idempotency::MAX_LASTS));
        let message = if !self.operation.can_hold() {
            "only a check, a charge and a take can have a request id: omit it".to_owned()
        } else if self.leasing.is_some_and(Leasing::asks) {
            "a request with a request id can't request a lease: omit one of them".to_owned()
        } else if !(least..=most).contains(&lasts) {
            let name = limit.name();
            format!(
                "a request id of limit `{name}` can't be valid for {lasts}: write a time from {least} to {most}"
            )
        } else {
            return Ok(());
        };
        Err(RequestError::new(RequestErrorKind::Invalid, message))
    }

    fn validate_ticket(&self, ticket: &Ticket, limit: &Limit) -> Result<(), RequestError> {
        if self.once.is_some() {
            let message = "a request with a request id can't wait in a queue: omit the id; the \
                           hold id already identifies the ticket";
            return Err(RequestError::new(RequestErrorKind::Unsupported, message));
        }
        if self.hold.is_none() || self.operation != Operation::Check {
            let message = "the request can't wait: only a check with a hold can";
            return Err(RequestError::new(RequestErrorKind::Invalid, message));
        }
        self.costs.validate(limit)?;
        let name = limit.name();
        let queue = limit.queue()?;
        let message = if u64::from(ticket.priority) >= Queue::MAX_PRIORITIES {
            let most = Queue::MAX_PRIORITIES - 1;
            format!(
                "the priority is {}, but must be from 0, the highest, to {most}",
                ticket.priority
            )
        } else if !(Ticket::MIN_LIVES..=Ticket::MAX_LIVES).contains(&ticket.lives) {
            let (least, most) = (Ticket::MIN_LIVES, Ticket::MAX_LIVES);
            format!(
                "a ticket of limit `{name}` can't be valid for {}: write a time from {least} to {most}",
                ticket.lives
            )
        } else if self.cost_of(limit, queue) == 0 {
            let policy = limit.members()[queue].name();
            format!("the request costs nothing under `{policy}`, so there is nothing to wait for")
        } else {
            return Ok(());
        };
        Err(RequestError::new(RequestErrorKind::Invalid, message))
    }

    /// Rejects permits without a hold, which could never be given back.
    fn validate_without_hold(&self, limit: &Limit) -> Result<(), RequestError> {
        let operation = self.operation;
        let is_refused = operation.takes() || matches!(operation, Operation::GiveBack { .. });
        if !is_refused || !limit.has_permits() {
            return Ok(());
        }
        let name = limit.name();
        let message = if operation.takes() {
            format!("limit `{name}` counts requests in flight, so each request must hold its units")
        } else {
            format!(
                "limit `{name}` counts requests in flight: settle a hold to give its units back"
            )
        };
        Err(RequestError::new(RequestErrorKind::Unsupported, message))
    }

    fn validate_subjects(&self, limit: &Limit) -> Result<(), RequestError> {
        let parts = limit.parts().len();
        let given = match self.operation {
            // A receipt has its own subjects.
            Operation::Cancel(_) => return Ok(()),
            _ => self.also.len() + 1,
        };
        if given == parts {
            return Ok(());
        }
        let name = limit.name();
        Err(RequestError::new(
            RequestErrorKind::Invalid,
            if parts == 1 {
                format!("limit `{name}` takes one key, but {given} were given: pass one")
            } else {
                format!("limits `{name}` take {parts} keys, one each, but {given} were given")
            },
        ))
    }
}

impl Hold {
    pub(crate) fn validate(&self, limit: &Limit) -> Result<(), RequestError> {
        validate_life(self.lasts.into(), limit)
    }
}

/// Checks the used units of a hold.
fn validate_used(used: &[Option<u64>], limit: &Limit) -> Result<(), RequestError> {
    let policies = limit.members().len();
    let message = if used.len() > policies {
        format!(
            "{} numbers of used units were given for the {policies} policies of limit `{}`",
            used.len(),
            limit.name()
        )
    } else if let Some(used) = used.iter().flatten().find(|used| **used > MAX_EXACT) {
        format!("{used} units were used, but it must be a whole number from 0 to {MAX_EXACT}")
    } else {
        return Ok(());
    };
    Err(RequestError::new(RequestErrorKind::Invalid, message))
}

/// Checks the lifetime of a record.
fn validate_life(lasts: Span, limit: &Limit) -> Result<(), RequestError> {
    let least = Span::from(Hold::MIN_LASTS);
    let most = Span::from(limit.longest_hold().unwrap_or(Hold::MAX_LASTS));
    if (least..=most).contains(&lasts) {
        return Ok(());
    }
    let (name, lasts) = (limit.name(), lasts.in_words());
    Err(RequestError::new(
        RequestErrorKind::Invalid,
        format!("a hold of limit `{name}` can't last {lasts}: write a time from {least} to {most}"),
    ))
}

#[cold]
fn wrong_time(limit: &Limit, is_injected: bool) -> RequestError {
    let name = limit.name();
    let message = if is_injected {
        format!(
            "the request carries no time, but limit `{name}` was opened with injected time: set `at`"
        )
    } else {
        format!(
            "the request carries a time, but limit `{name}` was opened with the store's own clock: leave \
             `at` out, or open the limit with TimeSource::Injected"
        )
    };
    RequestError::new(RequestErrorKind::Invalid, message)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::hold::HoldId;
    use crate::request_id::RequestId;

    #[test]
    fn an_id_lasts_a_second_to_a_day_and_is_for_what_takes() {
        let limit = Limit::new("l", vec!["gcra 9/s"]).unwrap();
        let id = RequestId::from_bytes([1; 16]);
        let valid = |operation, lasts| {
            let request = Request::new(operation, b"alice").idempotent(Idempotency { id, lasts });
            request.validate(&limit).map_err(|error| error.kind())
        };
        let (micro, invalid) = (Span::from_micros(1).unwrap(), Err(RequestErrorKind::Invalid));
        let just_below = Span::from_micros(999_999).unwrap();
        let just_above = Span::from_micros(Span::DAY.as_micros() + 1).unwrap();
        for operation in [Operation::Check, Operation::Charge, Operation::Take] {
            assert_eq!(valid(operation, Duration::from_secs(1)), Ok(()));
            assert_eq!(valid(operation, Duration::from_secs(86_400)), Ok(()));
            for lasts in [Span::ZERO, micro, just_below, just_above, Span::WEEK] {
                assert_eq!(valid(operation, lasts.into()), invalid, "{lasts}");
            }
        }
        for operation in [
            Operation::Peek,
            Operation::Refund,
            Operation::Reset,
            Operation::Reserve { within: Span::SECOND },
        ] {
            assert_eq!(valid(operation, Duration::from_secs(1)), invalid, "{operation:?}");
        }
    }

    #[test]
    fn a_settlement_has_at_most_one_number_of_used_units_per_policy() {
        let limit = Limit::new("l", vec!["gcra 9/s as a", "gcra 9/s as b"]).unwrap();
        let id = HoldId::from_bytes([1; 16]);
        let settle = |used: &[Option<u64>]| {
            let settled = Request::settle(b"alice", id, used).validate(&limit);
            settled.map_err(|error| error.to_string())
        };
        for used in [&[][..], &[Some(3)], &[None, Some(MAX_EXACT)]] {
            assert_eq!(settle(used), Ok(()), "{used:?}");
        }
        let message = settle(&[None, None, Some(1)]).unwrap_err();
        assert!(message.contains("3 numbers of used units were given for the 2 policies"));
        let message = settle(&[Some(MAX_EXACT + 1)]).unwrap_err();
        assert!(message.contains("from 0 to 9007199254740991"), "{message}");
    }
}
