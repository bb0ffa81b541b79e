//! The limit that an attribute checks: one from the registry, or one defined inline.

use std::fmt;
use std::str::FromStr;

use sluicegate_core::{Cost, Limit, LimitName, Member, Policy, Rate};
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, ExprUnary, Lit, LitStr, UnOp};

pub(crate) enum LimitSource {
    /// The name of a limit in the registry.
    Named(LitStr),
    /// Policies in the attribute itself: their text, and the limit parsed from it.
    Inline { policies: Vec<LitStr>, name: Option<LitStr>, limit: Box<Limit> },
}

impl LimitSource {
    /// Reads a name, or a policy if `text` has at least two words.
    pub(crate) fn from_text(text: LitStr, name: Option<LitStr>) -> Result<Self, Error> {
        if text.value().contains(char::is_whitespace) {
            return Self::from_policies(vec![text], name);
        }
        if let Some(name) = name {
            return Err(Error::new(
                name.span(),
                format!(
                    "`name` is for inline policies, and this limit already has a name, `{}`: remove `name`",
                    text.value(),
                ),
            ));
        }
        check_name(&text)?;
        Ok(Self::Named(text))
    }

    pub(crate) fn from_policies(
        policies: Vec<LitStr>,
        name: Option<LitStr>,
    ) -> Result<Self, Error> {
        let mut read = Vec::new();
        let mut errors: Option<Error> = None;
        let mut report = |error: Error| match &mut errors {
            Some(errors) => errors.combine(error),
            None => errors = Some(error),
        };
        for spec in &policies {
            match spec.value().parse::<Policy>() {
                Ok(policy) => read.push(policy),
                Err(error) => report(match split_hint(&spec.value()) {
                    Some(hint) => Error::new(spec.span(), hint),
                    None => Error::new(spec.span(), error),
                }),
            }
        }
        if let Some(name) = &name
            && let Err(error) = name.value().parse::<LimitName>()
        {
            report(Error::new(name.span(), error));
        }
        if let Some(errors) = errors {
            return Err(errors);
        }
        let span = policies.last().map_or_else(proc_macro2::Span::call_site, LitStr::span);
        // The real name is known only at run time; no policy depends on it.
        let any: LimitName = "limit".parse().map_err(|error| Error::new(span, error))?;
        let limit = Limit::new(any, read).map_err(|error| Error::new(span, error))?;
        Ok(Self::Inline { policies, name, limit: Box::new(limit) })
    }

    /// Parses the value of an option that belongs to inline policies.
    pub(crate) fn read_option<T>(&self, option: &str, text: &LitStr) -> Result<T, Error>
    where
        T: FromStr<Err: fmt::Display>,
    {
        if let Self::Named(name) = self {
            return Err(Error::new(
                text.span(),
                format!(
                    "`{option}` is for inline policies, and `{}` is a limit of the registry: give that its `{option}` where it is configured",
                    name.value(),
                ),
            ));
        }
        text.value().parse().map_err(|error| Error::new(text.span(), error))
    }

    /// Returns the name, if the attribute has one.
    pub(crate) const fn name(&self) -> Option<&LitStr> {
        match self {
            Self::Named(name) => Some(name),
            Self::Inline { name, .. } => name.as_ref(),
        }
    }

    /// Returns the inline policies.
    pub(crate) fn members(&self) -> &[Member] {
        match self {
            Self::Named(_) => &[],
            Self::Inline { limit, .. } => limit.members(),
        }
    }

    /// Rejects costs that are known to be wrong at compile time.
    pub(crate) fn check_costs(
        &self,
        cost: Option<&Expr>,
        costs: &[(LitStr, Expr)],
    ) -> Result<(), Error> {
        for (index, (policy, _)) in costs.iter().enumerate() {
            if costs[..index].iter().any(|(earlier, _)| earlier.value() == policy.value()) {
                return Err(Error::new(
                    policy.span(),
                    "the cost of this policy is set twice: keep one",
                ));
            }
        }
        for cost in cost.into_iter().chain(costs.iter().map(|(_, cost)| cost)) {
            check_literal(cost)?;
        }
        if let Some((units, literal)) = cost.and_then(literal_units) {
            Cost::new(units?).map_err(|error| Error::new(literal.span(), error))?;
        }
        let Self::Inline { limit, .. } = self else {
            return Ok(());
        };
        for (policy, _) in costs {
            if limit.position(&policy.value()).is_none() {
                let names: Vec<_> =
                    limit.members().iter().map(|member| member.name().as_str()).collect();
                return Err(Error::new(
                    policy.span(),
                    format!(
                        "no policy is called `{}`: write one of {}",
                        policy.value(),
                        names.join(", ")
                    ),
                ));
            }
        }
        for member in limit.members() {
            let own = costs.iter().find(|(policy, _)| policy.value() == member.name().as_str());
            let units = own.map(|(_, cost)| cost).or(cost).and_then(literal_units);
            if let Some((units, literal)) = units {
                let (units, most) = (units?, member.policy().rule().limit());
                if units > most {
                    return Err(Error::new(
                        literal.span(),
                        format!(
                            "a cost of {units} is always denied: policy `{}` admits at most {most} per request",
                            member.policy(),
                        ),
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Returns what to write instead of several policies in one string.
fn split_hint(text: &str) -> Option<String> {
    let policies: Vec<_> = text.split([';', ',']).map(str::trim).collect();
    let are_all = policies.len() > 1 && policies.iter().all(|one| one.parse::<Policy>().is_ok());
    are_all.then(|| format!("a string holds one policy: write `policies = {policies:?}`"))
}

fn check_name(text: &LitStr) -> Result<(), Error> {
    let name = text.value();
    if let Err(error) = name.parse::<LimitName>() {
        return Err(Error::new(
            text.span(),
            format!(
                "{error}; for a policy, write an algorithm and its rate, `token_bucket 10/s burst 20`"
            ),
        ));
    }
    if name.parse::<Rate>().is_ok() {
        return Err(Error::new(
            text.span(),
            format!("this is a rate: write the algorithm too, such as `token_bucket {name}`"),
        ));
    }
    if format!("{name} 10/s").parse::<Policy>().is_ok() {
        return Err(Error::new(
            text.span(),
            format!("this is an algorithm: write its rate too, such as `{name} 10/s`"),
        ));
    }
    Ok(())
}

/// Rejects literals other than non-negative integers.
fn check_literal(cost: &Expr) -> Result<(), Error> {
    let literal = match cost {
        Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) => expr.as_ref(),
        Expr::Lit(ExprLit { lit: Lit::Int(_), .. }) => return Ok(()),
        other => other,
    };
    if let Expr::Lit(_) = literal {
        return Err(Error::new(
            cost.span(),
            format!(
                "a cost is a whole number from 1 to {}: write `cost = 5`, or an expression over the arguments",
                Cost::MAX
            ),
        ));
    }
    Ok(())
}

/// Returns the units of a cost that is an integer literal, and the literal.
fn literal_units(cost: &Expr) -> Option<(Result<u64, Error>, &Expr)> {
    match cost {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => {
            Some((number.base10_parse::<u64>(), cost))
        }
        _ => None,
    }
}
