//! Whether a request fits its limit.

use super::{Action, Operation, Request};
use crate::failure::{RequestError, RequestErrorKind};
use crate::hold::{Hold, validate_life};
use crate::limit::Limit;
use crate::ticket::Ticket;

impl Request<'_> {
    /// Checks that the request is valid for a limit, whatever its states.
    ///
    /// # Errors
    /// [`RequestErrorKind::Invalid`] for costs or subjects that don't fit the limit,
    /// [`RequestErrorKind::Unsupported`] for what its policies don't offer.
    pub fn validate(&self, limit: &Limit) -> Result<(), RequestError> {
        match self.hold {
            Some(hold) => self.validate_hold(hold, limit)?,
            None => self.validate_without_hold(limit)?,
        }
        if let Some(once) = self.once {
            once.validate(self, limit)?;
        }
        if let Some(ticket) = self.ticket {
            self.validate_ticket(ticket, limit)?;
        }
        self.validate_apart_from_holds(limit)
    }

    pub(crate) fn validate_apart_from_holds(&self, limit: &Limit) -> Result<(), RequestError> {
        self.validate_subjects(limit)?;
        if let Some(leasing) = self.leasing {
            leasing.validate(limit, self.action)?;
        }
        match self.action {
            Action::Decide(operation) => {
                operation.validate(limit)?;
                self.costs.validate(limit)
            }
            Action::Cancel(receipt) => receipt.validate(limit),
            Action::Slices => crate::slices::SliceCounts::ring(limit).map(drop),
            Action::Settle { used, .. } => used.validate(limit),
            Action::Renew { lasts, .. } => validate_life(lasts, limit),
        }
    }

    /// Checks that the request carries a time if and only if the limit was opened with injected
    /// time.
    ///
    /// # Errors
    /// [`RequestErrorKind::Invalid`] otherwise.
    #[inline]
    pub fn validate_time(&self, limit: &Limit, is_injected: bool) -> Result<(), RequestError> {
        if self.at.is_some() == is_injected { Ok(()) } else { Err(wrong_time(limit, is_injected)) }
    }

    fn validate_hold(&self, hold: &Hold, limit: &Limit) -> Result<(), RequestError> {
        use Operation::{Charge, Check, TakeUpTo};
        let can_hold = matches!(self.action, Action::Decide(Check | Charge | TakeUpTo));
        let why = match (can_hold, self.leasing) {
            (true, None) => return hold.validate(limit),
            (true, Some(leasing)) if leasing.want == 0 => return hold.validate(limit),
            (true, Some(_)) => "it can't want a lease too",
            (false, _) => "only a check, a charge and a partial grant can hold what they take",
        };
        let message = format!("the request can't hold anything: {why}");
        Err(RequestError::new(RequestErrorKind::Invalid, message))
    }

    fn validate_ticket(&self, ticket: &Ticket, limit: &Limit) -> Result<(), RequestError> {
        if self.once.is_some() {
            let message = "a request with an id can't wait in a queue: wait without one, for who waits \
                           has its place by the id of what it is to hold";
            return Err(RequestError::new(RequestErrorKind::Unsupported, message));
        }
        if self.hold.is_some() && self.action == Action::Decide(Operation::Check) {
            self.costs.validate(limit)?;
            return ticket.validate(self, limit);
        }
        let message = "the request can't wait: only a check that holds what it takes can";
        Err(RequestError::new(RequestErrorKind::Invalid, message))
    }

    /// A permit that nobody holds could never be given back.
    fn validate_without_hold(&self, limit: &Limit) -> Result<(), RequestError> {
        let Action::Decide(operation) = self.action else { return Ok(()) };
        let is_refused = operation.takes() || matches!(operation, Operation::GiveBack { .. });
        if !is_refused || !limit.has_permits() {
            return Ok(());
        }
        let name = limit.name();
        let message = if operation.takes() {
            format!(
                "limit `{name}` counts what is in flight, so a request has to hold what it takes"
            )
        } else {
            format!(
                "limit `{name}` counts what is in flight, which is given back by settling a hold"
            )
        };
        Err(RequestError::new(RequestErrorKind::Unsupported, message))
    }

    fn validate_subjects(&self, limit: &Limit) -> Result<(), RequestError> {
        let parts = limit.parts().len();
        let given = match self.action {
            Action::Cancel(_) => return Ok(()),
            Action::Decide(_) | Action::Slices | Action::Settle { .. } | Action::Renew { .. } => {
                self.also.len() + 1
            }
        };
        if given == parts {
            return Ok(());
        }
        Err(RequestError::new(
            RequestErrorKind::Invalid,
            format!(
                "limit `{}` needs {parts} subjects, one for each of its parts, but {given} were given",
                limit.name(),
            ),
        ))
    }
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
