//! Waiting reservations that can be cancelled, and the turns released by cancelled ones.

use std::collections::HashMap;

use sluicegate_core::{HoldId, MAX_EXACT};

use super::answer::{Answer, Repeat};
use super::{Model, Operation, Outcome, Refusal, Seat, charge_all, judge_all, outcome, report};
use crate::algorithms::{self, Account, Patience, Retry, Verdict};

/// Maximum number of released turns of one key.
const MOST_TURNS: usize = 64;

/// The positions of all keys, in no order.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    reserved: Vec<Place>,
    turns: Vec<Place>,
}

#[derive(Clone, Debug, PartialEq)]
struct Place {
    key: Vec<u8>,
    instant: u64,
    id: HoldId,
    /// Time at which the position was taken or released.
    made: u64,
    units: HashMap<String, u64>,
}

impl Place {
    fn is_somebodys(&self, now: u64) -> bool {
        self.made <= now && now <= self.instant
    }
}

type Accounts = HashMap<String, Box<dyn Account>>;

/// Proof of a reservation, used to cancel it.
#[derive(Clone, Debug)]
pub struct Reserved {
    key: Vec<u8>,
    /// The state before the reservation, and the text of each policy's state before and after it.
    before: Option<Accounts>,
    looks: HashMap<String, (String, String)>,
    /// The instant and id of its queue position.
    place: Option<(u64, HoldId)>,
}

impl Reserved {
    /// Returns the instant at which it acts, if it has a queue position.
    #[must_use]
    pub fn acts_at(&self) -> Option<u64> {
        self.place.map(|(instant, _)| instant)
    }
}

impl Model {
    /// Reserves as [`Model::apply`] does, or takes a released turn. With an id, a waiting
    /// reservation gets a queue position.
    ///
    /// # Errors
    /// Returns the errors of [`Model::apply`].
    ///
    /// # Panics
    /// Panics if the operation isn't a reservation.
    pub fn reserve(
        &mut self,
        now_us: u64,
        key: &[u8],
        operation: &Operation,
        id: Option<HoldId>,
    ) -> Result<(Answer, Option<Reserved>), Refusal> {
        let Operation::Reserve { within_us, .. } = operation else {
            unreachable!("only a reservation reserves");
        };
        if !self.is_bookable() {
            return Err(Refusal::NotReservable);
        }
        if let Some(refused) = self.refused(now_us, key, operation) {
            return Ok((refused, None));
        }
        let mut seats = self.seats(now_us, key, operation)?;
        let own = judge_all(&mut seats, Patience::Within(*within_us))?;
        let turn = self.turn_for(now_us, key, &seats, &own, *within_us);
        let outcome = match &turn {
            Some(turn) => {
                let wait_us = turn.instant - now_us;
                for seat in seats.iter_mut().filter(|seat| seat.units > 0 && !seat.is_shadow()) {
                    seat.verdict = Verdict { wait_us, ..Verdict::ADMITTED };
                }
                let outcome = outcome(&seats);
                assert_eq!((outcome.allowed, outcome.wait_us), (true, wait_us));
                outcome
            }
            None => {
                charge_all(&mut seats, &own)?;
                own
            }
        };
        let policies = seats.iter().map(report).collect::<Result<_, _>>()?;
        let wanted = wanted(&seats);
        let restamped = seats.iter().any(|seat| seat.restamped);
        let accounts: Accounts =
            seats.into_iter().map(|seat| (seat.named.name.clone(), seat.account)).collect();
        let before = self.keys.insert(key.to_vec(), accounts);
        let looks = if turn.is_some() { HashMap::new() } else { self.looks(key, before.as_ref()) };
        if let Some(turn) = turn {
            self.line.turns.retain(|other| *other != turn);
        }
        let instant = now_us + outcome.wait_us;
        let waits = outcome.allowed && outcome.wait_us > 0 && instant <= MAX_EXACT;
        let place = id.filter(|_| waits).map(|id| (instant, id));
        if let Some((instant, id)) = place {
            // Positions whose instant has passed are removed permanently, even if the clock steps
            // back later.
            self.line.reserved.retain(|place| place.key != key || place.instant >= now_us);
            let key = key.to_vec();
            let place = Place { key, instant, id, made: now_us, units: wanted };
            self.line.reserved.push(place);
        }
        let reserved =
            outcome.allowed.then(|| Reserved { key: key.to_vec(), before, looks, place });
        let Outcome { allowed, binding, wait_us, retry, granted } = outcome;
        let answer = Answer {
            allowed,
            binding,
            wait_us,
            retry,
            granted,
            lease: None,
            holds: false,
            queued: None,
            repeat: Repeat::No,
            ban: None,
            pause: None,
            resumed: None,
            restamped,
            policies,
        };
        Ok((answer, reserved))
    }

    /// Returns the soonest turn that is no later than the instant without it.
    fn turn_for(
        &self,
        now: u64,
        key: &[u8],
        seats: &[Seat<'_>],
        own: &Outcome,
        within: u64,
    ) -> Option<Place> {
        let longest = if own.allowed { own.wait_us } else { within };
        if longest == 0 || own.retry == Retry::Never {
            return None;
        }
        let wanted = wanted(seats);
        let suits = |turn: &&Place| {
            let suffices = wanted
                .iter()
                .all(|(name, units)| turn.units.get(name).is_some_and(|left| left >= units));
            turn.key == key && turn.is_somebodys(now) && turn.instant - now <= longest && suffices
        };
        let turns = self.line.turns.iter().filter(suits);
        turns.min_by_key(|turn| (turn.instant, turn.id)).cloned()
    }

    /// Returns the text of each policy's state of a key before and after a request, or nothing if
    /// none changed.
    fn looks(&self, key: &[u8], before: Option<&Accounts>) -> HashMap<String, (String, String)> {
        let now = self.keys.get(key);
        let looks = self.policies.iter().map(|named| {
            let look = |accounts: Option<&Accounts>| {
                let account = accounts.and_then(|accounts| accounts.get(&named.name));
                account.map_or_else(
                    || format!("{:?}", algorithms::fresh(named.policy.algorithm())),
                    |account| format!("{account:?}"),
                )
            };
            (named.name.clone(), (look(before), look(now)))
        });
        let looks: HashMap<_, _> = looks.collect();
        let has_changed = looks.values().any(|(before, after)| before != after);
        if has_changed { looks } else { HashMap::new() }
    }

    /// Cancels a reservation. Returns whether its units or its turn were given back.
    pub fn cancel(&mut self, now_us: u64, reserved: &Reserved) -> bool {
        let Reserved { key, before, looks, place } = reserved;
        let mut mine = None;
        if let Some((instant, id)) = place {
            if *instant < now_us {
                return false;
            }
            let is_it =
                |place: &Place| (&place.key, &place.instant, &place.id) == (key, instant, id);
            let indices =
                (0..self.line.reserved.len()).filter(|&at| is_it(&self.line.reserved[at]));
            let [index] = indices.collect::<Vec<_>>()[..] else { return false };
            mine = Some(self.line.reserved.remove(index));
        }
        let now_looks = self.looks_now(key);
        let is_last = !looks.is_empty()
            && looks.iter().all(|(name, (_, after))| now_looks.get(name) == Some(after));
        if is_last {
            match before {
                Some(before) => {
                    let before = before.iter().map(|(name, it)| (name.clone(), it.boxed()));
                    self.keys.insert(key.clone(), before.collect());
                }
                None => {
                    self.keys.remove(key);
                }
            }
            return true;
        }
        mine.is_some_and(|place| self.hand_on(now_us, place))
    }

    fn looks_now(&self, key: &[u8]) -> HashMap<String, String> {
        let accounts = self.keys.get(key).into_iter().flatten();
        accounts.map(|(name, account)| (name.clone(), format!("{account:?}"))).collect()
    }

    fn hand_on(&mut self, now: u64, place: Place) -> bool {
        let key = place.key.clone();
        self.line.turns.retain(|turn| turn.key != key || turn.instant >= now);
        if !place.is_somebodys(now) {
            return false;
        }
        let place = Place { made: now, ..place };
        let order = |place: &Place| (place.instant, place.id);
        let others = self.line.turns.iter().filter(|turn| turn.key == key);
        if others.clone().count() >= MOST_TURNS
            && let Some(last) = others.max_by_key(|turn| order(turn)).cloned()
        {
            if last.instant <= place.instant {
                return false;
            }
            self.line.turns.retain(|turn| *turn != last);
        }
        self.line.turns.push(place);
        true
    }

    /// Removes all positions and turns of a key.
    pub(super) fn leave_line(&mut self, key: &[u8]) {
        self.line.reserved.retain(|place| place.key != key);
        self.line.turns.retain(|place| place.key != key);
    }

    /// Returns the number of released turns.
    #[must_use]
    pub const fn turns_left(&self) -> usize {
        self.line.turns.len()
    }
}

/// Returns the requested units of each enforced policy.
fn wanted(seats: &[Seat<'_>]) -> HashMap<String, u64> {
    let charged = seats.iter().filter(|seat| seat.units > 0 && !seat.is_shadow());
    charged.map(|seat| (seat.named.name.clone(), seat.units)).collect()
}
