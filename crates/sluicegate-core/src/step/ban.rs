//! Bans. A request that a ban refuses isn't evaluated; denials by the policies begin bans.

use smallvec::SmallVec;

use super::Call;
use super::judge::Judge;
use crate::ban::Ban;
use crate::ban_state::BanState;
use crate::book::Book;
use crate::decision::DecisionForStores as _;
use crate::decision::{Banned, Decision};
use crate::limit::Limit;
use crate::request::{Operation, Request};
use crate::time::Span;

/// The denials and bans of a request's subjects at the evaluation time, for each part with a ban
/// rule.
pub(super) struct Bans<'l> {
    limit: &'l Limit,
    now: u64,
    seats: SmallVec<[Seat<'l>; 1]>,
}

/// Returns the maximum number of bytes that a denial or a ban adds to a book.
pub(super) fn growth(
    limit: &Limit,
    request: &Request<'_>,
    part: usize,
    book: &Book,
) -> Option<usize> {
    let operation = request.operation();
    let is_denied = operation.takes() && operation.heeds_bans();
    let counts = is_denied || matches!(operation, Operation::Ban { .. });
    (counts && limit.ban(part).is_some()).then(|| book.denial_bytes())
}

struct Seat<'l> {
    part: usize,
    ban: &'l Ban,
    state: Option<BanState>,
    is_restamped: bool,
    is_changed: bool,
}

impl<'l> Bans<'l> {
    /// Before the decision: reads the subjects' denials and bans. A reset forgets them without
    /// reading.
    pub(super) fn before(call: Call<'l>, books: &[Book]) -> Self {
        let Call { limit, operation, now, .. } = call;
        let mut seats = SmallVec::new();
        if limit.has_bans() && operation != Operation::Reset {
            for (part, book) in books.iter().enumerate() {
                let Some(ban) = limit.ban(part) else { continue };
                let state = book.ban().map(|state| state.restamped(ban, now));
                let is_restamped = state.is_some_and(|(_, is_restamped)| is_restamped);
                let state = state.map(|(state, _)| state);
                seats.push(Seat { part, ban, state, is_restamped, is_changed: is_restamped });
            }
        }
        Self { limit, now: now.micros, seats }
    }

    /// Returns the ban that refuses a request: the longest one of the parts in question.
    pub(super) fn refusing(&self, request: &Request<'_>) -> Option<Banned> {
        let refusals = self.seats.iter().filter_map(|seat| {
            let rest = seat.state?.rest(self.now)?;
            self.is_asked(request, seat.part).then(|| Banned::new(seat.part, rest, false))
        });
        refusals.reduce(Banned::longer)
    }

    pub(super) fn are_restamped(&self) -> bool {
        self.seats.iter().any(|seat| seat.is_restamped)
    }

    fn is_asked(&self, request: &Request<'_>, part: usize) -> bool {
        let members = self.limit.members().iter().enumerate();
        let mut own = members.filter(|(_, member)| member.part() == part);
        own.any(|(index, _)| request.cost_of(self.limit, index) > 0)
    }

    /// After the decision: counts a denial, unless the request waits, or bans or unbans as
    /// requested.
    pub(super) fn after(
        &mut self,
        operation: Operation<'_>,
        judge: &Judge<'_>,
        waits: bool,
        decision: &mut Decision,
    ) {
        match operation {
            Operation::Ban { lasts } => decision.extras_mut().ban = self.begin(lasts),
            Operation::Unban => decision.set_forgotten(self.lift()),
            operation if operation.takes() && decision.is_denied() && !waits => {
                if let Some(ban) = self.count(judge) {
                    decision.begin_ban(ban);
                }
            }
            _ => {}
        }
    }

    /// Counts a denial for each part whose own policies refused, and returns the longest ban that
    /// begins.
    fn count(&mut self, judge: &Judge<'_>) -> Option<Banned> {
        let mut begun: Option<Banned> = None;
        for seat in self.seats.iter_mut().filter(|seat| judge.refuses(seat.part)) {
            let (state, begins) = seat.state.unwrap_or_default().denied(seat.ban, self.now);
            (seat.state, seat.is_changed) = (Some(state), true);
            if begins {
                let ban = Banned::new(seat.part, state.until - self.now, true);
                begun = Some(begun.map_or(ban, |longest| longest.longer(ban)));
            }
        }
        begun
    }

    /// Bans the subjects manually.
    fn begin(&mut self, lasts: Span) -> Option<Banned> {
        let mut begun = None;
        for seat in &mut self.seats {
            let state = seat.state.unwrap_or_default();
            let state = state.banned(seat.ban, self.now, lasts.as_micros());
            (seat.state, seat.is_changed) = (Some(state), true);
            begun = Some(Banned::new(seat.part, state.until - self.now, true));
        }
        begun
    }

    /// Forgets bans and denials, and returns `true` if there was a ban.
    fn lift(&mut self) -> bool {
        let mut was_banned = false;
        for seat in &mut self.seats {
            was_banned |= seat.state.and_then(|state| state.rest(self.now)).is_some();
            seat.is_changed = seat.state.take().is_some();
        }
        was_banned
    }

    /// Writes the changes into the books, and returns the changed parts as bits.
    pub(super) fn write(&self, books: &mut [Book]) -> u64 {
        let mut parts = 0;
        for seat in self.seats.iter().filter(|seat| seat.is_changed) {
            books[seat.part].set_ban(seat.state, seat.ban);
            parts |= 1 << seat.part;
        }
        parts
    }
}
