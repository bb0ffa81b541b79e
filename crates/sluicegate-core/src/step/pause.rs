//! Pauses. A request that a pause refuses isn't evaluated; requests set and end pauses.

use smallvec::SmallVec;

use super::Call;
use crate::book::Book;
use crate::decision::{Decision, DecisionForStores as _, Paused};
use crate::limit::{Identity, Limit, Member};
use crate::pause;
use crate::request::{Operation, Request};
use crate::time::Span;

/// The pauses of a request's subjects at the evaluation time, for each part that has any.
pub(super) struct Pauses<'l> {
    limit: &'l Limit,
    now: u64,
    seats: SmallVec<[Seat; 1]>,
}

/// Returns the maximum number of bytes that a pause adds to a book.
pub(super) fn growth(request: &Request<'_>) -> Option<usize> {
    let sets = matches!(request.operation(), Operation::Pause { .. });
    sets.then_some(pause::Pauses::GROWTH_BYTES)
}

struct Seat {
    part: usize,
    pauses: pause::Pauses,
    is_changed: bool,
}

impl<'l> Pauses<'l> {
    /// Before the decision: reads the subjects' pauses, if the request heeds or changes them.
    pub(super) fn before(call: Call<'l>, books: &[Book]) -> Self {
        let Call { limit, operation, now, .. } = call;
        let mut seats = SmallVec::new();
        if operation.heeds_bans() || operation.changes_pauses() {
            for (part, book) in books.iter().enumerate() {
                let Some(mut pauses) = book
                    .pauses()
                    .cloned()
                    .or_else(|| operation.changes_pauses().then(pause::Pauses::default))
                else {
                    continue;
                };
                let is_changed = pauses.restamp(now);
                seats.push(Seat { part, pauses, is_changed });
            }
        }
        Self { limit, now: now.micros, seats }
    }

    /// Returns the longest pause that refuses a request.
    pub(super) fn refusing(&self, request: &Request<'_>) -> Option<Paused> {
        let costs_any = |part| self.members(part).any(|index| self.costs(request, index));
        let pauses = self.seats.iter().flat_map(|Seat { part, pauses, .. }| {
            let whole = pauses.rest(Identity::SUBJECT, self.now).filter(|_| costs_any(*part));
            let whole = whole.map(|rest| Paused::new(*part, None, rest));
            let of_policies = self.members(*part).filter_map(|index| {
                let rest = pauses.rest(self.limit.members()[index].identity(), self.now)?;
                let is_asked = self.costs(request, index);
                is_asked.then(|| Paused::new(*part, Some(index), rest))
            });
            whole.into_iter().chain(of_policies)
        });
        pauses.reduce(Paused::longer)
    }

    /// After the decision: sets or ends pauses as requested.
    pub(super) fn after(&mut self, operation: Operation<'_>, decision: &mut Decision) {
        let policy = operation.paused_policy();
        let member = policy.and_then(|policy| self.limit.members().get(policy));
        let identity = member.map_or(Identity::SUBJECT, Member::identity);
        match operation {
            Operation::Pause { lasts, .. } => self.begin(identity, policy, lasts, decision),
            Operation::Resume { .. } => decision.set_forgotten(self.end(identity)),
            _ => {}
        }
    }

    fn begin(
        &mut self,
        identity: Identity,
        policy: Option<usize>,
        lasts: Span,
        decision: &mut Decision,
    ) {
        for Seat { part, pauses, is_changed } in &mut self.seats {
            let until = pauses.extend(identity, self.now, lasts.as_micros());
            *is_changed = true;
            decision.extras_mut().pause = Some(Paused::new(*part, policy, until - self.now));
        }
    }

    fn end(&mut self, identity: Identity) -> bool {
        let mut was_paused = false;
        for Seat { pauses, is_changed, .. } in &mut self.seats {
            let before = pauses.clone();
            was_paused |= pauses.end(identity, self.now);
            *is_changed |= *pauses != before;
        }
        was_paused
    }

    /// Writes the changes into the books, and returns the changed parts as bits.
    pub(super) fn write(&self, books: &mut [Book]) -> u64 {
        let mut parts = 0;
        for seat in self.seats.iter().filter(|seat| seat.is_changed) {
            books[seat.part].set_pauses(seat.pauses.clone());
            parts |= 1 << seat.part;
        }
        parts
    }

    /// Returns the indices of a part's policies.
    fn members(&self, part: usize) -> impl Iterator<Item = usize> {
        let members = self.limit.members().iter().enumerate();
        members.filter(move |(_, member)| member.part() == part).map(|(index, _)| index)
    }

    fn costs(&self, request: &Request<'_>, index: usize) -> bool {
        request.cost_of(self.limit, index) > 0
    }
}
