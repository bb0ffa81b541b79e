//! The bans and pauses of a request's subjects, which refuse it before its policies are evaluated.

use super::ban::Bans;
use super::judge::Judge;
use super::pause::Pauses;
use super::{Call, Step, lives};
use crate::book::Book;
use crate::decision::{Decision, DecisionForStores as _};
use crate::limit::Limit;
use crate::request::{Operation, Request};
use crate::stored::Stored;

/// The bans and pauses of a request's subjects at the evaluation time.
pub(super) struct Refusals<'l> {
    bans: Bans<'l>,
    pauses: Pauses<'l>,
}

/// Returns the maximum number of bytes that a denial, a ban or a pause adds to a book.
pub(super) fn growth(
    limit: &Limit,
    request: &Request<'_>,
    part: usize,
    book: &Book,
) -> Option<usize> {
    super::ban::growth(limit, request, part, book).or_else(|| super::pause::growth(request))
}

impl<'l> Refusals<'l> {
    /// Before the decision: reads the subjects' bans and pauses.
    pub(super) fn before(call: Call<'l>, books: &[Book]) -> Self {
        Self { bans: Bans::before(call, books), pauses: Pauses::before(call, books) }
    }

    /// Returns the decision on a request that a ban or a pause refuses.
    pub(super) fn refuse(
        &self,
        Call { limit, request, operation, now }: Call<'_>,
        held: &mut [Option<Stored>],
        books: &mut [Book],
    ) -> Option<Step> {
        if !operation.heeds_bans() {
            return None;
        }
        let (ban, pause) = (self.bans.refusing(request), self.pauses.refusing(request));
        if ban.is_none() && pause.is_none() {
            return None;
        }
        let mut step = Step::of(Decision::refused(limit, ban, pause, self.are_restamped()));
        if operation != Operation::Peek {
            step.books = self.bans.write(books) | self.pauses.write(books);
        }
        if step.books != 0 {
            step.lives = lives(limit, now, held);
        }
        Some(step)
    }

    /// Returns `true` if bans were restamped. Restamped pauses aren't reported.
    pub(super) fn are_restamped(&self) -> bool {
        self.bans.are_restamped()
    }

    /// After the decision: counts a denial, unless the request waits. Sets and ends bans and pauses
    /// as requested.
    pub(super) fn after(
        mut self,
        operation: Operation<'_>,
        judge: &Judge<'_>,
        waits: bool,
        step: &mut Step,
        books: &mut [Book],
    ) {
        self.bans.after(operation, judge, waits, &mut step.decision);
        self.pauses.after(operation, &mut step.decision);
        if operation != Operation::Peek {
            step.books |= self.bans.write(books) | self.pauses.write(books);
        }
    }
}
