//! A cost on the command line.

use std::str::FromStr;

use sluicegate::policy::Cost;

use crate::cost::{AskedCost, UsedUnits};

/// `N`, or `POLICY=N` for one policy. Without an `N`, policies that aren't named cost nothing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum CostArg {
    /// Cost under every policy that isn't named.
    Same(u64),
    /// Cost under one policy; 0 isn't charged.
    Of(String, u64),
}

impl CostArg {
    /// Combines the arguments.
    ///
    /// # Errors
    /// Returns an error if a policy has two numbers, or if `N` is given twice.
    pub(crate) fn together(costs: &[Self]) -> Result<AskedCost, String> {
        let mut asked = AskedCost::default();
        for cost in costs {
            match cost {
                Self::Same(units) if asked.rest.is_none() => asked.rest = Some(*units),
                Self::Same(_) => {
                    return Err("--cost N is given more than once: write POLICY=N for one policy"
                        .to_owned());
                }
                Self::Of(policy, _) if asked.each.iter().any(|(name, _)| name == policy) => {
                    return Err(format!(
                        "--cost {}=N is given more than once: give one number for it",
                        policy.escape_debug()
                    ));
                }
                Self::Of(policy, units) => asked.each.push((policy.clone(), *units)),
            }
        }
        Ok(asked)
    }
}

impl FromStr for CostArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((policy, number)) => Ok(Self::Of(policy.to_owned(), units(number, 0)?)),
            None => Ok(Self::Same(units(text, 1)?)),
        }
    }
}

/// `N`, or `POLICY=N` for one policy. Without an `N`, policies that aren't named used what they
/// were charged.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct UsedArg(CostArg);

impl UsedArg {
    /// Combines the arguments.
    ///
    /// # Errors
    /// Returns an error if there are two numbers for one policy.
    pub(crate) fn together(all: &[Self]) -> Result<UsedUnits, String> {
        let mut each: Vec<(String, u64)> = Vec::new();
        for Self(used) in all {
            match used {
                CostArg::Same(units) if all.len() == 1 => return Ok(UsedUnits::Same(*units)),
                CostArg::Same(_) => {
                    return Err("--used N stands alone: write POLICY=N for each policy".to_owned());
                }
                CostArg::Of(policy, _) if each.iter().any(|(name, _)| name == policy) => {
                    return Err(format!(
                        "--used {}=N is given more than once: give one number for it",
                        policy.escape_debug()
                    ));
                }
                CostArg::Of(policy, units) => each.push((policy.clone(), *units)),
            }
        }
        Ok(UsedUnits::Each(each))
    }
}

impl FromStr for UsedArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let units = |number| whole_number("what was used", number, 0);
        Ok(Self(match text.split_once('=') {
            Some((policy, number)) => CostArg::Of(policy.to_owned(), units(number)?),
            None => CostArg::Same(units(text)?),
        }))
    }
}

fn units(text: &str, least: u64) -> Result<u64, String> {
    whole_number("a cost", text, least)
}

fn whole_number(what: &str, text: &str, least: u64) -> Result<u64, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits
        .then(|| text.parse().ok())
        .flatten()
        .filter(|units| (least..=Cost::MAX.get()).contains(units))
        .ok_or_else(|| format!("{what} must be a whole number from {least} to {}", Cost::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_a_whole_number_in_range_or_one_by_policy() {
        assert_eq!("3".parse(), Ok(CostArg::Same(3)));
        assert_eq!("9007199254740991".parse(), Ok(CostArg::Same((1 << 53) - 1)));
        assert_eq!("a=0".parse(), Ok(CostArg::Of("a".to_owned(), 0)));
        for malformed in [
            "",
            "0",
            "-1",
            "+1",
            "1.5",
            "1e3",
            "9007199254740992",
            "99999999999999999999",
            "a=",
            "a=-1",
            "a",
        ] {
            let message = malformed.parse::<CostArg>().unwrap_err();
            assert!(message.contains("to 9007199254740991"), "{malformed}: {message}");
        }
    }

    #[test]
    fn what_was_used_is_one_number_or_one_by_policy() {
        let together = |all: &[&str]| {
            let all: Result<Vec<UsedArg>, String> = all.iter().map(|used| used.parse()).collect();
            UsedArg::together(&all?)
        };
        assert_eq!(together(&["0"]), Ok(UsedUnits::Same(0)));
        let each = vec![("a".to_owned(), 0), ("b".to_owned(), 7)];
        assert_eq!(together(&["a=0", "b=7"]), Ok(UsedUnits::Each(each)));
        for (wrong, words) in [
            (&["1", "2"][..], "stands alone"),
            (&["a=1", "2"], "stands alone"),
            (&["a=1", "a=1"], "more than once"),
            (&["-1"], "what was used must be a whole number from 0"),
            (&["a=9007199254740992"], "to 9007199254740991"),
        ] {
            assert!(together(wrong).unwrap_err().contains(words), "{wrong:?}");
        }
    }

    #[test]
    fn one_number_for_all_and_for_each_is_enough() {
        let together = |costs: &[&str]| {
            let costs: Vec<CostArg> = costs.iter().map(|cost| cost.parse().unwrap()).collect();
            CostArg::together(&costs)
        };
        assert_eq!(together(&[]), Ok(AskedCost::default()));
        let both = AskedCost { rest: Some(1), each: vec![("a".to_owned(), 0)] };
        assert_eq!(together(&["a=0", "1"]), Ok(both));
        for twice in [&["1", "2"][..], &["a=1", "1", "a=1"]] {
            assert!(together(twice).unwrap_err().contains("more than once"), "{twice:?}");
        }
    }
}
