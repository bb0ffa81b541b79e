//! Two phases: several decide, and if one refuses, the others take back what they gave.

use std::future::Future;

use futures_util::future::join_all;
use sluicegate_core::{Decision, Error, RequestErrorKind, StoreErrorKind};

/// Several that decide for themselves, by number in an order that is the same for everybody.
pub(crate) trait Desks: Sync {
    /// How many there are, at most 64.
    fn count(&self) -> usize;

    /// Asks one of them.
    fn ask(
        &self,
        desk: usize,
        question: Question,
    ) -> impl Future<Output = Result<Decision, Error>> + Send;

    /// Has some of them take back all that they gave, without waiting for that.
    fn give_back_unwatched(&self, desks: impl Iterator<Item = usize>);

    /// Whether anything bounds what one of them grants of units that are taken up to a number.
    fn bounds(&self, desk: usize) -> bool;

    /// Whether a denial, by whichever of them, costs something at one.
    fn charges_the_denied(&self, desk: usize) -> bool;
}

/// What one is asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Question {
    /// To give what is asked for, or nothing.
    Take,
    /// What it would say.
    Look,
    /// What it would say to a request that costs nothing.
    LookForNothing,
    /// To take back
    GiveBack(Back),
}

/// what it gave:
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Back {
    /// all of it, as if it had not been asked,
    All,
    /// all but what a denial costs, of so many units that it granted,
    Denied(u64),
    /// so many units of what was taken up to a number.
    Surplus(u64),
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Taken {
    /// What each of them said first.
    pub(crate) decisions: Vec<Decision>,
    /// What those say that took something back.
    pub(crate) afterwards: Vec<Option<Decision>>,
    /// Some had given what others refused.
    pub(crate) was_mixed: bool,
}

impl Taken {
    pub(crate) fn is_denied(&self) -> bool {
        self.decisions.iter().any(Decision::is_denied)
    }
}

/// How they are asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Order {
    AtOnce,
    OneByOne,
}

/// Takes from all of them, or from none.
///
/// Whoever has given something while another refuses or fails takes it back; if the future is
/// dropped, or there was no time for that, without anybody who waits for it.
///
/// # Errors
/// The first that one of them has.
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
        // Nothing is charged, so that nothing can be too much for a state.
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
                    // What lapses was lost; what can't be given back at all has to be heard of.
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
    // What is still owed is given back as the guard goes.
    drop(given);
    let decisions = decisions.into_iter().flatten().collect::<Result<Vec<_>, _>>()?;
    let afterwards = afterwards.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(Taken { decisions, afterwards, was_mixed })
}

/// Whether one of them refuses, be it one that wasn't asked.
async fn is_refused<D: Desks>(desks: &D, answers: &[Option<Result<Decision, Error>>]) -> bool {
    if answers.iter().flatten().flatten().any(Decision::is_denied) {
        return true;
    }
    let unasked = answers.iter().enumerate().filter(|(_, answer)| answer.is_none());
    let looks = unasked.map(|(desk, _)| desks.ask(desk, Question::Look));
    join_all(looks).await.iter().flatten().any(Decision::is_denied)
}

/// Asks all of them for the same at once, without taking anything.
pub(crate) async fn ask_all<D: Desks>(desks: &D) -> Result<Vec<Decision>, Error> {
    let all = join_all((0..desks.count()).map(|desk| desks.ask(desk, Question::Look))).await;
    all.into_iter().collect()
}

/// All have given something: of what was taken up to a number, nobody keeps more than the least.
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

/// Whether somebody who answers so has certainly given nothing.
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

/// Those that may have given something that nobody will have. Dropped, it sees to it that they are
/// told.
struct Given<'d, D: Desks> {
    desks: &'d D,
    /// As bits.
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
