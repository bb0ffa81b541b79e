//! The share of a limit that one of several processes has.

use std::num::NonZeroU16;

use sluicegate_core::{Algorithm, Limit, LimitName, MAX_EXACT, Policy, Rate, Span};

/// Returns the parts of a limit, each as a limit with one of `processes` equal shares of all its numbers.
///
/// Every number is rounded down, but a number that admits a request at the policy's own cost still does. 0 stays 0, and
/// bans and the expiry of holds are unchanged. A full state is empty again after at most 285 years. Windows, slices,
/// the burst of `smooth` and the period of `warmup` are durations, and are unchanged. Returns `None` for a limit with
/// permits, because local permits couldn't be given back to the store.
pub(super) fn share(limit: &Limit, processes: NonZeroU16) -> Option<Vec<Limit>> {
    if limit.has_permits() {
        return None;
    }
    let of_part = |(part, name): (usize, &LimitName)| {
        let members = limit.members().iter().filter(|member| member.part() == part);
        let policies = members.map(|member| {
            let share = share_of_policy(member.policy(), processes.get().into())?;
            Some(share.named(member.name().clone()))
        });
        let share = Limit::new(name, policies.collect::<Option<Vec<_>>>()?).ok()?;
        Some(share.otherwise_as(limit, part))
    };
    limit.parts().iter().enumerate().map(of_part).collect()
}

fn share_of_policy(policy: &Policy, processes: u64) -> Option<Policy> {
    let cost = policy.cost().get();
    let units = |units: u64| (units / processes).max(units.min(cost));
    let algorithms = shares(policy.algorithm(), processes, &units);
    algorithms.into_iter().find_map(|share| policy.with_algorithm(share).ok())
}

/// Returns shares of an algorithm, in order of decreasing exactness. The last one always works, because it has no rate.
fn shares(algorithm: &Algorithm, processes: u64, units: &dyn Fn(u64) -> u64) -> Vec<Algorithm> {
    let mut share = algorithm.clone();
    let (rate, numbers) = share.numbers_mut();
    let (rate, mut room) = (rate.copied(), 1);
    for (name, number) in numbers {
        // One unit of a queue is in use while the others wait.
        let acted_on = u64::from(name == "queue");
        room = units(number.saturating_add(acted_on));
        *number = room.saturating_sub(acted_on);
    }
    let Some(rate) = rate else { return vec![share] };
    let with_rate = |rate| {
        let mut share = share.clone();
        if let (Some(own), _) = share.numbers_mut() {
            *own = rate;
        }
        share
    };
    slower(rate, room, processes).into_iter().map(with_rate).collect()
}

/// Returns shares of a rate, in this order:
///
/// - the exact one,
/// - whole units in the same period,
/// - one unit in whole microseconds (or whole units in one),
/// - the slowest rate that can count `room` units,
/// - none.
fn slower(rate: Rate, room: u64, processes: u64) -> Vec<Rate> {
    let (count, period) = (u128::from(rate.count()), rate.period().as_micros());
    let longer = period * u128::from(processes);
    let of_one = if count >= longer {
        (count / longer, 1)
    } else {
        (u128::from(count > 0), longer.div_ceil(count.max(1)))
    };
    let slowest = (u128::from(count > 0), u128::from(MAX_EXACT / room.max(2)));
    let shares = [(count, longer), (count / u128::from(processes), period), of_one, slowest];
    let rates = shares.into_iter().filter_map(|(units, micros)| {
        let period = Span::from_micros(u64::try_from(micros).ok()?).ok()?.into();
        Rate::new(u64::try_from(units).ok().filter(|units| *units > 0)?, period).ok()
    });
    rates.chain(Rate::new(0, rate.period())).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluicegate_conformance::schedules::{Dice, Kind, each, random_policies};

    use super::*;

    fn shared(specs: &[&str], processes: u16) -> Vec<String> {
        let limit = Limit::new("l", specs).unwrap();
        let shares = share(&limit, NonZeroU16::new(processes).unwrap()).unwrap();
        assert_eq!(shares.len(), 1);
        shares[0].members().iter().map(|member| member.policy().to_string()).collect()
    }

    fn policies(specs: &[&str]) -> Vec<String> {
        specs.iter().map(|spec| spec.parse::<Policy>().unwrap().to_string()).collect()
    }

    #[test]
    fn permits_have_no_share() {
        let limit = Limit::new("l", ["gcra 1/s", "concurrency 10 hold 30s"]).unwrap();
        assert_eq!(share(&limit, NonZeroU16::MIN), None);
    }

    #[test]
    fn every_number_is_divided_and_every_time_stays() {
        let whole = [
            "token_bucket 30/s burst 60 cost 3 as a",
            "gcra 10/s burst 5 shadow as b",
            "leaky_bucket 9/s capacity 20 charge_denied as c",
            "shaper 3/s queue 299 as d",
            "smooth 3/s burst 2s start full as e",
            "warmup 6/s over 10s as f",
            "fixed_window 10/month calendar Asia/Tokyo as g",
            "sliding_window 10/h slices 60 as h",
            "sliding_counter 10/h as i",
            "sliding_log 10/s and 1000/h as j",
        ];
        let third = [
            "token_bucket 10/s burst 20 cost 3 as a",
            "gcra 10/3s burst 1 shadow as b",
            "leaky_bucket 3/s capacity 6 charge_denied as c",
            "shaper 1/s queue 99 as d",
            "smooth 1/s burst 2s start full as e",
            "warmup 2/s over 10s as f",
            "fixed_window 3/month calendar Asia/Tokyo as g",
            "sliding_window 3/h slices 60 as h",
            "sliding_counter 3/h as i",
            "sliding_log 3/s and 333/h as j",
        ];
        let limit = Limit::new("l", whole).unwrap();
        let shares = share(&limit, NonZeroU16::new(3).unwrap()).unwrap();
        let rates = |policy: &Policy| {
            let mut numbers = Vec::new();
            if let Algorithm::TokenBucket { rate, .. }
            | Algorithm::Gcra { rate, .. }
            | Algorithm::LeakyBucket { rate, .. }
            | Algorithm::Shaper { rate, .. }
            | Algorithm::Smooth { rate, .. }
            | Algorithm::WarmUp { rate, .. } = policy.algorithm()
            {
                numbers = vec![u128::from(rate.count()), rate.period().as_micros()];
            }
            numbers
        };
        for (member, expected) in shares[0].members().iter().zip(third) {
            let expected: Policy = expected.parse().unwrap();
            // The same rule, even if its rate is written differently.
            assert_eq!(member.policy().rule(), expected.rule(), "{expected}");
            assert_eq!(member.policy().cost(), expected.cost());
            assert_eq!(member.policy().enforcement(), expected.enforcement());
            assert_eq!(member.policy().denied_charge(), expected.denied_charge());
            assert!(rates(member.policy()).len() == rates(&expected).len());
        }
    }

    #[test]
    fn what_admitted_a_request_at_its_own_cost_still_does_and_nothing_stays_nothing() {
        let whole =
            ["token_bucket 8/s burst 20 cost 5", "fixed_window 0/h", "sliding_log 3/s and 2/h"];
        let least =
            ["token_bucket 1/s burst 5 cost 5", "fixed_window 0/h", "sliding_log 1/s and 1/h"];
        let named = shared(&whole, 8);
        let least = policies(&least);
        for (found, expected) in named.iter().zip(&least) {
            assert!(
                found.replace("8/8s", "1/s").starts_with(expected.as_str()),
                "{found} is not {expected}"
            );
        }
        assert!(shared(&["fixed_window 3/h cost 7"], 2)[0].starts_with("fixed_window 3/h"));
    }

    #[test]
    fn one_of_one_has_all_of_it() {
        let whole =
            ["gcra 7/s burst 3 as a", "shaper 5/s queue 0 as b", "sliding_counter 9/h as c"];
        assert_eq!(shared(&whole, 1), policies(&whole));
    }

    #[test]
    fn a_rate_that_cannot_be_divided_exactly_is_rounded_down_to_one_that_can_be_counted() {
        // With the exact third, a full bucket would take more than 2^53 ticks.
        let specs = ["token_bucket 1000000/d burst 104249991"];
        let limit = Limit::new("l", specs).unwrap();
        for processes in [7, 1_000, 65_535] {
            let shares = share(&limit, NonZeroU16::new(processes).unwrap()).unwrap();
            let Algorithm::TokenBucket { rate, .. } = shares[0].members()[0].policy().algorithm()
            else {
                panic!()
            };
            let all = u128::from(rate.count()) * u128::from(processes) * 86_400_000_000;
            assert!(all <= 1_000_000 * rate.period().as_micros(), "{rate}");
            assert!(rate.count() > 0, "{rate}");
        }
        let rates = |rate: &str, processes| -> Vec<String> {
            let rates = slower(rate.parse().unwrap(), 1, processes);
            rates.iter().map(Rate::to_string).collect()
        };
        let slowest = Rate::new(1, Duration::from_micros(MAX_EXACT / 2)).unwrap().to_string();
        assert_eq!(rates("7/2us", 2), ["7/4us", "3/2us", "1/us", &slowest, "0/2us"]);
        assert_eq!(rates("2/7us", 3), ["2/21us", "1/11us", &slowest, "0/7us"]);
        assert_eq!(rates("0/s", 3), ["0/s"]);
        let once = Rate::new(1, Span::MAX.into()).unwrap();
        assert_eq!(slower(once, 1, 2)[0].to_string(), slowest);
    }

    #[test]
    fn of_every_policy_there_is_a_share_and_all_shares_are_the_whole_at_most() {
        each("shares", 200, |seed| {
            let mut dice = Dice::new(seed);
            let policies = random_policies(&mut dice, &Kind::ALL, 3);
            let limit = Limit::new("l", policies).unwrap();
            let processes = dice.pick(&[1_u16, 2, 3, 7, 10, 64, 1_000, 65_535]);
            let shares = share(&limit, NonZeroU16::new(processes).unwrap()).unwrap();
            for (whole, share) in limit.members().iter().zip(shares[0].members()) {
                assert_eq!(
                    whole.identity(),
                    share.identity(),
                    "it is the state of the same policy"
                );
                let (whole, share) = (whole.policy(), share.policy());
                let (all, one) = (whole.rule().limit(), share.rule().limit());
                if all == sluicegate_core::kernel::NEVER {
                    assert!(one == all || one == 0, "{whole}: {share}");
                } else {
                    let least = all.min(whole.cost().get());
                    assert!(one == (all / u64::from(processes)).max(least), "{whole}: {share}");
                }
            }
        });
    }
}
