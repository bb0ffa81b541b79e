//! Bans: what they refuse, and the denials that bring them about.

use smallvec::SmallVec;

use super::judge::Judge;
use crate::ban::Ban;
use crate::ban_state::BanState;
use crate::book::Book;
use crate::decision::Banned;
use crate::kernel::Now;
use crate::limit::Limit;
use crate::request::Request;
use crate::time::Span;

/// The denials and bans of a request's subjects, brought to the time of judgement: of each part with a ban.
pub(super) struct Bans<'l> {
    limit: &'l Limit,
    now: u64,
    seats: SmallVec<[Seat<'l>; 1]>,
}

struct Seat<'l> {
    part: usize,
    ban: &'l Ban,
    state: Option<BanState>,
    is_restamped: bool,
    is_changed: bool,
}

impl<'l> Bans<'l> {
    pub(super) fn open(limit: &'l Limit, now: Now, books: &[Book]) -> Self {
        let mut seats = SmallVec::new();
        if limit.has_bans() {
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

    pub(super) fn are_restamped(&self) -> bool {
        self.seats.iter().any(|seat| seat.is_restamped)
    }

    /// The ban that refuses a request: the longest of the parts of which anything is asked.
    pub(super) fn refusal(&self, request: &Request<'_>) -> Option<Banned> {
        let refusals = self.seats.iter().filter_map(|seat| {
            let rest = seat.state?.rest(self.now)?;
            self.is_asked(request, seat.part).then(|| Banned::new(seat.part, rest, false))
        });
        refusals.reduce(Banned::longer)
    }

    fn is_asked(&self, request: &Request<'_>, part: usize) -> bool {
        let members = self.limit.members().iter().enumerate();
        let mut own = members.filter(|(_, member)| member.part() == part);
        own.any(|(index, _)| request.cost_of(self.limit, index) > 0)
    }

    /// Counts a denial where a part's own policies refused; the longest ban that this begins.
    pub(super) fn count(&mut self, judge: &Judge<'_>) -> Option<Banned> {
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

    /// Bans the subjects by hand.
    pub(super) fn begin(&mut self, lasts: Span) -> Option<Banned> {
        let mut begun = None;
        for seat in &mut self.seats {
            let state = seat.state.unwrap_or_default();
            let state = state.banned(seat.ban, self.now, lasts.as_micros());
            (seat.state, seat.is_changed) = (Some(state), true);
            begun = Some(Banned::new(seat.part, state.until - self.now, true));
        }
        begun
    }

    /// Forgets bans and denials; whether there was a ban.
    pub(super) fn lift(&mut self) -> bool {
        let mut was_banned = false;
        for seat in &mut self.seats {
            was_banned |= seat.state.and_then(|state| state.rest(self.now)).is_some();
            seat.is_changed = seat.state.take().is_some();
        }
        was_banned
    }

    /// Writes what changed into the books; gives those parts, as bits.
    pub(super) fn keep(&self, books: &mut [Book]) -> u64 {
        let mut parts = 0;
        for seat in self.seats.iter().filter(|seat| seat.is_changed) {
            books[seat.part].set_ban(seat.state, seat.ban);
            parts |= 1 << seat.part;
        }
        parts
    }
}
