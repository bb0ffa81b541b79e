//! Costs in request bodies, parsed strictly.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Unexpected, Visitor};
use sluicegate::Limit;
use sluicegate::policy::Cost;

use crate::cost::{AskedCost, UsedUnits};

/// A cost: one number, or a map policy → number. Policies missing from the map cost nothing.
#[derive(Debug, PartialEq)]
pub(super) enum CostBody {
    Same(u64),
    Each(Vec<(String, u64)>),
}

impl From<CostBody> for AskedCost {
    fn from(body: CostBody) -> Self {
        match body {
            CostBody::Same(units) => Self { rest: Some(units), each: Vec::new() },
            CostBody::Each(each) => Self { rest: None, each },
        }
    }
}

impl<'de> Deserialize<'de> for CostBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CostVisitor { noun: "cost", least: 1, may_be_map: true })
    }
}

/// Used units: one number for every policy, or a map policy → number. Policies missing from the map
/// used what they were charged.
#[derive(Debug)]
pub(super) struct UsedBody(CostBody);

impl From<UsedBody> for UsedUnits {
    fn from(UsedBody(body): UsedBody) -> Self {
        match body {
            CostBody::Same(units) => Self::Same(units),
            CostBody::Each(each) => Self::Each(each),
        }
    }
}

impl<'de> Deserialize<'de> for UsedBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let visitor = CostVisitor { noun: "used", least: 0, may_be_map: true };
        deserializer.deserialize_any(visitor).map(Self)
    }
}

/// A number in a map.
struct Units(u64);

impl<'de> Deserialize<'de> for Units {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let visitor = CostVisitor { noun: "number", least: 0, may_be_map: false };
        match deserializer.deserialize_any(visitor)? {
            CostBody::Same(units) => Ok(Self(units)),
            CostBody::Each(_) => Err(D::Error::custom("it must be a number")),
        }
    }
}

/// Accepts only integers in range (not `1.0` or `1e3`) and maps of them.
struct CostVisitor {
    noun: &'static str,
    least: u64,
    may_be_map: bool,
}

impl<'de> Visitor<'de> for CostVisitor {
    type Value = CostBody;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.noun != "number" {
            write!(f, "a {} that is ", self.noun)?;
        }
        write!(f, "a whole number from {} to {}", self.least, Cost::MAX)?;
        if self.may_be_map { f.write_str(", or a map from policy to number") } else { Ok(()) }
    }

    fn visit_u64<E: serde::de::Error>(self, units: u64) -> Result<CostBody, E> {
        if (self.least..=Cost::MAX.get()).contains(&units) {
            Ok(CostBody::Same(units))
        } else {
            Err(E::invalid_value(Unexpected::Unsigned(units), &self))
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CostBody, A::Error> {
        if !self.may_be_map {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Err(A::Error::invalid_type(Unexpected::Map, &self));
        }
        let mut each: Vec<(String, u64)> = Vec::new();
        while let Some((policy, Units(units))) = map.next_entry::<String, Units>()? {
            // Bounded, so the search for duplicates stays short.
            if each.len() >= Limit::MAX_POLICIES {
                return Err(A::Error::custom(format!(
                    "`{}` names more policies than a limit can have",
                    self.noun
                )));
            }
            if each.iter().any(|(earlier, _)| *earlier == policy) {
                return Err(A::Error::custom(format!(
                    "`{}` of policy `{}` is set twice",
                    self.noun,
                    policy.escape_debug()
                )));
            }
            each.push((policy, units));
        }
        // An empty map would change nothing, so it is probably a mistake.
        if each.is_empty() {
            return Err(A::Error::custom(format!(
                "`{}` names no policy: name one, as in {{\"tokens\":1}}{}",
                self.noun,
                if self.noun == "cost" { ", or leave the cost out" } else { "" }
            )));
        }
        Ok(CostBody::Each(each))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(json: &str) -> Option<CostBody> {
        serde_json::from_str(json).ok()
    }

    #[test]
    fn a_cost_is_a_whole_number_or_a_map_of_them() {
        assert_eq!(cost("3"), Some(CostBody::Same(3)));
        assert_eq!(cost("9007199254740991"), Some(CostBody::Same((1 << 53) - 1)));
        assert_eq!(
            cost(r#"{"a":0,"b":2}"#),
            Some(CostBody::Each(vec![("a".into(), 0), ("b".into(), 2)]))
        );
        for malformed in [
            "0",
            "-1",
            "1.5",
            "1.0",
            "1e3",
            "9007199254740992",
            "18446744073709551616",
            "1e400",
            "null",
            "true",
            r#""1""#,
            "[1]",
            r#"{"a":-1}"#,
            r#"{"a":1.5}"#,
            r#"{"a":{"b":1}}"#,
            r#"{"a":null}"#,
            r#"{"a":1,"a":2}"#,
            "{}",
            "NaN",
            "",
        ] {
            assert_eq!(cost(malformed), None, "{malformed}");
        }
    }
}
