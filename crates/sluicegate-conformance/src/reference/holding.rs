//! Holds of the model, and how they end.

use std::collections::HashMap;
use std::time::Duration;

use sluicegate_core::for_stores::Book;
use sluicegate_core::{Algorithm, Hold, HoldFound, HoldId};

use super::{Answer, Costs, Model, Named, Operation, Refusal, Seat};
use crate::algorithms::{self, Account, Place, Unused};
use crate::times::micros;

/// The holds, by key and id.
pub(super) type Holds = HashMap<(Vec<u8>, HoldId), Held>;

/// The hold of one request.
#[derive(Clone, Debug)]
pub(super) struct Held {
    until: u64,
    /// Whether the hold is cancelled when it expires.
    returns: bool,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    Live(HashMap<String, Charged>),
    /// For each policy, whether it gave units back.
    Settled(HashMap<String, bool>),
}

/// One policy's charge.
#[derive(Clone, Debug)]
struct Charged {
    units: u64,
    at: u64,
    algorithm: Algorithm,
    /// The slot that holds the units.
    slot: Option<u64>,
    /// The state before the charge, and the text of the state after it. Only for states of few
    /// numbers.
    states: Option<(Option<Box<dyn Account>>, String)>,
}

/// The outcome of settling or renewing a hold.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Settlement {
    /// The state in which the hold was found.
    pub found: HoldFound,
    /// For each policy, whether it gives units back.
    pub given: Vec<bool>,
    /// The answer to a later peek at no cost.
    pub answer: Answer,
}

/// One entry in the list of requests in flight.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Listed {
    /// Time until the end, in µs from the list request.
    pub ends_in_us: u64,
    /// The id of the hold.
    pub id: HoldId,
    /// The units of each charged policy, in the order of the limit.
    pub units: Vec<(String, u64)>,
}

/// Puts the units of an allowed request into slots, where slots have an effect.
pub(super) fn hold(seats: &mut [Seat<'_>], now_us: u64, hold: &Hold) -> Result<(), Refusal> {
    for seat in seats.iter_mut().filter(|seat| seat.taken > 0) {
        let algorithm = seat.named.policy.algorithm();
        let place = Place::of(hold, now_us);
        seat.slot = seat.account.hold(algorithm, seat.at, seat.taken, place)?;
    }
    Ok(())
}

/// Returns the record of an allowed request, if it was charged anything.
pub(super) fn record(
    stored: Option<&HashMap<String, Box<dyn Account>>>,
    now_us: u64,
    hold: &Hold,
    returns: bool,
    seats: &[Seat<'_>],
) -> Option<Held> {
    let charged = seats.iter().filter(|seat| seat.taken > 0).map(|seat| {
        let algorithm = seat.algorithm().clone();
        let before = stored.and_then(|accounts| accounts.get(&seat.named.name));
        let is_leased = before.is_some_and(|account| !account.slots().is_empty());
        let is_small =
            !matches!(algorithm, Algorithm::SlidingLog { .. } | Algorithm::SlidingWindow { .. });
        let states = (is_small && !seat.restamped && !is_leased)
            .then(|| (before.map(|before| before.without_held()), seat.account.looks()));
        let charged =
            Charged { units: seat.taken, at: seat.at, algorithm, slot: seat.slot, states };
        (seat.named.name.clone(), charged)
    });
    let charged: HashMap<_, _> = charged.collect();
    let until = now_us + micros(hold.lasts);
    (!charged.is_empty()).then_some(Held { until, returns, content: Content::Live(charged) })
}

impl Model {
    /// Returns `true` if an unexpired hold has this id, including a settled one.
    pub(super) fn has_hold(&self, now_us: u64, key: &[u8], id: HoldId) -> bool {
        self.holds.get(&(key.to_vec(), id)).is_some_and(|held| held.until > now_us)
    }

    /// Returns a policy's permits in use, and the ends of their holds.
    pub(super) fn in_flight(&self, key: &[u8], policy: &str) -> Vec<(u64, u64)> {
        let holds = self.holds.iter().filter(|((holder, _), _)| holder == key);
        holds
            .filter_map(|(_, held)| match &held.content {
                Content::Live(charged) => Some((held.until, charged.get(policy)?.units)),
                Content::Settled(_) => None,
            })
            .collect()
    }

    /// Returns all requests that hold permits of a key, ordered by their ends, and the number of
    /// waiters.
    #[must_use]
    pub fn list(&self, now_us: u64, key: &[u8]) -> (Vec<Listed>, u64) {
        let is_permits =
            |named: &Named| matches!(named.policy.algorithm(), Algorithm::Concurrency { .. });
        let mut listed = Vec::new();
        for ((holder, id), held) in &self.holds {
            let Content::Live(charged) = &held.content else { continue };
            let is_in_flight = self
                .policies
                .iter()
                .any(|named| is_permits(named) && charged.contains_key(&named.name));
            if holder != key || held.until <= now_us || !is_in_flight {
                continue;
            }
            let units = self
                .policies
                .iter()
                .filter_map(|named| Some((named.name.clone(), charged.get(&named.name)?.units)));
            let units = units.collect();
            listed.push(Listed { ends_in_us: held.until - now_us, id: *id, units });
        }
        listed.sort_by_key(|listed| (listed.ends_in_us, listed.id));
        (listed, self.waiting(now_us, key))
    }

    /// Returns `true` if an operation takes permits, or gives them back without an id.
    pub(super) fn needs_hold(&self, operation: &Operation) -> bool {
        let mut policies = self.policies.iter().map(|named| named.policy.algorithm());
        operation.takes()
            && policies.any(|algorithm| matches!(algorithm, Algorithm::Concurrency { .. }))
    }

    /// Settles the hold with an id, given the units used of each policy; `None` means the charged
    /// units.
    ///
    /// # Errors
    /// Returns an error if the additional units are more than a state can hold. Then nothing
    /// changes.
    pub fn settle(
        &mut self,
        now_us: u64,
        key: &[u8],
        id: HoldId,
        used: &[Option<u64>],
    ) -> Result<Settlement, Refusal> {
        self.after_returns((now_us, key), false, |model| model.settle_now(now_us, key, id, used))
    }

    fn settle_now(
        &mut self,
        now_us: u64,
        key: &[u8],
        id: HoldId,
        used: &[Option<u64>],
    ) -> Result<Settlement, Refusal> {
        let place = (key.to_vec(), id);
        let held = self.holds.get(&place).filter(|held| held.until > now_us).cloned();
        let Some(Held { until, content, .. }) = held else {
            let has_left = self.leave(now_us, key, id);
            let found = if has_left { HoldFound::Waited } else { HoldFound::Unknown };
            return self.settlement(now_us, key, found, &HashMap::new());
        };
        let charged = match content {
            Content::Live(charged) => charged,
            Content::Settled(given) => {
                self.leave(now_us, key, id);
                return self.settlement(now_us, key, HoldFound::Settled, &given);
            }
        };
        let given = self.settle_charged(now_us, key, &charged, used)?;
        self.leave(now_us, key, id);
        if used.iter().all(Option::is_none) {
            self.holds.remove(&place);
        } else {
            let content = Content::Settled(given.clone());
            self.holds.insert(place, Held { until, returns: false, content });
        }
        self.settlement(now_us, key, HoldFound::Live, &given)
    }

    /// Settles each policy's charge. Returns whether it was to give anything back.
    fn settle_charged(
        &mut self,
        now_us: u64,
        key: &[u8],
        charged: &HashMap<String, Charged>,
        used: &[Option<u64>],
    ) -> Result<HashMap<String, bool>, Refusal> {
        let stored = self.keys.get(key).cloned().unwrap_or_default();
        let nothing = self.nothing();
        let mut seats = self.seats(now_us, key, &nothing)?;
        for seat in &seats {
            // Fail before settling if a state can't be counted under its new numbers.
            seat.account.report(seat.algorithm(), seat.at)?;
        }
        let mut given = HashMap::new();
        for (seat, used) in seats.iter_mut().zip(used) {
            let name = &seat.named.name;
            let charged = charged.get(name);
            let units = charged.map_or(0, |charged| charged.units);
            let algorithm = seat.named.policy.algorithm();
            if matches!(algorithm, Algorithm::Concurrency { .. }) {
                // A permit ends with the record.
                given.insert(name.clone(), units > 0);
                continue;
            }
            let used = used.unwrap_or(units);
            if used > units {
                seat.account.admit(algorithm, seat.at, used - units, 0)?;
            }
            given.insert(name.clone(), used < units);
            let Some(charged) = charged else { continue };
            let is_released = match charged.slot {
                Some(slot) => seat.account.release(algorithm, seat.at, units, slot)?,
                None => false,
            };
            let now_stored = stored.get(name).map(|account| account.looks());
            let last =
                charged.states.as_ref().filter(|(_, after)| now_stored.as_ref() == Some(after));
            let unused = Unused {
                units: units.saturating_sub(used),
                taken_at: charged.at,
                then: &charged.algorithm,
                is_last: last.is_some() && is_lowered(algorithm),
                is_released,
            };
            match last {
                Some((before, _)) if used == 0 && !seat.account.is_held(algorithm, seat.at)? => {
                    let fresh = || algorithms::fresh(algorithm);
                    seat.account = before.as_ref().map_or_else(fresh, |account| account.boxed());
                }
                _ if used < units || is_released => {
                    seat.account.give_back_unused(algorithm, seat.at, &unused)?;
                }
                _ => {}
            }
        }
        let accounts =
            seats.into_iter().map(|seat| (seat.named.name.clone(), seat.account)).collect();
        self.keys.insert(key.to_vec(), accounts);
        Ok(given)
    }

    /// Sets whether holds that expire without being settled are cancelled.
    #[must_use]
    pub fn returning(self, returns: bool) -> Self {
        Self { returns, ..self }
    }

    /// Frees an id whose expired hold still has to be cancelled.
    pub(super) fn free(&mut self, key: &[u8], id: HoldId) {
        let place = (key.to_vec(), id);
        let waits = |held: &Held| held.returns && matches!(held.content, Content::Live(_));
        if !self.returns || !self.holds.get(&place).is_some_and(waits) {
            return;
        }
        if let Some(held) = self.holds.remove(&place) {
            let mut number = u128::from_be_bytes(id.to_bytes());
            let mut other = place;
            while other.1 == id || self.holds.contains_key(&other) {
                number = number.wrapping_add(1);
                other.1 = HoldId::from_bytes(number.to_be_bytes());
            }
            self.holds.insert(other, held);
        }
    }

    /// Cancels expired holds, then answers. A read-only or failed request leaves the state
    /// unchanged.
    pub(super) fn after_returns<T>(
        &mut self,
        (now_us, key): (u64, &[u8]),
        only_looks: bool,
        answer: impl FnOnce(&mut Self) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let before = self.clone();
        let answered = self.return_ended(now_us, key).and_then(|()| answer(self));
        if only_looks || answered.is_err() {
            *self = before;
        }
        answered
    }

    /// Cancels the expired holds in the order of their ends. Cancels none if a state would be
    /// restamped.
    fn return_ended(&mut self, now_us: u64, key: &[u8]) -> Result<(), Refusal> {
        let ended = self.holds.iter().filter(|((holder, _), held)| {
            self.returns && holder == key && held.returns && held.until <= now_us
        });
        let live = ended.filter(|(_, held)| matches!(held.content, Content::Live(_)));
        let mut over: Vec<_> = live.map(|((_, id), held)| (held.until, *id)).collect();
        over.sort_unstable();
        over.truncate(Book::RETURNED);
        let is_ahead = |seat: &Seat<'_>| seat.restamped;
        if over.is_empty() || self.seats(now_us, key, &self.nothing())?.iter().any(is_ahead) {
            return Ok(());
        }
        let nothing = vec![Some(0); self.policies.len()];
        for (_, id) in over {
            let held = self.holds.remove(&(key.to_vec(), id));
            if let Some(Held { content: Content::Live(charged), .. }) = held {
                self.settle_charged(now_us, key, &charged, &nothing)?;
            }
        }
        Ok(())
    }

    /// Extends the hold with an id, for a duration from now.
    ///
    /// # Errors
    /// Returns the errors of a peek at no cost.
    pub fn renew(
        &mut self,
        now_us: u64,
        key: &[u8],
        id: HoldId,
        lasts_us: u64,
    ) -> Result<Settlement, Refusal> {
        self.after_returns((now_us, key), false, |model| model.renew_now(now_us, key, id, lasts_us))
    }

    fn renew_now(
        &mut self,
        now_us: u64,
        key: &[u8],
        id: HoldId,
        lasts_us: u64,
    ) -> Result<Settlement, Refusal> {
        let held = self.holds.get(&(key.to_vec(), id)).filter(|held| held.until > now_us);
        let found = match held.cloned() {
            None => HoldFound::Unknown,
            Some(Held { content: Content::Settled(_), .. }) => HoldFound::Settled,
            Some(Held { content: Content::Live(charged), returns, .. }) => {
                // If it can't be answered, nothing is renewed.
                self.settlement(now_us, key, HoldFound::Live, &HashMap::new())?;
                let lasts = Duration::from_micros(lasts_us);
                self.renew_live(now_us, key, &Hold { id, lasts }, (charged, returns))?;
                HoldFound::Live
            }
        };
        self.settlement(now_us, key, found, &HashMap::new())
    }

    fn renew_live(
        &mut self,
        now_us: u64,
        key: &[u8],
        hold: &Hold,
        (mut charged, returns): (HashMap<String, Charged>, bool),
    ) -> Result<(), Refusal> {
        let place = Place::of(hold, now_us);
        let mut moved = Vec::new();
        for seat in &mut self.seats(now_us, key, &self.nothing())? {
            let Some(charged) = charged.get_mut(&seat.named.name) else { continue };
            let Some(slot) = charged.slot.filter(|_| !seat.restamped) else { continue };
            let (algorithm, units) = (seat.named.policy.algorithm(), charged.units);
            if let Some(slot) = seat.account.renew(algorithm, seat.at, units, slot, place)? {
                charged.slot = Some(slot);
                moved.push((seat.named.name.clone(), seat.account.boxed()));
            }
        }
        self.keys.entry(key.to_vec()).or_default().extend(moved);
        let until = now_us + micros(hold.lasts);
        let content = Content::Live(charged);
        self.holds.insert((key.to_vec(), hold.id), Held { until, returns, content });
        Ok(())
    }

    fn nothing(&self) -> Operation {
        Operation::Peek { costs: Costs::Each(vec![0; self.policies.len()]) }
    }

    fn settlement(
        &mut self,
        now_us: u64,
        key: &[u8],
        found: HoldFound,
        given: &HashMap<String, bool>,
    ) -> Result<Settlement, Refusal> {
        let nothing = self.nothing();
        let answer = self.decide_now(now_us, key, &nothing, None, None, None)?;
        let gives = |named: &Named| given.get(&named.name).copied().unwrap_or(false);
        Ok(Settlement { found, given: self.policies.iter().map(gives).collect(), answer })
    }
}

/// Returns `true` if unused units of the latest admission are given back directly, because no later
/// request relies on them.
const fn is_lowered(algorithm: &Algorithm) -> bool {
    matches!(
        algorithm,
        Algorithm::TokenBucket { .. }
            | Algorithm::Gcra { .. }
            | Algorithm::LeakyBucket { .. }
            | Algorithm::Smooth { .. }
    )
}
