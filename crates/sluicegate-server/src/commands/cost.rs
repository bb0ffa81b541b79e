//! A cost on the command line.

use std::str::FromStr;

use sluicegate::{Ask, Cost};

/// `N`, or `POLICY=N` for one policy; those that aren't named then cost nothing without an `N`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum CostArg {
    /// The cost under every policy that isn't named.
    Same(u64),
    /// The cost under one policy; 0 is not charged.
    Of(String, u64),
}

impl CostArg {
    /// Adds the costs to what is asked.
    ///
    /// # Errors
    /// When there are two numbers for every policy.
    pub(crate) fn add_all<'a>(costs: &'a [Self], mut ask: Ask<'a>) -> Result<Ask<'a>, String> {
        let mut same = 0;
        for cost in costs {
            ask = match cost {
                Self::Same(units) => {
                    same += 1;
                    ask.cost(*units)
                }
                Self::Of(policy, units) => ask.cost_of(policy, *units),
            };
        }
        if same > 1 {
            return Err(
                "--cost N is given more than once: write POLICY=N for one policy".to_owned()
            );
        }
        Ok(ask)
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

fn units(text: &str, least: u64) -> Result<u64, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits
        .then(|| text.parse().ok())
        .flatten()
        .filter(|units| (least..=Cost::MAX.get()).contains(units))
        .ok_or_else(|| format!("a cost must be a whole number from {least} to {}", Cost::MAX))
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
    fn one_number_for_all_is_enough() {
        let costs = [CostArg::Same(1), CostArg::Same(2)];
        assert!(CostArg::add_all(&costs, Ask::new("k")).unwrap_err().contains("more than once"));
    }
}
