//! Finds the limiter that settles by a token.

use sluicegate_core::{
    Error, HoldId, HoldToken, Limit, LimitName, Purpose, Receipt, RequestError, RequestErrorKind,
    SharedStore,
};
use smallvec::SmallVec;

use super::combinations::Numbers;
use super::gate_cache::GateCache;
use super::resolved::{Part, Resolved};
use super::shared::Shared;
use super::target::Target;
use crate::ask::Ask;
use crate::limiter::Limiter;
use crate::question::Charged;

impl Resolved {
    /// Finds the limiter that settles by a token: the limits that were charged, each with the numbers that it has for
    /// the key now. Lists and switches don't matter: units that were charged are settled.
    pub(super) fn charged<'t>(
        &self,
        shared: &Shared,
        names: &GateCache,
        token: &'t HoldToken,
    ) -> Result<Charged<'t, SharedStore>, Error> {
        let places: SmallVec<[Option<usize>; 4]> = names
            .targets()
            .iter()
            .map(|target| token.limits().position(|limit| limit.as_str() == target.name()))
            .collect();
        if places.iter().flatten().count() != token.limits().len() {
            return Err(of_others(names, token));
        }
        let token = self.with_counted_token(token);
        let (mut numbers, mut order) = (Numbers::new(), SmallVec::new());
        for (part, place) in self.parts.iter().zip(&places) {
            numbers.push(match (part, place) {
                (_, None) => None,
                (Part::Known(known), Some(place)) => {
                    order.push(*place);
                    Some(known.opened.numbers_of(token.subject(*place)))
                }
                (Part::Unknown { .. }, Some(place)) => {
                    let name = token.limits().nth(*place).map_or("", LimitName::as_str);
                    return Err(shared.gone(name));
                }
            });
        }
        let limiter = match (&*self.parts, &*numbers) {
            ([Part::Known(known)], [Some(set)]) => known.limiter(*set).clone(),
            _ => self.joint(&numbers)?,
        };
        Ok(Charged { limiter, token, order })
    }

    /// Returns the limiter that lists and ends holds of keys, and the request with the keys as the limits count them.
    /// Each limit has the numbers that it has for its key now. Lists and switches don't matter.
    pub(super) fn holding<'a>(
        &self,
        shared: &Shared,
        names: &GateCache,
        ask: Ask<'a>,
    ) -> Result<(Limiter, Ask<'a>), Error> {
        if ask.len() != self.parts.len() {
            return Err(self.miscounted(names, &ask));
        }
        let ask = self.with_counted_keys(&ask, Purpose::Forget)?.unwrap_or(ask);
        let mut numbers = Numbers::new();
        for ((part, subject), target) in self.parts.iter().zip(ask.subjects()).zip(names.targets())
        {
            let known = part.known().ok_or_else(|| shared.unknown(target.name()))?;
            numbers.push(Some(known.opened.numbers_of(subject.key)));
        }
        let limiter = match (&*self.parts, &*numbers) {
            ([Part::Known(known)], [Some(set)]) => known.limiter(*set).clone(),
            _ => self.joint(&numbers)?,
        };
        Ok((limiter, ask))
    }

    /// Finds the limiter for lists that aren't about one key: all limits, each with its own numbers. Switches don't
    /// matter.
    pub(super) fn listing(&self, shared: &Shared, names: &GateCache) -> Result<Limiter, Error> {
        for (part, target) in self.parts.iter().zip(names.targets()) {
            if part.known().is_none() {
                return Err(shared.unknown(target.name()));
            }
        }
        match &*self.parts {
            [Part::Known(known)] => Ok(known.limiter(0).clone()),
            parts => {
                let numbers: Numbers = parts.iter().map(|_| Some(0)).collect();
                self.joint(&numbers)
            }
        }
    }

    /// Returns whether a limit of the gate has a policy, even if that limit wasn't charged.
    pub(super) fn has_policy(&self, limit: Option<&str>, policy: &str) -> bool {
        let limits = self.parts.iter().filter_map(Part::known);
        let limits = limits.map(|known| &known.opened.config.limit);
        limits
            .filter(|known| limit.is_none_or(|limit| known.name().as_str() == limit))
            .any(|known| has_policy(known, policy))
    }
}

/// Returns a token with the limits and keys of a reservation, so that the code that finds a token's limits also finds a
/// reservation's.
pub(super) fn names_of(receipt: &Receipt) -> Result<HoldToken, Error> {
    let parts = receipt.parts().iter().map(|part| (part.limit.clone(), &*part.subject));
    let token = HoldToken::new(HoldId::from_bytes([0; HoldId::BYTES]), parts);
    token.map_err(|error| RequestError::from(error).into())
}

/// Returns whether a limit has a policy of this name.
pub(super) fn has_policy(limit: &Limit, policy: &str) -> bool {
    limit.position(policy).is_some()
}

#[cold]
fn of_others(names: &GateCache, token: &HoldToken) -> Error {
    let limits: Vec<&str> = token.limits().map(LimitName::as_str).collect();
    let message = format!(
        "the token is of limit `{}`, and the gate is of `{}`: settle it at the gate that gave it, or by the registry",
        limits.join(" + "),
        names.targets().iter().map(Target::name).collect::<Vec<_>>().join(" + ")
    );
    RequestError::new(RequestErrorKind::Invalid, message).into()
}
