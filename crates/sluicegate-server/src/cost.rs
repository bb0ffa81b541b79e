//! The cost of a request, as given to the command line or the service.

use sluicegate::policy::{Enforcement, Member};
use sluicegate::{Ask, Limit, Usage};

/// The cost of a request under the policies of one limit.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct AskedCost {
    /// Cost under every policy that isn't named. If `None`, an unnamed policy has its own cost, or
    /// no cost if other policies are named.
    pub(crate) rest: Option<u64>,
    /// Costs by policy name; 0 isn't charged.
    pub(crate) each: Vec<(String, u64)>,
}

impl AskedCost {
    /// Returns a request for the key at this cost. The cost isn't validated against a limit yet.
    pub(crate) fn ask<'a>(&'a self, key: &'a [u8]) -> Ask<'a> {
        let ask = match self.rest {
            Some(units) => Ask::new(key).cost(units),
            None => Ask::new(key),
        };
        self.each.iter().fold(ask, |ask, (policy, units)| ask.cost_of(policy, *units))
    }

    /// Returns the cost under a policy.
    pub(crate) fn of(&self, member: &Member) -> u64 {
        let named = self.each.iter().find(|(policy, _)| policy == member.name().as_str());
        match (named, self.rest) {
            (Some((_, units)), _) => *units,
            (None, Some(rest)) => rest,
            (None, None) if self.each.is_empty() => member.policy().cost().get(),
            (None, None) => 0,
        }
    }

    /// Returns the maximum that the request takes from a policy of `limit`: the units granted if
    /// nothing is counted.
    pub(crate) fn whole(&self, limit: &Limit) -> u64 {
        let enforced = |member: &&Member| member.policy().enforcement() == Enforcement::Enforced;
        let counts = limit.members().iter().filter(enforced).map(|member| self.of(member));
        let most = counts.max().filter(|units| *units > 0);
        most.or_else(|| limit.members().iter().map(|member| self.of(member)).max()).unwrap_or(0)
    }

    /// Returns `true` if the request takes units of the policy called `policy`.
    pub(crate) fn touches(&self, policy: &str) -> bool {
        match self.each.iter().find(|(name, _)| name == policy) {
            Some((_, units)) => *units > 0,
            None => self.rest.is_some() || self.each.is_empty(),
        }
    }
}

/// The number of used units of a hold.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum UsedUnits {
    /// Units used of every policy of the limits.
    Same(u64),
    /// Units used by policy name; other policies used what they were charged.
    Each(Vec<(String, u64)>),
}

impl UsedUnits {
    /// Returns the usage for settling the hold.
    pub(crate) fn usage(&self) -> Usage<'_> {
        match self {
            Self::Same(units) => Usage::of_every(*units),
            Self::Each(each) => each
                .iter()
                .fold(Usage::as_charged(), |usage, (policy, units)| usage.and(policy, *units)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_costs_what_is_said_of_it_or_of_the_rest_or_its_own() {
        let policies = ["gcra 1/s burst 9 as a", "gcra 1/s burst 9 cost 2 as b"];
        let limit = Limit::new("l", policies).unwrap();
        for (rest, each, costs, whole) in [
            (None, None, [1, 2], 2),
            (Some(7), None, [7, 7], 7),
            (None, Some(("a", 4)), [4, 0], 4),
            (Some(3), Some(("b", 0)), [3, 0], 3),
            (None, Some(("a", 0)), [0, 0], 0),
        ] {
            let each: Vec<_> = each.into_iter().map(|(name, units)| (name.into(), units)).collect();
            let cost = AskedCost { rest, each };
            let members = limit.members();
            assert_eq!([cost.of(&members[0]), cost.of(&members[1])], costs, "{cost:?}");
            assert_eq!(cost.whole(&limit), whole, "{cost:?}");
            assert_eq!(["a", "b"].map(|name| cost.touches(name)), costs.map(|units| units > 0));
        }
    }

    #[test]
    fn a_shadow_takes_nothing_unless_it_is_alone() {
        let limit = |specs: &[&str]| Limit::new("l", specs).unwrap();
        let cost = AskedCost::default();
        assert_eq!(cost.whole(&limit(&["gcra 1/s", "gcra 1/s burst 9 cost 5 shadow as s"])), 1);
        assert_eq!(cost.whole(&limit(&["gcra 1/s burst 9 cost 5 shadow as s"])), 5);
    }
}
