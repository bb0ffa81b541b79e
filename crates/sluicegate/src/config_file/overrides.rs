//! Other numbers for some keys of a limit.

use std::error::Error;
use std::fmt;

use sluicegate_core::{Algorithm, Limit, LimitError, Member, Policy, PolicyError};
use sluicegate_http::KeyMatcher;

use super::Times;

/// Keys with other numbers than the rest of a limit, under the same policies: each has the same name, algorithm and
/// window. So units consumed under one set of numbers count under the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    key: KeyMatcher,
    limit: Limit,
}

impl Override {
    /// Returns an override with `policies` instead of those of `base`, for the keys that `key` matches.
    ///
    /// ```
    /// use sluicegate::config::Override;
    ///
    /// let api = sluicegate::Limit::new("api", ["token_bucket 10/s", "fixed_window 1000/d as daily"])?;
    /// let policies = ["token_bucket 50/s", "fixed_window 9000/d as daily"].map(|spec| spec.parse());
    /// let more = policies.into_iter().collect::<Result<Vec<_>, _>>()?;
    /// assert!(Override::new("acme".parse()?, &api, more).is_ok());
    ///
    /// let other = vec!["gcra 50/s as token_bucket".parse()?, "fixed_window 9000/d as daily".parse()?];
    /// assert_eq!(
    ///     Override::new("acme".parse()?, &api, other).unwrap_err().to_string(),
    ///     "policy `token_bucket` is a gcra, but the limit's is a token_bucket: \
    ///      an override can change only numbers"
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the policies are not those of `base`, in the same order, with other numbers.
    pub fn new(
        key: KeyMatcher,
        base: &Limit,
        policies: Vec<Policy>,
    ) -> Result<Self, OverrideError> {
        Ok(Self { key, limit: limit_with(base, policies)? })
    }

    /// Returns an override that multiplies a limit's numbers by `times`, for the keys that `key` matches.
    ///
    /// The numbers are rates, bursts, capacities, queues, limits and permits. Windows, costs and durations (the burst
    /// of `smooth`, the warm-up period) are unchanged.
    ///
    /// # Errors
    /// Returns an error if a number would not be exact, or is out of the range of its policy.
    pub fn times(key: KeyMatcher, base: &Limit, times: Times) -> Result<Self, OverrideError> {
        Ok(Self { key, limit: limit_times(base, times)? })
    }

    /// Returns an override with the numbers of another one of the same limit, for the keys that `key` matches.
    pub(super) const fn with_limit(key: KeyMatcher, limit: Limit) -> Self {
        Self { key, limit }
    }

    /// Returns the keys.
    #[must_use]
    pub const fn key(&self) -> &KeyMatcher {
        &self.key
    }

    /// Returns the limit with the other numbers.
    #[must_use]
    pub const fn limit(&self) -> &Limit {
        &self.limit
    }
}

/// Returns a limit with other policies: those of `base`, in the same order, with other numbers.
///
/// # Errors
/// Returns an error if the policies are others.
pub(crate) fn limit_with(base: &Limit, policies: Vec<Policy>) -> Result<Limit, OverrideError> {
    let limit = base
        .with_policies(policies)
        .map_err(|error| OverrideError { policy: faulty(&error), message: error.to_string() })?;
    let (own, wanted) = (limit.members(), base.members());
    for (index, (own, wanted)) in own.iter().zip(wanted).enumerate() {
        if let Some(message) = difference(index, own, wanted) {
            return Err(OverrideError { policy: Some(index), message });
        }
    }
    if own.len() != wanted.len() {
        let names: Vec<&str> = wanted.iter().map(|member| member.name().as_str()).collect();
        let message = format!(
            "the limit has {} {}, not {}: write {}, in this order",
            wanted.len(),
            if wanted.len() == 1 { "policy" } else { "policies" },
            own.len(),
            names.join(", ")
        );
        let policy = (own.len() > wanted.len()).then_some(wanted.len());
        return Err(OverrideError { policy, message });
    }
    Ok(limit)
}

/// Returns a limit with `times` the numbers of `base`.
///
/// # Errors
/// Returns an error if a number would not be exact, or is out of the range of its policy.
pub(crate) fn limit_times(base: &Limit, times: Times) -> Result<Limit, OverrideError> {
    let mut policies = Vec::with_capacity(base.members().len());
    for (index, member) in base.members().iter().enumerate() {
        let name = member.name();
        let fault = |message| OverrideError { policy: Some(index), message };
        let algorithm = multiplied(member.policy().algorithm(), times).map_err(|number| {
            fault(format!(
                "policy `{name}`: {number} times {times} is not a whole number; write out the \
                 override's policies"
            ))
        })?;
        // A default name stays a default, so that the spec prints as it was written.
        let policy = member.policy().with_algorithm(algorithm);
        policies.push(policy.map_err(|error: PolicyError| {
            fault(format!("policy `{name}` times {times}: {error}"))
        })?);
    }
    limit_with(base, policies)
}

/// Returns why a policy is not another one with different numbers.
fn difference(index: usize, own: &Member, wanted: &Member) -> Option<String> {
    let (name, algorithm) = (wanted.name(), wanted.policy().algorithm().keyword());
    let own_algorithm = own.policy().algorithm().keyword();
    let rule = "an override can change only numbers";
    if own.name() != name {
        let number = index + 1;
        Some(format!(
            "policy {number} has the name `{}`, but the limit's has `{name}`: {rule}",
            own.name()
        ))
    } else if own_algorithm != algorithm {
        Some(format!(
            "policy `{name}` is a {own_algorithm}, but the limit's is a {algorithm}: {rule}"
        ))
    } else if own.identity() != wanted.identity() {
        let policy = wanted.policy();
        Some(format!(
            "policy `{name}` has another window than the limit's `{policy}`: {rule}, and the zone \
             if both have a calendar `across_zones`"
        ))
    } else {
        None
    }
}

/// Returns the index of the policy that an error is about.
const fn faulty(error: &LimitError) -> Option<usize> {
    match error {
        LimitError::DuplicateName { index, .. } => Some(*index),
        _ => None,
    }
}

/// Returns the algorithm with `times` its numbers, or the number that has no such multiple.
fn multiplied(algorithm: &Algorithm, times: Times) -> Result<Algorithm, String> {
    let many = |name: &str, units| times.of_units(units).ok_or_else(|| format!("{name} {units}"));
    let fast = |rate| times.of_rate(rate).ok_or_else(|| format!("rate {rate}"));
    let mut algorithm = algorithm.clone();
    let (rate, units) = algorithm.numbers_mut();
    if let Some(rate) = rate {
        *rate = fast(*rate)?;
    }
    for (name, units) in units {
        *units = many(name, *units)?;
    }
    Ok(algorithm)
}

/// The reason why numbers can't override those of a limit. The message says what to change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OverrideError {
    policy: Option<usize>,
    message: String,
}

impl OverrideError {
    /// Returns the index of the wrong policy, if the error is about one.
    #[must_use]
    pub const fn policy(&self) -> Option<usize> {
        self.policy
    }
}

impl fmt::Display for OverrideError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for OverrideError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(policies: &[&str], times: &str) -> Result<Vec<String>, String> {
        let base = Limit::new("l", policies).unwrap();
        let found = Override::times("k".parse().unwrap(), &base, times.parse().unwrap());
        let found = found.map_err(|error| error.to_string())?;
        let identities =
            |limit: &Limit| limit.members().iter().map(Member::identity).collect::<Vec<_>>();
        assert_eq!(identities(found.limit()), identities(&base));
        Ok(found.limit().members().iter().map(|member| member.policy().to_string()).collect())
    }

    #[test]
    fn every_number_is_multiplied_and_all_else_stays() {
        let policies = [
            "token_bucket 10/s burst 20 cost 3",
            "gcra 1/7s burst 5 shadow",
            "leaky_bucket 5/s capacity 20 charge_denied as water",
            "shaper 5/s queue 100",
            "smooth 5/s burst 2s start full",
            "warmup 5/s over 10s",
            "fixed_window 10/month calendar Asia/Tokyo",
            "sliding_window 10/h slices 60",
            "sliding_counter 10/h",
            "sliding_log 10/s and 1000/h",
        ];
        let threefold = [
            "token_bucket 30/s burst 60 cost 3",
            "gcra 3/7s burst 15 shadow",
            "leaky_bucket 15/s capacity 60 charge_denied as water",
            "shaper 15/s queue 300",
            "smooth 15/s burst 2s start full",
            "warmup 15/s over 10s",
            "fixed_window 30/month calendar Asia/Tokyo",
            "sliding_window 30/h slices 60",
            "sliding_counter 30/h",
            "sliding_log 30/s and 3000/h",
        ];
        let parse = |specs: &[&str]| {
            specs.iter().map(|spec| spec.parse::<Policy>().unwrap().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(times(&policies, "3"), Ok(parse(&threefold)));
    }

    #[test]
    fn a_fraction_is_exact_or_refused() {
        assert_eq!(times(&["gcra 5/s burst 4"], "0.5"), Ok(vec!["gcra 5/2s burst 2".to_owned()]));
        assert_eq!(
            times(&["gcra 5/s burst 4", "fixed_window 5/s"], "0.5"),
            Err("policy `fixed_window`: limit 5 times 0.5 is not a whole number; write out the \
                 override's policies"
                .to_owned())
        );
        let too_much = times(&["sliding_log 10/s"], "100000").unwrap_err();
        assert!(too_much.starts_with("policy `sliding_log` times 100000: "), "{too_much}");
    }

    #[test]
    fn an_override_has_the_policies_of_its_limit() {
        let base = Limit::new("l", ["gcra 1/s", "fixed_window 5/h as daily"]).unwrap();
        for (policies, policy, message) in [
            (&["gcra 1/s"][..], None, "the limit has 2 policies, not 1: write gcra, daily"),
            (
                &["gcra 1/s", "fixed_window 5/h"],
                Some(1),
                "policy 2 has the name `fixed_window`, but",
            ),
            (
                &["gcra 1/s", "gcra 5/h as daily"],
                Some(1),
                "is a gcra, but the limit's is a fixed_w",
            ),
            (&["gcra 1/s", "fixed_window 5/d as daily"], Some(1), "has another window"),
            (
                &["gcra 1/s", "fixed_window 5/h as daily", "gcra 1/s as b"],
                Some(2),
                "the limit has 2 policies, not 3",
            ),
            (&["gcra 1/s as a", "gcra 1/s as a"], Some(1), "add `as NAME`"),
        ] {
            let policies = policies.iter().map(|spec| spec.parse().unwrap()).collect();
            let error = Override::new("k".parse().unwrap(), &base, policies).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
            assert_eq!(error.policy(), policy, "{error}");
        }
    }
}
