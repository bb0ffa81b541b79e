//! Two phases: several desks decide, and if one denies, the others take back their units. [`take`] runs both.

use std::future::Future;

use futures_util::future::join_all;
use sluicegate_core::{Decision, Error, RequestErrorKind, StoreErrorKind};

/// Several desks that decide on their own. All callers number them in the same order.
pub(crate) trait Desks: Sync {
    /// Returns the number of desks, at most 64.
    fn count(&self) -> usize;

    /// Asks a desk.
    fn ask(
        &self,
        desk: usize,
        question: Question,
    ) -> impl Future<Output = Result<Decision, Error>> + Send;

    /// Makes some desks take back all that they gave, without waiting for them.
    fn give_back_unwatched(&self, desks: impl Iterator<Item = usize>);

    /// Returns whether any policy limits the granted units of a take at this desk.
    fn bounds(&self, desk: usize) -> bool;

    /// Returns whether a denial, by any desk, costs something at this one.
    fn charges_the_denied(&self, desk: usize) -> bool;
}

/// A request to a desk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Question {
    /// Give the requested units, or nothing.
    Take,
    /// Answer as to a take, without giving anything.
    Look,
    /// Answer as to a request that costs nothing.
    LookForNothing,
    /// Take back given units.
    GiveBack(Back),
}

/// The part of the given units to take back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Back {
    /// All units, as if there had been no request.
    All,
    /// All units, except for the cost of a denial, of this number of granted units.
    Denied(u64),
    /// This number of units of a take.
    Surplus(u64),
}

/// The result of a take.
#[derive(Debug)]
pub(crate) struct Taken {
    /// First answer of each desk.
    pub(crate) decisions: Vec<Decision>,
    /// Answers of the desks that took something back.
    pub(crate) afterwards: Vec<Option<Decision>>,
    /// Whether some desks gave what others refused.
    pub(crate) was_mixed: bool,
}

impl Taken {
    pub(crate) fn is_denied(&self) -> bool {
        self.decisions.iter().any(Decision::is_denied)
    }
}

/// The order in which the desks are asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Order {
    AtOnce,
    OneByOne,
}

/// Takes from all desks, or from none.
///
/// If one desk denies or fails, the others take back what they gave. If the future is dropped, or time is up,
/// no caller waits for that.
///
/// # Errors
/// Returns the first error of a desk.
pub(crate) async fn take<D: Desks>(desks: &D, order: Order) -> Result<Taken, Error> {
    let count = desks.count();
    let mut given = Given { desks, to: 0 };
    let mut answers: Vec<Option<Result<Decision, Error>>> = (0..count).map(|_| None).collect();
    match order {
        Order::AtOnce => {
            given.to = u64::MAX >> (u64::BITS as usize - count);
            let all = join_all((0..count).map(|desk| desks.ask(desk, Question::Take))).await;
            answers = all.into_iter().map(Some).collect();
        }
        Order::OneByOne => {
            for (desk, place) in answers.iter_mut().enumerate() {
                given.to |= 1 << desk;
                let answer = desks.ask(desk, Question::Take).await;
                let goes_on = answer.as_ref().is_ok_and(Decision::is_allowed);
                *place = Some(answer);
                if !goes_on {
                    break;
                }
            }
        }
    }
    for (desk, answer) in answers.iter().enumerate() {
        if answer.as_ref().is_some_and(has_nothing) {
            given.to &= !(1 << desk);
        }
    }
    let mut overflowed: u64 = 0;
    if answers.iter().any(is_overflow) && is_refused(desks, &answers).await {
        // Nothing is charged, so no state can overflow.
        for (desk, answer) in answers.iter_mut().enumerate() {
            if is_overflow(answer) {
                overflowed |= 1 << desk;
                *answer = None;
            }
        }
    }
    let has_failed = answers.iter().flatten().any(Result::is_err);
    let is_allowed =
        |answer: &Result<Decision, Error>| answer.as_ref().is_ok_and(Decision::is_allowed);
    let is_complete = answers.iter().all(|answer| answer.as_ref().is_some_and(is_allowed));
    if !has_failed && is_complete {
        given.to = 0;
        return Ok(trimmed(desks, answers.into_iter().flatten().flatten().collect()).await);
    }
    let was_mixed = !has_failed && given.to != 0;
    let (decisions, afterwards) = {
        let owes = given.to;
        let rest = answers.into_iter().enumerate().map(|(desk, answer)| async move {
            let owes = owes & (1 << desk) != 0;
            let after = async |answer: &Result<Decision, Error>| {
                let back = match answer {
                    Ok(decision) if !has_failed => Back::Denied(decision.granted()),
                    _ => Back::All,
                };
                match desks.ask(desk, Question::GiveBack(back)).await {
                    Ok(decision) => Ok(Some(decision)),
                    // A record that expires leaves its units charged. An unexpected error must be reported.
                    Err(error) if is_unexpected(&error) => Err(error),
                    Err(_) => Ok(None),
                }
            };
            match answer {
                Some(answer) => {
                    let after = if owes { after(&answer).await } else { Ok(None) };
                    (Some(answer), after)
                }
                None if has_failed => (None, Ok(None)),
                None if desks.charges_the_denied(desk) => {
                    let guard = Given { desks, to: 1 << desk };
                    let answer = desks.ask(desk, Question::Take).await;
                    let owes = !has_nothing(&answer);
                    let after = if owes { after(&answer).await } else { Ok(None) };
                    if !owes || matches!(after, Ok(Some(_))) {
                        guard.forget();
                    }
                    (Some(answer), after)
                }
                None if overflowed & (1 << desk) != 0 => {
                    (Some(desks.ask(desk, Question::LookForNothing).await), Ok(None))
                }
                None => (Some(desks.ask(desk, Question::Look).await), Ok(None)),
            }
        });
        let rest: (Vec<_>, Vec<_>) = join_all(rest).await.into_iter().unzip();
        rest
    };
    for (desk, after) in afterwards.iter().enumerate() {
        if matches!(after, Ok(Some(_))) {
            given.to &= !(1 << desk);
        }
    }
    // Dropping the guard gives back the units that remain.
    drop(given);
    let decisions = decisions.into_iter().flatten().collect::<Result<Vec<_>, _>>()?;
    let afterwards = afterwards.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(Taken { decisions, afterwards, was_mixed })
}

/// Returns whether a desk denies, including those that were not asked.
async fn is_refused<D: Desks>(desks: &D, answers: &[Option<Result<Decision, Error>>]) -> bool {
    if answers.iter().flatten().flatten().any(Decision::is_denied) {
        return true;
    }
    let unasked = answers.iter().enumerate().filter(|(_, answer)| answer.is_none());
    let looks = unasked.map(|(desk, _)| desks.ask(desk, Question::Look));
    join_all(looks).await.iter().flatten().any(Decision::is_denied)
}

/// Asks all desks at the same time, without taking anything.
pub(crate) async fn ask_all<D: Desks>(desks: &D) -> Result<Vec<Decision>, Error> {
    let all = join_all((0..desks.count()).map(|desk| desks.ask(desk, Question::Look))).await;
    all.into_iter().collect()
}

/// Handles a take that all desks granted: each one takes back the units beyond the smallest grant.
async fn trimmed<D: Desks>(desks: &D, decisions: Vec<Decision>) -> Taken {
    let granted =
        |(desk, decision): (usize, &Decision)| desks.bounds(desk).then(|| decision.granted());
    let least = decisions.iter().enumerate().filter_map(granted).min();
    let trims = decisions.iter().enumerate().map(|(desk, decision)| async move {
        let surplus = decision.granted().checked_sub(least?).filter(|surplus| *surplus > 0)?;
        if !desks.bounds(desk) {
            return None;
        }
        desks.ask(desk, Question::GiveBack(Back::Surplus(surplus))).await.ok()
    });
    let afterwards = join_all(trims).await;
    Taken { decisions, afterwards, was_mixed: false }
}

/// Returns whether a desk with this answer has certainly given nothing.
fn has_nothing(answer: &Result<Decision, Error>) -> bool {
    match answer {
        Ok(decision) => decision.is_denied(),
        Err(Error::Store(error)) => {
            matches!(error.kind(), StoreErrorKind::Unavailable | StoreErrorKind::Overloaded)
        }
        Err(_) => true,
    }
}

fn is_overflow(answer: &Option<Result<Decision, Error>>) -> bool {
    let error = answer.as_ref().and_then(|answer| answer.as_ref().err());
    let error = error.and_then(Error::as_request);
    error.is_some_and(|error| error.kind() == RequestErrorKind::Overflow)
}

fn is_unexpected(error: &Error) -> bool {
    error.as_store().is_none_or(|error| error.kind() == StoreErrorKind::Unexpected)
}

/// The desks that may have given units that no caller will use. Dropping it makes them take the units back.
struct Given<'d, D: Desks> {
    desks: &'d D,
    /// A bit for each desk.
    to: u64,
}

impl<D: Desks> Given<'_, D> {
    fn forget(mut self) {
        self.to = 0;
    }
}

impl<D: Desks> Drop for Given<'_, D> {
    fn drop(&mut self) {
        if self.to != 0 {
            let to = self.to;
            self.desks
                .give_back_unwatched((0..self.desks.count()).filter(|desk| to & (1 << desk) != 0));
        }
    }
}

#[cfg(test)]
mod tests;
