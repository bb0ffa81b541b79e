//! Who settles by a token.

use sluicegate_core::{Error, HoldToken, Limit, LimitName, RequestError, RequestErrorKind};
use smallvec::SmallVec;

use super::combinations::Numbers;
use super::gate_cache::GateCache;
use super::purpose::Purpose;
use super::resolved::{Part, Resolved};
use super::route::Chosen;
use super::shared::Shared;
use super::target::Target;
use crate::ask::Ask;

/// The limits that a token is of: a limiter of all of them, and their subjects in its order.
pub(super) struct Charged<'r, 't> {
    pub(super) limiter: Chosen<'r>,
    pub(super) subjects: SmallVec<[&'t [u8]; 2]>,
}

impl Resolved {
    /// Who settles by a token: the limits that were charged, each with the numbers that it has for the
    /// key now. Neither lists nor switches matter: what was charged is settled.
    pub(super) fn charged<'t>(
        &self,
        shared: &Shared,
        names: &GateCache,
        token: &'t HoldToken,
    ) -> Result<Charged<'_, 't>, Error> {
        let places: SmallVec<[Option<usize>; 4]> = names
            .targets()
            .iter()
            .map(|target| token.limits().position(|limit| limit.as_str() == target.name()))
            .collect();
        if places.iter().flatten().count() != token.limits().len() {
            return Err(of_others(names, token));
        }
        let (mut numbers, mut subjects) = (Numbers::new(), SmallVec::new());
        for (part, place) in self.parts.iter().zip(&places) {
            numbers.push(match (part, place) {
                (_, None) => None,
                (Part::Known(known), Some(place)) => {
                    let subject = token.subject(*place);
                    subjects.push(subject);
                    Some(known.opened.numbers_of(subject))
                }
                (Part::Unknown { .. }, Some(place)) => {
                    let name = token.limits().nth(*place).map_or("", LimitName::as_str);
                    return Err(shared.gone(name));
                }
            });
        }
        let limiter = match (&*self.parts, &*numbers) {
            ([Part::Known(known)], [Some(set)]) => Chosen::Borrowed(known.prepared(*set)),
            _ => Chosen::Shared(self.joint(&numbers)?),
        };
        Ok(Charged { limiter, subjects })
    }

    /// The limiter that lists and ends holds of keys, and the request with the keys as the limits count
    /// them. Each limit has the numbers that it has for its key now. Neither lists nor switches matter.
    pub(super) fn holding<'a>(
        &self,
        shared: &Shared,
        names: &GateCache,
        ask: Ask<'a>,
    ) -> Result<(Chosen<'_>, Ask<'a>), Error> {
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
            ([Part::Known(known)], [Some(set)]) => Chosen::Borrowed(known.prepared(*set)),
            _ => Chosen::Shared(self.joint(&numbers)?),
        };
        Ok((limiter, ask))
    }

    /// Who lists what is not of one key: all limits, each with its own numbers. Switches don't matter.
    pub(super) fn listing(&self, shared: &Shared, names: &GateCache) -> Result<Chosen<'_>, Error> {
        for (part, target) in self.parts.iter().zip(names.targets()) {
            if part.known().is_none() {
                return Err(shared.unknown(target.name()));
            }
        }
        match &*self.parts {
            [Part::Known(known)] => Ok(Chosen::Borrowed(known.prepared(0))),
            parts => {
                let numbers: Numbers = parts.iter().map(|_| Some(0)).collect();
                Ok(Chosen::Shared(self.joint(&numbers)?))
            }
        }
    }

    /// Whether a limit of the gate has a policy, be it a limit that wasn't charged.
    pub(super) fn has_policy(&self, limit: Option<&str>, policy: &str) -> bool {
        let limits = self.parts.iter().filter_map(Part::known);
        let limits = limits.map(|known| &known.opened.config.limit);
        limits
            .filter(|known| limit.is_none_or(|limit| known.name().as_str() == limit))
            .any(|known| has_policy(known, policy))
    }
}

/// Whether a limit has a policy of this name.
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
