//! The values of options, which follow the `=`.

use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, Ident, Lit, LitStr, Path};

use crate::syntax::{parse_expression, strip_parens};

/// The treatment of a call whose key lacks a part.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum OnMissing {
    #[default]
    Shared,
    Refuse,
    Skip,
}

pub(crate) enum Wait {
    Micros(u64),
    Expression(Expr),
}

impl OnMissing {
    pub(super) fn read(input: ParseStream<'_>) -> Result<Self, Error> {
        const WRITE: &str = "write `missing = shared` (calls without a key share one), `missing = refuse` (they are denied) or `missing = skip` (they pass unasked)";
        if input.peek(Lit) {
            return Err(input.error(format!("{WRITE}, without quotes")));
        }
        let word = input.call(Ident::parse_any)?;
        match word.to_string().as_str() {
            "shared" => Ok(Self::Shared),
            "refuse" => Ok(Self::Refuse),
            "skip" => Ok(Self::Skip),
            _ => Err(Error::new(word.span(), WRITE)),
        }
    }
}

impl Wait {
    pub(super) fn read(input: ParseStream<'_>, option: &Ident) -> Result<Self, Error> {
        let value = parse_expression(input)?;
        match &value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
                match text.value().parse::<sluicegate_core::Span>() {
                    Ok(span) => Ok(Self::Micros(span.as_micros())),
                    Err(error) => Err(Error::new(text.span(), error)),
                }
            }
            Expr::Lit(_) => Err(Error::new(
                value.span(),
                format!(
                    "a {option} needs a unit: write `{option} = \"500ms\"`, or an expression of type `Duration`"
                ),
            )),
            _ => Ok(Self::Expression(value)),
        }
    }
}

/// Parses a predicate on the result: a closure or a path.
pub(super) fn predicate(input: ParseStream<'_>, option: &Ident) -> Result<Expr, Error> {
    let predicate = parse_expression(input)?;
    let example = if option == "refund_if" { "is_ok" } else { "is_err" };
    match &predicate {
        Expr::Closure(_) | Expr::Path(_) => Ok(predicate),
        _ => Err(Error::new(
            predicate.span(),
            format!(
                "expected a predicate on the result: write a closure, `{option} = |result| result.{example}()`, or the path of a function that takes a reference to the result"
            ),
        )),
    }
}

/// Parses the function from the result to the usage: a closure or a path.
pub(super) fn settle(input: ParseStream<'_>) -> Result<Expr, Error> {
    of_result(input, "settle = |result| [(\"tokens\", result.tokens)]")
}

/// Parses the function from the result to the pause: a closure or a path.
pub(super) fn pause(input: ParseStream<'_>) -> Result<Expr, Error> {
    of_result(input, "pause_on = |result| result.as_ref().err()?.retry_after")
}

fn of_result(input: ParseStream<'_>, example: &str) -> Result<Expr, Error> {
    let function = parse_expression(input)?;
    match &function {
        Expr::Closure(_) | Expr::Path(_) => Ok(function),
        _ => Err(Error::new(
            function.span(),
            format!(
                "expected a function of the result: write a closure, `{example}`, or the path of a function that takes a reference to the result"
            ),
        )),
    }
}

/// Parses the path of the crate `sluicegate`.
pub(super) fn crate_path(input: ParseStream<'_>) -> Result<Path, Error> {
    if input.peek(LitStr) {
        let text: LitStr = input.parse()?;
        return Err(Error::new(
            text.span(),
            format!("write a path without quotes: `crate = {}`", text.value()),
        ));
    }
    input.call(Path::parse_mod_style)
}

pub(super) fn string(input: ParseStream<'_>, example: &str) -> Result<LitStr, Error> {
    input.parse().map_err(|error| Error::new(error.span(), format!("write a string: `{example}`")))
}

/// Parses one policy, or several in brackets.
pub(super) fn strings(input: ParseStream<'_>) -> Result<Vec<LitStr>, Error> {
    const WRITE: &str = "write the policies as strings: `policies = [\"token_bucket 10/s\", \"fixed_window 1000/d\"]`";
    let elements = match parse_expression(input)? {
        Expr::Array(array) if array.elems.is_empty() => {
            return Err(Error::new(array.span(), WRITE));
        }
        Expr::Array(array) => array.elems.into_iter().collect(),
        one => vec![one],
    };
    elements
        .into_iter()
        .map(|element| match strip_parens(element) {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Ok(text),
            other => Err(Error::new(other.span(), WRITE)),
        })
        .collect()
}
