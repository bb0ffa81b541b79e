//! The charge of a request, as set by code.

use std::borrow::Cow;

use sluicegate_core::Cost;
use smallvec::SmallVec;

use crate::ask::Ask;
use crate::usage::Usage;

/// The charge of a request: a number of units for every policy, or units by the names of policies.
///
/// Numbers, pairs of a name and a number, and options of both convert to it. Functions given to
/// [`Middleware::cost`](super::Middleware::cost) and [`charge_after`](super::Middleware::charge_after) can return any
/// of these. As in an [`Ask`], policies that aren't named are not charged if others are, unless [`Charge::cost`] sets
/// their cost. A handler that knows its usage puts a charge into the extensions of its response, where
/// [`ResponseView::charge`](super::ResponseView::charge) finds it.
///
/// More than 2^53 − 1 units count as 2^53 − 1, which no limit admits.
///
/// ```
/// use sluicegate::middleware::Charge;
///
/// assert_eq!(Charge::from(3), Charge::nothing().cost(3));
/// assert_eq!(Charge::from(None::<u64>), Charge::nothing());
/// let named = Charge::nothing().cost_of("requests", 1).cost_of("tokens", 412);
/// assert_eq!(Charge::from([("requests", 1), ("tokens", 412)]), named);
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[must_use]
pub struct Charge {
    /// The units under every policy that isn't named.
    rest: Option<u64>,
    named: SmallVec<[(Cow<'static, str>, u64); 2]>,
}

impl Charge {
    /// Makes a charge of nothing.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Sets the units for every policy that [`Charge::cost_of`] doesn't name.
    pub const fn cost(mut self, units: u64) -> Self {
        self.rest = Some(units);
        self
    }

    /// Sets the units for the policy named `policy`. Naming one twice is an error once it is charged.
    pub fn cost_of(mut self, policy: impl Into<Cow<'static, str>>, units: u64) -> Self {
        self.named.push((policy.into(), units));
        self
    }

    /// Sets the units for a policy, replacing its earlier units.
    pub(super) fn saying(mut self, policy: Cow<'static, str>, units: u64) -> Self {
        match self.named.iter_mut().find(|(name, _)| *name == policy) {
            Some((_, said)) => *said = units,
            None => self.named.push((policy, units)),
        }
        self
    }

    /// Converts it to the usage of an estimate. If policies are named, the others stay as charged.
    pub(crate) fn into_usage(self) -> Usage<'static> {
        let most = Cost::MAX.get();
        let others = match self.rest {
            Some(units) => Usage::of_every(units.min(most)),
            None if self.named.is_empty() => Usage::nothing(),
            None => Usage::as_charged(),
        };
        let named = self.named.into_iter();
        named.fold(others, |usage, (policy, units)| usage.and_of(policy, units.min(most)))
    }

    /// Returns whether it means that no limit is asked: 0, without a name.
    pub(super) fn asks_nothing(&self) -> bool {
        self.named.is_empty() && self.is_free()
    }

    /// Returns whether it charges no unit.
    pub(super) fn is_free(&self) -> bool {
        self.rest.unwrap_or(0) == 0 && self.named.iter().all(|(_, units)| *units == 0)
    }

    /// Returns whether it charges policies by name.
    pub(super) fn charges_by_name(&self) -> bool {
        self.named.iter().any(|(_, units)| *units > 0)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.named.iter().map(|(name, _)| &**name)
    }

    /// Returns the remaining charge after `taken` was taken by name.
    pub(super) fn beyond(&self, taken: &Self) -> Self {
        let otherwise = taken.named.iter().filter(|_| self.rest.is_some());
        let otherwise = otherwise.filter(|(name, _)| self.names().all(|named| named != name));
        let named = self.named.iter().chain(otherwise).map(|(name, _)| name);
        let named =
            named.map(|name| (name.clone(), self.of(name).saturating_sub(taken.of_named(name))));
        Self { rest: self.rest, named: named.collect() }
    }

    /// Returns the units to give back, by name, if only `used` was used.
    pub(super) fn unless_used(&self, used: &Self) -> Self {
        let named = self.named.iter();
        let named = named.map(|(name, units)| (name.clone(), units.saturating_sub(used.of(name))));
        Self { rest: self.rest, named: named.collect() }
    }

    /// Returns the units under the policy `name`.
    fn of(&self, name: &str) -> u64 {
        let is_named = self.names().any(|named| named == name);
        if is_named { self.of_named(name) } else { self.rest.unwrap_or(0) }
    }

    fn of_named(&self, name: &str) -> u64 {
        self.named.iter().find(|(named, _)| named == name).map_or(0, |(_, units)| *units)
    }

    /// Requests all of it.
    pub(super) fn ask<'a>(&'a self, ask: Ask<'a>) -> Ask<'a> {
        self.name_in(self.rest_of(ask.nothing_otherwise()), |_| true)
    }

    /// Requests all of it; policies without an entry have their own cost.
    pub(super) fn ask_beside_own<'a>(&'a self, ask: Ask<'a>) -> Ask<'a> {
        self.name_in(self.rest_of(ask.own_otherwise()), |_| true)
    }

    /// Requests the named units.
    pub(super) fn ask_named<'a>(&'a self, ask: Ask<'a>) -> Ask<'a> {
        self.name_in(ask.nothing_otherwise(), |_| true)
    }

    /// Requests the units without a name; policies without an entry have their own cost.
    pub(super) fn ask_unnamed<'a>(&'a self, ask: Ask<'a>) -> Ask<'a> {
        let ask = self.rest_of(ask.own_otherwise());
        self.named.iter().fold(ask, |ask, (name, _)| ask.cost_of(name, 0))
    }

    /// Requests it from a limit that has only some of its policies.
    pub(super) fn ask_where<'a>(&'a self, ask: Ask<'a>, has: impl Fn(&str) -> bool) -> Ask<'a> {
        self.name_in(self.rest_of(ask.nothing_otherwise()), has)
    }

    fn rest_of<'a>(&self, ask: Ask<'a>) -> Ask<'a> {
        match self.rest {
            None => ask,
            Some(0) => ask.nothing_otherwise(),
            Some(units) => ask.cost(units.min(Cost::MAX.get())),
        }
    }

    fn name_in<'a>(&'a self, ask: Ask<'a>, has: impl Fn(&str) -> bool) -> Ask<'a> {
        let named = self.named.iter().filter(|(name, _)| has(name));
        named.fold(ask, |ask, (name, units)| ask.cost_of(name, (*units).min(Cost::MAX.get())))
    }
}

impl From<u64> for Charge {
    fn from(units: u64) -> Self {
        Self::nothing().cost(units)
    }
}

/// `None` charges nothing.
impl<C: Into<Self>> From<Option<C>> for Charge {
    fn from(charge: Option<C>) -> Self {
        charge.map_or_else(Self::nothing, Into::into)
    }
}

impl<P: Into<Cow<'static, str>>, const N: usize> From<[(P, u64); N]> for Charge {
    fn from(named: [(P, u64); N]) -> Self {
        named.into_iter().collect()
    }
}

/// Pairs of a policy's name and its units.
impl<P: Into<Cow<'static, str>>> FromIterator<(P, u64)> for Charge {
    fn from_iter<I: IntoIterator<Item = (P, u64)>>(named: I) -> Self {
        let named = named.into_iter();
        named.fold(Self::nothing(), |charge, (policy, units)| charge.cost_of(policy, units))
    }
}
