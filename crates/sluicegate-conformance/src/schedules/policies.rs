//! Random policies.

use sluicegate_core::{Algorithm, Cost, DeniedCharge, Enforcement, Policy};

use crate::algorithms::{self, Kind, Numbers};
use crate::dice::Dice;

/// Returns `count` policies of these kinds without names. Repeats are distinguished by their order.
pub fn random_policies(dice: &mut Dice, kinds: &[Kind], count: usize) -> Vec<Policy> {
    (0..count)
        .map(|_| {
            let kind = dice.pick(kinds);
            let numbers = if dice.one_in(8) { Numbers::Largest } else { Numbers::Small };
            let mut policy = random_policy(dice, kind, numbers);
            if count > 1 && dice.one_in(5) {
                policy = policy.shadow();
            }
            if dice.one_in(5) {
                policy = charging_denied(policy);
            }
            if dice.one_in(5)
                && let Ok(cost) = Cost::new(dice.between(1, 3))
            {
                policy = policy.with_cost(cost);
            }
            policy
        })
        .collect()
}

/// Returns the policy with a charge for denied requests. Fixed windows with an even limit count them beyond it.
pub(super) fn charging_denied(policy: Policy) -> Policy {
    match policy.algorithm() {
        Algorithm::FixedWindow { limit, .. } if limit.is_multiple_of(2) => {
            policy.clone().count_denied().unwrap_or(policy)
        }
        _ => policy.charge_denied(),
    }
}

/// Returns a policy that enforces and costs 1.
pub fn random_policy(dice: &mut Dice, kind: Kind, numbers: Numbers) -> Policy {
    loop {
        if let Ok(policy) = kind.random(dice, numbers) {
            return policy;
        }
    }
}

/// Returns the policy with a calendar window across zones as its algorithm.
pub(super) fn across_zones(dice: &mut Dice, policy: &Policy) -> Policy {
    loop {
        let algorithm = algorithms::across_zones(dice);
        if let Ok(policy) = algorithm.and_then(|algorithm| policy.with_algorithm(algorithm)) {
            return policy;
        }
    }
}

/// Returns the policy with other numbers, but with its name, algorithm and window. A calendar
/// across zones gets another zone.
pub fn renumber(dice: &mut Dice, policy: &Policy) -> Policy {
    if dice.one_in(3) {
        return policy.clone();
    }
    loop {
        let algorithm = algorithms::renumber(dice, policy.algorithm());
        let Ok(mut changed) = Policy::new(algorithm) else { continue };
        changed = changed.with_cost(policy.cost());
        if let Some(name) = policy.name() {
            changed = changed.named(name.clone());
        }
        if policy.enforcement() == Enforcement::Shadow {
            changed = changed.shadow();
        }
        if policy.denied_charge() != DeniedCharge::Free {
            changed = charging_denied(changed);
        }
        return changed;
    }
}
