//! Parses the key of a limit.

use proc_macro2::{Ident, Span};
use quote::ToTokens;
use syn::parse::ParseStream;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, Lit, Path};

use crate::syntax::{parse_expression, strip_parens, to_source};
use crate::template::Template;

/// The key of a limit, as the attribute defines it.
pub(crate) enum KeySource {
    Method,
    Template(Template),
    Values { values: Vec<Expr>, span: Span },
}

/// A part of a key that a bare word names.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Builtin {
    Ip,
    User,
    Method,
}

const BUILTINS: [(&str, Builtin); 3] =
    [("ip", Builtin::Ip), ("user", Builtin::User), ("method", Builtin::Method)];

impl KeySource {
    pub(crate) fn read(input: ParseStream<'_>) -> Result<Self, Error> {
        let value = parse_expression(input)?;
        let span = value.span();
        match value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
                Template::read(text).map(Self::Template)
            }
            Expr::Tuple(tuple) if tuple.elems.len() > 1 => Ok(Self::Values {
                values: tuple.elems.into_iter().map(strip_parens).collect(),
                span,
            }),
            Expr::Tuple(tuple) => Err(Error::new(
                span,
                match tuple.elems.first() {
                    None => "the key is empty: write a value, or a tuple of values".to_owned(),
                    Some(one) => {
                        format!(
                            "this tuple has one value: write `key = {}`",
                            to_source(&one.to_token_stream())
                        )
                    }
                },
            )),
            value => Ok(Self::Values { values: vec![value], span }),
        }
    }
}

/// Returns whether `text` is the name of a built-in part.
pub(crate) fn is_builtin(text: &str) -> bool {
    BUILTINS.iter().any(|(name, _)| *name == text)
}

/// Returns the built-in part that a path names, `ip` or `caller::ip`: its name, the part, and whether
/// `caller::` precedes it.
pub(crate) fn builtin_of(path: &Path) -> Option<(&'static str, Builtin, bool)> {
    let find = |ident: &Ident| BUILTINS.iter().find(|(name, _)| ident == name);
    if let Some(ident) = path.get_ident() {
        return find(ident).map(|(name, builtin)| (*name, *builtin, false));
    }
    match (path.segments.first(), path.segments.last()) {
        (Some(first), Some(last)) if path.segments.len() == 2 && first.ident == "caller" => {
            find(&last.ident).map(|(name, builtin)| (*name, *builtin, true))
        }
        _ => None,
    }
}
