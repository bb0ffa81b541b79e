//! What the key of a call is made of.

use proc_macro2::{Ident, Span};
use quote::ToTokens;
use syn::parse::ParseStream;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, Lit, Path};

use crate::syntax::{expression, printed, ungrouped};
use crate::template::Template;

/// A key as it is written.
pub(crate) enum KeySource {
    Method,
    Template(Template),
    Values { values: Vec<Expr>, place: Span },
}

/// Parts of keys that have a word.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Word {
    Ip,
    User,
    Method,
}

const WORDS: [(&str, Word); 3] = [("ip", Word::Ip), ("user", Word::User), ("method", Word::Method)];

impl KeySource {
    pub(crate) fn read(input: ParseStream<'_>) -> Result<Self, Error> {
        let value = expression(input)?;
        let place = value.span();
        match value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
                Template::read(text).map(Self::Template)
            }
            Expr::Tuple(tuple) if tuple.elems.len() > 1 => {
                Ok(Self::Values { values: tuple.elems.into_iter().map(ungrouped).collect(), place })
            }
            Expr::Tuple(tuple) => Err(Error::new(
                place,
                match tuple.elems.first() {
                    None => "a key of nothing: write its parts".to_owned(),
                    Some(one) => {
                        format!("a tuple of one: write `key = {}`", printed(&one.to_token_stream()))
                    }
                },
            )),
            value => Ok(Self::Values { values: vec![value], place }),
        }
    }
}

/// Whether a word means something as a key.
pub(crate) fn is_word(text: &str) -> bool {
    WORDS.iter().any(|(name, _)| *name == text)
}

/// `ip`, or `caller::ip`.
pub(crate) fn word_of(path: &Path) -> Option<(&'static str, Word, bool)> {
    let find = |ident: &Ident| WORDS.iter().find(|(name, _)| ident == name);
    if let Some(ident) = path.get_ident() {
        return find(ident).map(|(name, word)| (*name, *word, false));
    }
    match (path.segments.first(), path.segments.last()) {
        (Some(first), Some(last)) if path.segments.len() == 2 && first.ident == "caller" => {
            find(&last.ident).map(|(name, word)| (*name, *word, true))
        }
        _ => None,
    }
}
