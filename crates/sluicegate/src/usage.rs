//! The used units of a hold.

use std::borrow::Cow;

use sluicegate_core::{
    Error, Limit, LimitName, MAX_EXACT, RequestError, RequestErrorKind, Timestamp,
};
use smallvec::SmallVec;

use crate::ask::no_policy;

/// The real usage of a hold's units: the argument of [`Limiter::settle`](crate::Limiter::settle).
///
/// A policy that used less gives the rest back; one that used more is charged the difference. Policies that aren't
/// named stay as charged, or give their units back if the usage began as [nothing](Usage::nothing). For several limits
/// that were charged together, a name means the policies of that name in all of them. [`Usage::and_in`] names a policy
/// of a single limit.
///
/// ```
/// use std::time::Duration;
/// use sluicegate::{Ask, Limiter, MemoryStore, Usage};
///
/// let limiter = Limiter::new(
///     MemoryStore::new(),
///     sluicegate::Limit::new("llm", ["fixed_window 60/h as requests", "fixed_window 9000/h as tokens"])?,
/// );
/// let left = |usage: Usage<'_>| {
///     let _ = limiter.reset("acme").now()?;
///     let ask = Ask::new("acme").cost_of("requests", 1).cost_of("tokens", 1_000);
///     let token = limiter.check(ask).hold(Duration::from_secs(60)).now()?.into_token().unwrap();
///     let decision = limiter.settle(&token, usage).now()?;
///     Ok::<_, sluicegate::Error>([0, 1].map(|index| decision.policy(index).unwrap().remaining().unwrap()))
/// };
/// assert_eq!(left(Usage::as_charged())?, [59, 8_000]);
/// assert_eq!(left(Usage::nothing())?, [60, 9_000]);
/// assert_eq!(left(Usage::of("tokens", 412))?, [59, 8_588]);
/// assert_eq!(left(Usage::of("tokens", 1_412).and("requests", 2))?, [58, 7_588]);
/// assert_eq!(left(Usage::nothing().and("requests", 1))?, [59, 9_000]);
///
/// let misspelt = left(Usage::of("token", 412)).unwrap_err();
/// assert_eq!(
///     misspelt.to_string(),
///     "limit `llm` has no policy `token`: its policies are requests, tokens"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Usage<'a> {
    /// The used units of policies that aren't named; `None` for all that they charged.
    others: Option<u64>,
    named: SmallVec<[Named<'a>; 2]>,
    at: Option<Timestamp>,
}

#[derive(Clone, Debug)]
struct Named<'a> {
    /// `None` for every limit that has the policy.
    limit: Option<&'a str>,
    policy: Cow<'a, str>,
    units: u64,
}

/// The used units of a limit's policies, in their order; `None`, or a missing entry, for all that a policy charged.
pub(crate) type UsedUnits = SmallVec<[Option<u64>; 4]>;

impl<'a> Usage<'a> {
    fn others(others: Option<u64>) -> Self {
        Self { others, named: SmallVec::new(), at: None }
    }

    /// Makes a usage of nothing: all units are given back, as far as they still count.
    pub fn nothing() -> Self {
        Self::others(Some(0))
    }

    /// Makes a usage of all charged units: only units in flight are given back, and the record is removed.
    pub fn as_charged() -> Self {
        Self::others(None)
    }

    /// Makes a usage of `units` units of every policy: from 0 to 2^53 − 1.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use sluicegate::{Ask, Limiter, MemoryStore, Usage};
    /// let limit = sluicegate::Limit::new("jobs", ["fixed_window 9/h as hour", "fixed_window 99/d as day"])?;
    /// let limiter = Limiter::new(MemoryStore::new(), limit);
    /// let token = limiter.check(Ask::new("acme").cost(5)).hold(Duration::from_secs(60)).now()?.into_token().unwrap();
    /// let settled = limiter.settle(&token, Usage::of_every(2)).now()?;
    /// assert_eq!(settled.outcome("hour").unwrap().remaining(), Some(7));
    /// assert_eq!(settled.outcome("day").unwrap().remaining(), Some(97));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_every(units: u64) -> Self {
        Self::others(Some(units))
    }

    /// Makes a usage of `units` units of the policy named `policy`: from 0 to 2^53 − 1. Other policies stay as charged.
    pub fn of(policy: &'a str, units: u64) -> Self {
        Self::as_charged().and(policy, units)
    }

    /// Sets the used units of the policy named `policy`: from 0 to 2^53 − 1.
    pub fn and(self, policy: &'a str, units: u64) -> Self {
        self.and_of(policy.into(), units)
    }

    /// Sets the used units of a policy whose name may be owned.
    pub(crate) fn and_of(mut self, policy: Cow<'a, str>, units: u64) -> Self {
        self.named.push(Named { limit: None, policy, units });
        self
    }

    /// Returns whether it has no usage for any policy.
    pub(crate) fn is_as_charged(&self) -> bool {
        self.others.is_none() && self.named.is_empty()
    }

    /// Sets the used units of a policy of one limit, for several limits that were charged together. It has precedence
    /// over [`Usage::and`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use sluicegate::{Ask, Config, Registry, Usage};
    ///
    /// let config = "limits: {user: {policies: [fixed_window 9/h as tokens]}, team: {policies: [fixed_window 99/h as tokens]}}";
    /// let registry = Registry::open(&Config::parse(config, "limits.yaml")?)?;
    /// let both = registry.gate("user").and(registry.gate("team"))?;
    /// let ask = || Ask::new("alice").cost(5).and(Ask::new("red").cost(5));
    /// let left = |usage: Usage<'_>| {
    ///     let token = both.check(ask()).hold(Duration::from_secs(60)).now()?.into_token().unwrap();
    ///     let decision = both.settle(&token, usage).now()?;
    ///     Ok::<_, sluicegate::Error>([0, 1].map(|index| decision.policy(index).unwrap().remaining().unwrap()))
    /// };
    /// assert_eq!(left(Usage::of("tokens", 2))?, [7, 97]);
    /// assert_eq!(left(Usage::of("tokens", 2).and_in("team", "tokens", 9))?, [5, 88]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn and_in(mut self, limit: &'a str, policy: &'a str, units: u64) -> Self {
        self.named.push(Named { limit: Some(limit), policy: policy.into(), units });
        self
    }

    /// Sets the time at which the settlement is evaluated, for a limiter with
    /// [`TimeSource::Injected`](sluicegate_core::TimeSource::Injected).
    pub const fn at(mut self, time: Timestamp) -> Self {
        self.at = Some(time);
        self
    }

    pub(crate) const fn time(&self) -> Option<Timestamp> {
        self.at
    }

    /// Returns the units in the order of the limit. An unknown name of a policy is an error, unless `was_left_out` says
    /// that it belongs to a limit that was not asked.
    pub(crate) fn units(
        &self,
        limit: &Limit,
        was_left_out: impl Fn(Option<&str>, &str) -> bool,
    ) -> Result<UsedUnits, Error> {
        if self.is_as_charged() {
            return Ok(SmallVec::new());
        }
        // The store checks the range of `others`.
        let mut each = SmallVec::from_elem(self.others, limit.members().len());
        for (index, named) in self.named.iter().enumerate() {
            named.validate(&self.named[..index])?;
            let is_set_in_one = |other: &Named<'_>, part: usize| {
                other.policy == named.policy
                    && other.limit.is_some_and(|name| name == limit.parts()[part].as_str())
            };
            let mut is_found = false;
            for (member, units) in limit.members().iter().zip(&mut each) {
                if !named.is_of(member.name().as_str(), &limit.parts()[member.part()]) {
                    continue;
                }
                is_found = true;
                // An entry for one limit has precedence, regardless of the order.
                let is_overruled = named.limit.is_none()
                    && self.named.iter().any(|other| is_set_in_one(other, member.part()));
                if !is_overruled {
                    *units = Some(named.units);
                }
            }
            if !is_found && !was_left_out(named.limit, &named.policy) {
                return Err(named.unknown(limit));
            }
        }
        Ok(each)
    }
}

impl Named<'_> {
    fn is_of(&self, policy: &str, limit: &LimitName) -> bool {
        self.policy == policy && self.limit.is_none_or(|name| name == limit.as_str())
    }

    fn validate(&self, earlier: &[Self]) -> Result<(), Error> {
        let Self { limit, policy, units } = self;
        let message = if *units > MAX_EXACT {
            format!(
                "{units} units of policy `{}` were used, but it must be a whole number from 0 to {MAX_EXACT}",
                policy.escape_debug()
            )
        } else if earlier.iter().any(|other| (&other.limit, &other.policy) == (limit, policy)) {
            format!(
                "the used units of policy `{}` are set twice: set them once",
                policy.escape_debug()
            )
        } else {
            return Ok(());
        };
        Err(RequestError::new(RequestErrorKind::Invalid, message).into())
    }

    #[cold]
    fn unknown(&self, limit: &Limit) -> Error {
        let part = |name: &str| limit.parts().iter().position(|part| part.as_str() == name);
        match self.limit.map(|name| (name, part(name))) {
            None => no_policy(limit, None, &self.policy),
            Some((_, Some(part))) => no_policy(limit, Some(part), &self.policy),
            Some((name, None)) => {
                let names: Vec<&str> = limit.parts().iter().map(LimitName::as_str).collect();
                let message = format!(
                    "the token is not of limit `{}`: it is of {}",
                    name.escape_debug(),
                    names.join(", ")
                );
                RequestError::new(RequestErrorKind::Invalid, message).into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit() -> Limit {
        let user = Limit::new("user", ["gcra 9/s as requests", "gcra 9/s as tokens"]).unwrap();
        Limit::together([user, Limit::new("team", ["gcra 9/s as tokens"]).unwrap()]).unwrap()
    }

    fn units(usage: &Usage<'_>) -> Result<[Option<u64>; 3], String> {
        let is_of_day = |limit: Option<&str>, policy: &str| {
            limit.is_none_or(|limit| limit == "day") && policy == "daily"
        };
        let units = usage.units(&limit(), is_of_day).map_err(|error| {
            assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::Invalid);
            error.to_string()
        })?;
        Ok([0, 1, 2].map(|index| units.get(index).copied().flatten()))
    }

    #[test]
    fn a_policy_that_is_not_named_used_what_it_was_charged_or_nothing() {
        assert_eq!(units(&Usage::nothing()), Ok([Some(0); 3]));
        assert_eq!(units(&Usage::as_charged()), Ok([None; 3]));
        assert_eq!(units(&Usage::of("requests", 3)), Ok([Some(3), None, None]));
        assert_eq!(units(&Usage::nothing().and("requests", 3)), Ok([Some(3), Some(0), Some(0)]));
    }

    #[test]
    fn a_name_stands_for_the_policies_of_all_limits_unless_one_is_named() {
        assert_eq!(units(&Usage::of("tokens", 3)), Ok([None, Some(3), Some(3)]));
        let both = [
            Usage::of("tokens", 3).and_in("team", "tokens", 4),
            Usage::as_charged().and_in("team", "tokens", 4).and("tokens", 3),
        ];
        for usage in both {
            assert_eq!(units(&usage), Ok([None, Some(3), Some(4)]));
        }
    }

    #[test]
    fn a_name_of_a_limit_that_was_not_asked_is_passed_over() {
        assert_eq!(units(&Usage::of("daily", 3)), Ok([None; 3]));
        assert_eq!(units(&Usage::nothing().and_in("day", "daily", 3)), Ok([Some(0); 3]));
    }

    #[test]
    fn what_makes_no_sense_is_an_error_that_says_what_to_write() {
        let most = MAX_EXACT;
        assert_eq!(units(&Usage::of("tokens", most)), Ok([None, Some(most), Some(most)]));
        for (usage, expected) in [
            (Usage::of("tokens", most + 1), "must be a whole number from 0 to 9007199254740991"),
            (Usage::of("tokens", 1).and("tokens", 1), "policy `tokens` are set twice"),
            (
                Usage::of("token", 1),
                "limit `user + team` has no policy `token`: its policies are requests, tokens, tokens",
            ),
            (
                Usage::nothing().and_in("team", "requests", 1),
                "limit `team` has no policy `requests`: its policies are tokens",
            ),
            (
                Usage::nothing().and_in("day", "tokens", 1),
                "the token is not of limit `day`: it is of user, team",
            ),
        ] {
            let message = units(&usage).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }
}
