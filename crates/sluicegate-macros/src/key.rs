//! What the key of a call is made of.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::parse::ParseStream;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, Lit, LitStr, Path};

use crate::attribute::{Missing, expression, ungrouped};
use crate::emit::here;
use crate::function::Arguments;
use crate::output::printed;
use crate::template::{Piece, Template};

/// A key as it is written.
pub(crate) enum KeySource {
    Method,
    Template(Template),
    Values { values: Vec<Expr>, place: Span },
}

/// Parts of keys that have a word.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Word {
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

    /// The code that makes the key, a value of the type `Key`. `path` is the item by which the
    /// function's path is known.
    pub(crate) fn expand(
        &self,
        missing: Missing,
        arguments: &Arguments,
        path: &Ident,
        private: &TokenStream,
    ) -> Result<TokenStream, Error> {
        let pieces = match self {
            Self::Method => return Ok(quote_spanned!(here()=> #private::Key::method())),
            Self::Values { values, .. } => match values.as_slice() {
                [Expr::Path(path)] if self.word(&path.path, arguments)? == Some(Word::Method) => {
                    return Ok(quote_spanned!(here()=> #private::Key::method()));
                }
                values => self.values(values, arguments)?,
            },
            Self::Template(template) => template_pieces(template, arguments)?,
        };
        let missing = match missing {
            Missing::Shared => quote_spanned!(here()=> #private::OnMissing::Shared),
            Missing::Refuse => quote_spanned!(here()=> #private::OnMissing::Refuse),
            Missing::Skip => quote_spanned!(here()=> #private::OnMissing::Skip),
        };
        if let [Part::Word(Word::Ip)] = pieces.as_slice() {
            return Ok(quote_spanned!(here()=> #private::Key::ip(#missing)));
        }
        let separators = proc_macro2::Literal::byte_string(&separators(&pieces));
        let parts = pieces.iter().map(|piece| match piece {
            Part::Text(text) => quote_spanned!(here()=> __sluicegate_key.text(#text);),
            Part::Word(Word::Ip) => quote_spanned!(here()=> __sluicegate_key.ip();),
            Part::Word(Word::User) => quote_spanned!(here()=> __sluicegate_key.user();),
            Part::Word(Word::Method) => quote_spanned!(here()=> __sluicegate_key.path(#path());),
            Part::Value(value) => {
                // What can't be part of a key is reported where the value stands.
                let put = quote_spanned!(value.span().resolved_at(here())=> put);
                quote_spanned!(here()=> (&&#private::Component(&(#value))).#put(&mut __sluicegate_key);)
            }
        });
        Ok(quote_spanned!(here()=> {
            let mut __sluicegate_key = #private::KeyWriter::new(#separators);
            #(#parts)*
            __sluicegate_key.finish(#missing)
        }))
    }

    fn values<'k>(
        &'k self,
        values: &'k [Expr],
        arguments: &Arguments,
    ) -> Result<Vec<Part<'k>>, Error> {
        let mut parts = Vec::new();
        for value in values {
            if !parts.is_empty() {
                parts.push(Part::Text(":"));
            }
            let word = match value {
                Expr::Path(path) => self.word(&path.path, arguments)?,
                _ => None,
            };
            parts.push(word.map_or(Part::Value(value), Part::Word));
        }
        Ok(parts)
    }

    /// The word that a path is, if it is none of the arguments.
    fn word(&self, path: &Path, arguments: &Arguments) -> Result<Option<Word>, Error> {
        let Some((name, word, is_qualified)) = word_of(path) else {
            return Ok(None);
        };
        if !is_qualified && arguments.has(name) {
            let whose = match word {
                Word::Method => "the function itself",
                Word::Ip | Word::User => "whom the code runs for",
            };
            let place = match self {
                Self::Values { place, .. } => *place,
                _ => path.span(),
            };
            return Err(Error::new(
                place,
                format!(
                    "`{name}` is an argument, and as a key the word means {whose}: write `\"{{{name}}}\"` for the argument, or `caller::{name}` for the other",
                ),
            ));
        }
        Ok(Some(word))
    }
}

/// A part of a key.
enum Part<'k> {
    Text(&'k str),
    Word(Word),
    Value(&'k Expr),
}

fn template_pieces<'k>(
    template: &'k Template,
    arguments: &Arguments,
) -> Result<Vec<Part<'k>>, Error> {
    if let [Piece::Text(text)] = template.pieces.as_slice() {
        check_text(text, &template.text, arguments)?;
    }
    let part = |piece: &'k Piece| match piece {
        Piece::Text(text) => Ok(Part::Text(text)),
        Piece::Value { written, expression } => {
            if let Expr::Path(path) = expression.as_ref()
                && let Some((name, word, is_qualified)) = word_of(&path.path)
                && (is_qualified || !arguments.has(name))
            {
                return Ok(Part::Word(word));
            }
            arguments.check(expression).map_err(|problem| {
                Error::new(template.text.span(), format!("`{{{written}}}`: {problem}"))
            })?;
            Ok(Part::Value(expression))
        }
    };
    template.pieces.iter().map(part).collect()
}

/// Refuses a text without values where a value was meant.
fn check_text(text: &str, place: &LitStr, arguments: &Arguments) -> Result<(), Error> {
    let meant = if arguments.has(text) {
        format!("\"{{{text}}}\"")
    } else if is_word(text) {
        text.to_owned()
    } else {
        return Ok(());
    };
    Err(Error::new(
        place.span(),
        format!("this is the text `{text}`, one key for all callers: write `key = {meant}`"),
    ))
}

/// Whether a word means something as a key.
pub(crate) fn is_word(text: &str) -> bool {
    WORDS.iter().any(|(name, _)| *name == text)
}

/// `ip`, or `caller::ip`.
fn word_of(path: &Path) -> Option<(&'static str, Word, bool)> {
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

/// The bytes by which a value's end is known: the first ones of the texts that stand after
/// values. Inside of a value they are escaped, so that different values never make one key. A
/// value alone, which nothing could be confused with, stays as it is.
fn separators(parts: &[Part<'_>]) -> Vec<u8> {
    if parts.iter().filter(|part| !matches!(part, Part::Text(_))).count() < 2 {
        return Vec::new();
    }
    let mut separators = vec![b'\\'];
    for pair in parts.windows(2) {
        if let [Part::Word(_) | Part::Value(_), Part::Text(text)] = pair
            && let Some(first) = text.bytes().next()
            && !separators.contains(&first)
        {
            separators.push(first);
        }
    }
    separators
}
