//! Errors about policies that can't form a limit.

use std::error::Error;
use std::fmt;

use super::Limit;
use crate::error::{NameError, PolicyError};
use crate::name::{LimitName, PolicyName};
use crate::spec::SpecError;

/// The reason why a name and policies can't form a limit.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum LimitError {
    /// The name is invalid.
    Name(NameError),
    /// A policy's numbers are invalid.
    Policy(PolicyError),
    /// The spec of a policy can't be parsed.
    Spec(SpecError),
    /// There is no policy.
    Empty,
    /// Two policies have the same name.
    DuplicateName {
        /// Their name.
        name: PolicyName,
        /// The index of the second one, from 0.
        index: usize,
    },
    /// Two of the combined limits have the same name, so they would share their states.
    DuplicatePart {
        /// Their name.
        name: LimitName,
    },
    /// The names of two policies have the same short hash in the stored state.
    TagCollision {
        /// One of the names.
        first: PolicyName,
        /// The other.
        second: PolicyName,
    },
    /// There are more policies than one decision can take.
    TooMany {
        /// The number of policies given.
        count: usize,
    },
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(error) => error.fmt(f),
            Self::Policy(error) => error.fmt(f),
            Self::Spec(error) => error.fmt(f),
            Self::Empty => {
                f.write_str("a limit needs at least one policy, such as `token_bucket 10/s`")
            }
            Self::DuplicateName { name, index } => write!(
                f,
                "policy {} has the name `{name}`, which an earlier policy has: add `as NAME` with another name",
                index + 1
            ),
            Self::DuplicatePart { name } => write!(
                f,
                "limit `{name}` is listed twice: limits that are decided together need different names"
            ),
            Self::TagCollision { first, second } => write!(
                f,
                "the names `{first}` and `{second}` have the same short hash in the stored state: rename one of them"
            ),
            Self::TooMany { count } => {
                write!(f, "a limit has at most {} policies, not {count}", Limit::MAX_POLICIES)
            }
        }
    }
}

impl Error for LimitError {}

impl From<NameError> for LimitError {
    fn from(error: NameError) -> Self {
        Self::Name(error)
    }
}

impl From<PolicyError> for LimitError {
    fn from(error: PolicyError) -> Self {
        Self::Policy(error)
    }
}

impl From<SpecError> for LimitError {
    fn from(error: SpecError) -> Self {
        Self::Spec(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    #[test]
    fn policies_that_form_no_limit_say_why() {
        let name = || "api".parse::<LimitName>().unwrap();
        let policies = |specs: &[&str]| -> Vec<Policy> {
            specs.iter().map(|spec| spec.parse().unwrap()).collect()
        };
        let refused = |policies| Limit::new(name(), policies).unwrap_err().to_string();
        assert!(refused(Vec::new()).contains("at least one policy"));
        assert_eq!(
            refused(policies(&["gcra 1/s as a", "gcra 2/s as a"])),
            "policy 2 has the name `a`, which an earlier policy has: add `as NAME` with another name"
        );
        let many: Vec<String> = (0..65).map(|each| format!("gcra 1/s as p{each}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(refused(policies(&many)), "a limit has at most 64 policies, not 65");
        let [first, second] = ["a", "b"].map(|name| name.parse().unwrap());
        let collision = LimitError::TagCollision { first, second }.to_string();
        assert!(collision.contains("`a` and `b` have the same short hash"), "{collision}");
        let twice = LimitError::DuplicatePart { name: name() }.to_string();
        assert!(twice.contains("`api` is listed twice"), "{twice}");
    }
}
