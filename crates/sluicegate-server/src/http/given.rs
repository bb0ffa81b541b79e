//! Policies that a request gives for its limits.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use sluicegate::{Limit, Policy};

use super::error::ApiError;

/// The policies that a request gives for a limit, as the client wrote them.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Given(Vec<String>);

/// A limit that a request names, with the policies that it gives for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) name: &'a str,
    pub(super) given: Option<&'a Given>,
}

impl Given {
    /// Returns the limit with these policies.
    ///
    /// # Errors
    /// Returns an error if they form no limit.
    pub(super) fn limit(&self, name: &str) -> Result<Limit, ApiError> {
        Limit::new(name, self.policies()?).map_err(|error| ApiError::malformed(error.to_string()))
    }

    /// Returns the policies.
    ///
    /// # Errors
    /// Returns an error if there is none, or one is malformed.
    pub(super) fn policies(&self) -> Result<Vec<Policy>, ApiError> {
        let Self(specs) = self;
        if specs.is_empty() {
            return Err(ApiError::malformed(
                r#"`policies` is empty: give at least one, such as ["token_bucket 10/s burst 20"], or omit it"#,
            ));
        }
        // Before any is parsed: a body may have very many.
        if specs.len() > Limit::MAX_POLICIES {
            return Err(ApiError::malformed(format!(
                "`policies` has {} entries, but a limit has at most {}",
                specs.len(),
                Limit::MAX_POLICIES
            )));
        }
        let policy = |(index, spec): (usize, &String)| {
            spec.parse::<Policy>().map_err(|error| {
                ApiError::malformed(format!("`policies[{index}]`: {}", error.message()))
            })
        };
        specs.iter().enumerate().map(policy).collect()
    }

    /// Returns the policies in a text with commas between them, as in a query.
    pub(super) fn of_list(text: &str) -> Self {
        Self(text.split(',').map(str::to_owned).collect())
    }

    /// Returns the policies as the client wrote them.
    pub(super) fn specs(&self) -> &[String] {
        &self.0
    }
}

/// Policies by the names of their limits: `{"tier":["token_bucket 100/s burst 200"]}`.
#[derive(Debug, Default)]
pub(super) struct GivenByLimit(Vec<(String, Given)>);

impl GivenByLimit {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the policies of each of these limits that has some.
    ///
    /// # Errors
    /// Returns an error if there are policies for another limit.
    pub(super) fn of<'a>(&'a self, limits: &[&'a str]) -> Result<Vec<Wanted<'a>>, ApiError> {
        let Self(given) = self;
        if let Some((other, _)) = given.iter().find(|(name, _)| !limits.contains(&name.as_str())) {
            let other: String = other.chars().take(64).collect();
            return Err(ApiError::malformed(format!(
                "`policies` are for limit `{}`, which the token doesn't name",
                other.escape_debug()
            )));
        }
        let of = |name: &str| given.iter().find(|(other, _)| other == name).map(|(_, it)| it);
        Ok(limits.iter().map(|&name| Wanted { name, given: of(name) }).collect())
    }
}

impl<'de> Deserialize<'de> for GivenByLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ByLimitVisitor)
    }
}

/// Accepts each limit once, and at least one.
struct ByLimitVisitor;

impl<'de> Visitor<'de> for ByLimitVisitor {
    type Value = GivenByLimit;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map from limit to policies")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<GivenByLimit, A::Error> {
        let mut given: Vec<(String, Given)> = Vec::new();
        while let Some((limit, policies)) = map.next_entry::<String, Given>()? {
            // Bounded, so the search for duplicates stays short.
            if given.len() >= Limit::MAX_POLICIES {
                return Err(A::Error::custom("`policies` names more limits than a token can"));
            }
            if given.iter().any(|(earlier, _)| *earlier == limit) {
                let limit: String = limit.chars().take(64).collect();
                return Err(A::Error::custom(format!(
                    "`policies` of limit `{}` are set twice",
                    limit.escape_debug()
                )));
            }
            given.push((limit, policies));
        }
        if given.is_empty() {
            return Err(A::Error::custom("`policies` names no limit: name one, or omit it"));
        }
        Ok(GivenByLimit(given))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(json: &str) -> Given {
        serde_json::from_str(json).unwrap()
    }

    fn problem(json: &str) -> String {
        format!("{:?}", given(json).limit("tier").unwrap_err())
    }

    #[test]
    fn policies_form_a_limit_or_the_message_says_which_one_is_wrong() {
        let limit = given(r#"["gcra 5/s", "fixed_window 100/d as day"]"#).limit("tier").unwrap();
        assert_eq!((limit.name().as_str(), limit.members().len()), ("tier", 2));
        for (json, words) in [
            ("[]", "is empty"),
            (r#"["gcra 5/s", "gcra 5/m"]"#, "`policies[1]`: `m` is ambiguous"),
            (r#"["gcra 5/s as a", "gcra 6/s as a"]"#, "add `as NAME`"),
            (r#"["\u0000"]"#, "`policies[0]`"),
        ] {
            assert!(problem(json).contains(words), "{json}: {}", problem(json));
        }
        let many = format!("[{}]", vec!["\"gcra 5/s\""; 10_000].join(","));
        assert!(problem(&many).contains("has 10000 entries"), "{}", problem(&many));
        for name in ["", "a b", "a\n", &"x".repeat(65)] {
            assert!(given(r#"["gcra 5/s"]"#).limit(name).is_err(), "{name}");
        }
    }

    #[test]
    fn policies_by_limit_are_of_the_limits_of_a_token() {
        let by_limit: GivenByLimit = serde_json::from_str(r#"{"b":["gcra 5/s"]}"#).unwrap();
        let wanted = by_limit.of(&["a", "b"]).unwrap();
        let given: Vec<_> = wanted.iter().map(|it| (it.name, it.given.is_some())).collect();
        assert_eq!(given, [("a", false), ("b", true)]);
        assert!(format!("{:?}", by_limit.of(&["a"]).unwrap_err()).contains("limit `b`"));
        for wrong in ["{}", "[]", r#"{"a":[],"a":[]}"#, r#"{"a":"gcra 5/s"}"#, r#"{"a":null}"#] {
            assert!(serde_json::from_str::<GivenByLimit>(wrong).is_err(), "{wrong}");
        }
    }
}
