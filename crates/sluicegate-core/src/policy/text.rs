//! Policies as text: the same in code, configuration and on the command line.

use std::fmt;
use std::str::FromStr;

use super::{DeniedCharge, Enforcement, Policy};
use crate::kernel::Rule;
use crate::name::PolicyName;
use crate::number::Cost;
use crate::spec::{Grammar, MAX_SPEC_BYTES, Problem, Reader, SpecError, whole_number};

impl Policy {
    /// The longest spec that parses, in bytes.
    ///
    /// The printed form of a log with very many tiers can be longer.
    pub const MAX_SPEC_BYTES: usize = MAX_SPEC_BYTES;
}

impl FromStr for Policy {
    type Err = SpecError;

    /// Parses a spec such as `token_bucket 100/s burst 200 as per-second`.
    fn from_str(spec: &str) -> Result<Self, SpecError> {
        read(spec).map_err(|problem| SpecError::new(spec, &problem))
    }
}

impl fmt::Display for Policy {
    /// Prints the shortest spec that parses to this policy: algorithm, rate, the algorithm's
    /// options, common options, name. Defaults are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.algorithm().keyword())?;
        self.rule().write_spec(self.algorithm(), f)?;
        if self.cost() != Cost::ONE {
            write!(f, " cost {}", self.cost())?;
        }
        if self.enforcement() == Enforcement::Shadow {
            f.write_str(" shadow")?;
        }
        match self.denied_charge() {
            DeniedCharge::Free => {}
            DeniedCharge::Charged => f.write_str(" charge_denied")?,
            DeniedCharge::Counted => f.write_str(" count_denied")?,
        }
        if let Some(name) = self.name() {
            write!(f, " as {name}")?;
        }
        Ok(())
    }
}

fn read(spec: &str) -> Result<Policy, Problem> {
    if spec.len() > MAX_SPEC_BYTES {
        let column = spec.char_indices().take_while(|(at, _)| *at < MAX_SPEC_BYTES).count();
        let message =
            format!("the spec has {} bytes, but may have at most {MAX_SPEC_BYTES}", spec.len());
        return Err(Problem::at_column(column, message));
    }
    let grammars: Vec<&'static Grammar> = Rule::grammars().collect();
    let spec = Reader::new(spec, &grammars)?;
    let algorithm = (spec.grammar().read)(&spec)?;
    let mut policy = Policy::new(algorithm)
        .map_err(|error| spec.locate(&error, |tier| Policy::sliding_log([tier]).map(drop)))?;
    if let Some(word) = spec.value("cost") {
        let cost =
            Cost::new(whole_number(word)?).map_err(|error| Problem::at(word, error.to_string()))?;
        policy = policy.with_cost(cost);
    }
    if spec.flag("shadow").is_some() {
        policy = policy.shadow();
    }
    if spec.flag("charge_denied").is_some() {
        policy = policy.charge_denied();
    }
    if let Some(word) = spec.flag("count_denied") {
        if spec.flag("charge_denied").is_some() {
            let message = "`count_denied` and `charge_denied` exclude each other: remove one";
            return Err(Problem::at(word, message));
        }
        policy = policy.count_denied().map_err(|error| Problem::at(word, error.to_string()))?;
    }
    if let Some(word) = spec.value("as") {
        let name: PolicyName = word.text.parse().map_err(|_| {
            let message = format!(
                "`{}` is not a policy name: use 1 to {} of the characters a-z, 0-9, _ and -",
                word.shown(),
                PolicyName::MAX_LEN
            );
            Problem::at(word, message)
        })?;
        policy = policy.named(name);
    }
    Ok(policy)
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
