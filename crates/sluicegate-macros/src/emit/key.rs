//! The code that builds the key of a call.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::quote_spanned;
use syn::spanned::Spanned;
use syn::{Error, Expr, LitStr, Path};

use super::context::Context;
use crate::attribute::{LimitOptions, OnMissing};
use crate::function::Parameters;
use crate::key::{Builtin, KeySource, builtin_of, is_builtin};
use crate::syntax::mixed_site;
use crate::template::{Piece, Template};

impl Context<'_> {
    /// Returns an expression of type `Key`. `path` is the item that yields the function's path.
    pub(super) fn key(&self, limit: &LimitOptions, path: &Ident) -> Result<TokenStream, Error> {
        let private = &self.private;
        let parts = match &limit.key {
            KeySource::Method => return Ok(quote_spanned!(mixed_site()=> #private::Key::method())),
            KeySource::Template(template) => template_parts(template, &self.parameters)?,
            KeySource::Values { values, span } => value_parts(values, *span, &self.parameters)?,
        };
        let missing = match limit.missing {
            OnMissing::Shared => quote_spanned!(mixed_site()=> #private::OnMissing::Shared),
            OnMissing::Refuse => quote_spanned!(mixed_site()=> #private::OnMissing::Refuse),
            OnMissing::Skip => quote_spanned!(mixed_site()=> #private::OnMissing::Skip),
        };
        match parts.as_slice() {
            [Part::Builtin(Builtin::Method)] if matches!(limit.key, KeySource::Values { .. }) => {
                return Ok(quote_spanned!(mixed_site()=> #private::Key::method()));
            }
            [Part::Builtin(Builtin::Ip)] => {
                return Ok(quote_spanned!(mixed_site()=> #private::Key::ip(#missing)));
            }
            _ => {}
        }
        let is_joined = parts.len() > 1 && matches!(limit.key, KeySource::Values { .. });
        let new = if is_joined {
            quote_spanned!(mixed_site()=> of_parts())
        } else {
            let separators = Literal::byte_string(&separators(&parts));
            quote_spanned!(mixed_site()=> new(#separators))
        };
        let parts = parts.iter().map(|part| match part {
            Part::Text(text) => quote_spanned!(mixed_site()=> __sluicegate_key.text(#text);),
            Part::Builtin(Builtin::Ip) => quote_spanned!(mixed_site()=> __sluicegate_key.ip();),
            Part::Builtin(Builtin::User) => quote_spanned!(mixed_site()=> __sluicegate_key.user();),
            Part::Builtin(Builtin::Method) => quote_spanned!(mixed_site()=> __sluicegate_key.path(#path());),
            Part::Value(value) => {
                // The span of the value, so that the compiler reports a wrong type there.
                let put = quote_spanned!(value.span().resolved_at(mixed_site())=> put);
                quote_spanned!(mixed_site()=> (&&#private::Component(&(#value))).#put(&mut __sluicegate_key);)
            }
        });
        let parts = parts.map(|part| {
            if !is_joined {
                return part;
            }
            quote_spanned!(mixed_site()=>
                __sluicegate_key.begin_part();
                #part
                __sluicegate_key.end_part();
            )
        });
        Ok(quote_spanned!(mixed_site()=> {
            let mut __sluicegate_key = #private::KeyWriter::#new;
            #(#parts)*
            __sluicegate_key.finish(#missing)
        }))
    }
}

/// A part of a key.
enum Part<'k> {
    Text(&'k str),
    Builtin(Builtin),
    Value(&'k Expr),
}

fn value_parts<'k>(
    values: &'k [Expr],
    span: Span,
    parameters: &Parameters,
) -> Result<Vec<Part<'k>>, Error> {
    let mut parts = Vec::new();
    for value in values {
        let builtin = match value {
            Expr::Path(path) => builtin(&path.path, span, parameters)?,
            _ => None,
        };
        parts.push(builtin.map_or(Part::Value(value), Part::Builtin));
    }
    Ok(parts)
}

/// Returns the built-in part that a path names.
///
/// # Errors
/// Returns an error if the path names an argument too.
fn builtin(path: &Path, span: Span, parameters: &Parameters) -> Result<Option<Builtin>, Error> {
    let Some((name, builtin, is_qualified)) = builtin_of(path) else {
        return Ok(None);
    };
    if !is_qualified && parameters.has(name) {
        let meaning = match builtin {
            Builtin::Ip => "the caller's address",
            Builtin::User => "the caller's user",
            Builtin::Method => "the function itself",
        };
        return Err(Error::new(
            span,
            format!(
                "`{name}` is ambiguous, an argument or {meaning}: write `\"{{{name}}}\"` for the argument, or `caller::{name}` for {meaning}",
            ),
        ));
    }
    Ok(Some(builtin))
}

fn template_parts<'k>(
    template: &'k Template,
    parameters: &Parameters,
) -> Result<Vec<Part<'k>>, Error> {
    if let [Piece::Text(text)] = template.pieces.as_slice() {
        check_text(text, &template.text, parameters)?;
    }
    let part = |piece: &'k Piece| match piece {
        Piece::Text(text) => Ok(Part::Text(text)),
        Piece::Value { source, expression } => {
            if let Expr::Path(path) = expression.as_ref()
                && let Some((name, builtin, is_qualified)) = builtin_of(&path.path)
                && (is_qualified || !parameters.has(name))
            {
                return Ok(Part::Builtin(builtin));
            }
            parameters.check_root(expression).map_err(|problem| {
                Error::new(template.text.span(), format!("`{{{source}}}`: {problem}"))
            })?;
            Ok(Part::Value(expression))
        }
    };
    template.pieces.iter().map(part).collect()
}

/// Rejects literal text where the name of an argument or a built-in part was likely meant.
fn check_text(text: &str, literal: &LitStr, parameters: &Parameters) -> Result<(), Error> {
    let meant = if parameters.has(text) {
        format!("\"{{{text}}}\"")
    } else if is_builtin(text) {
        text.to_owned()
    } else {
        return Ok(());
    };
    Err(Error::new(
        literal.span(),
        format!("this is the literal text `{text}`, one key for all calls: write `key = {meant}`"),
    ))
}

/// Returns the bytes that end a value: the first byte of each text that follows one. Values escape
/// these bytes, so different values never make the same key. A key of one value needs no escapes.
fn separators(parts: &[Part<'_>]) -> Vec<u8> {
    if parts.iter().filter(|part| !matches!(part, Part::Text(_))).count() < 2 {
        return Vec::new();
    }
    let mut separators = vec![b'\\'];
    for pair in parts.windows(2) {
        if let [Part::Builtin(_) | Part::Value(_), Part::Text(text)] = pair
            && let Some(first) = text.bytes().next()
            && !separators.contains(&first)
        {
            separators.push(first);
        }
    }
    separators
}
