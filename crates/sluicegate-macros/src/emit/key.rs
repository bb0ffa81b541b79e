//! The code that makes the key of a call.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::quote_spanned;
use syn::spanned::Spanned;
use syn::{Error, Expr, LitStr, Path};

use super::context::Context;
use crate::attribute::{Limit, Missing};
use crate::function::Arguments;
use crate::key::{KeySource, Word, is_word, word_of};
use crate::syntax::here;
use crate::template::{Piece, Template};

impl Context<'_> {
    /// The code that makes the key, a value of the type `Key`. `path` is the item by which the
    /// function's path is known.
    pub(super) fn key(&self, limit: &Limit, path: &Ident) -> Result<TokenStream, Error> {
        let private = &self.private;
        let parts = match &limit.key {
            KeySource::Method => return Ok(quote_spanned!(here()=> #private::Key::method())),
            KeySource::Template(template) => template_parts(template, &self.arguments)?,
            KeySource::Values { values, place } => value_parts(values, *place, &self.arguments)?,
        };
        let missing = match limit.missing {
            Missing::Shared => quote_spanned!(here()=> #private::OnMissing::Shared),
            Missing::Refuse => quote_spanned!(here()=> #private::OnMissing::Refuse),
            Missing::Skip => quote_spanned!(here()=> #private::OnMissing::Skip),
        };
        match parts.as_slice() {
            [Part::Word(Word::Method)] if matches!(limit.key, KeySource::Values { .. }) => {
                return Ok(quote_spanned!(here()=> #private::Key::method()));
            }
            [Part::Word(Word::Ip)] => {
                return Ok(quote_spanned!(here()=> #private::Key::ip(#missing)));
            }
            _ => {}
        }
        let separators = Literal::byte_string(&separators(&parts));
        let parts = parts.iter().map(|part| match part {
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
}

/// A part of a key.
enum Part<'k> {
    Text(&'k str),
    Word(Word),
    Value(&'k Expr),
}

fn value_parts<'k>(
    values: &'k [Expr],
    place: Span,
    arguments: &Arguments,
) -> Result<Vec<Part<'k>>, Error> {
    let mut parts = Vec::new();
    for value in values {
        if !parts.is_empty() {
            parts.push(Part::Text(":"));
        }
        let word = match value {
            Expr::Path(path) => word(&path.path, place, arguments)?,
            _ => None,
        };
        parts.push(word.map_or(Part::Value(value), Part::Word));
    }
    Ok(parts)
}

/// The word that a path is, if it is none of the arguments.
fn word(path: &Path, place: Span, arguments: &Arguments) -> Result<Option<Word>, Error> {
    let Some((name, word, is_qualified)) = word_of(path) else {
        return Ok(None);
    };
    if !is_qualified && arguments.has(name) {
        let whose = match word {
            Word::Method => "the function itself",
            Word::Ip | Word::User => "whom the code runs for",
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

fn template_parts<'k>(
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
