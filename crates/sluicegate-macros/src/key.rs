//! What the key of a call is made of.

use proc_macro2::{Ident, Span};
use quote::ToTokens;
use syn::parse::ParseStream;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, Lit, Path};

use crate::syntax::{parse_expression, strip_parens, to_source};
use crate::template::Template;

/// A key as it is written.
pub(crate) enum KeySource {
    Method,
    Template(Template),
    Values { values: Vec<Expr>, span: Span },
}

/// Parts of keys that have a word.
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
                    None => "a key of nothing: write its parts".to_owned(),
                    Some(one) => {
                        format!(
                            "a tuple of one: write `key = {}`",
                            to_source(&one.to_token_stream())
                        )
                    }
                },
            )),
            value => Ok(Self::Values { values: vec![value], span }),
        }
    }
}

/// Whether a word means something as a key.
pub(crate) fn is_builtin(text: &str) -> bool {
    BUILTINS.iter().any(|(name, _)| *name == text)
}

/// `ip`, or `caller::ip`.
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
