//! Parses key templates: `"{user.id}:{params.phone}"`.

use syn::{Error, Expr, LitStr};

/// Text with placeholders for values.
pub(crate) struct Template {
    pub(crate) text: LitStr,
    pub(crate) pieces: Vec<Piece>,
}

pub(crate) enum Piece {
    Text(String),
    Value { source: String, expression: Box<Expr> },
}

impl Template {
    /// Parses a template. All spans are that of the whole string: stable Rust has none for its parts.
    pub(crate) fn read(text: LitStr) -> Result<Self, Error> {
        let value = text.value();
        if value.is_empty() {
            return Err(Error::new(text.span(), "the key is empty: write `\"{argument}\"`"));
        }
        let mut pieces = Vec::new();
        let mut rest = value.as_str();
        while !rest.is_empty() {
            let (piece, after) = next(rest).map_err(|problem| Error::new(text.span(), problem))?;
            rest = after;
            match (piece, pieces.last_mut()) {
                (RawPiece::Text(more), Some(Piece::Value { source, .. }))
                    if more.starts_with('\\') =>
                {
                    return Err(Error::new(
                        text.span(),
                        format!(
                            "a `\\` after a value could be part of the value: write another separator, `{{{source}}}:`"
                        ),
                    ));
                }
                (RawPiece::Text(more), Some(Piece::Text(before))) => before.push_str(more),
                (RawPiece::Text(more), _) => pieces.push(Piece::Text(more.to_owned())),
                (RawPiece::Value(source), Some(Piece::Value { source: before, .. })) => {
                    return Err(Error::new(
                        text.span(),
                        format!(
                            "nothing separates `{{{before}}}` from `{{{source}}}`, so different values could make the same key: write `{{{before}}}:{{{source}}}`"
                        ),
                    ));
                }
                (RawPiece::Value(source), _) => pieces.push(Piece::Value {
                    source: source.to_owned(),
                    expression: Box::new(read_value(source, &text)?),
                }),
            }
        }
        Ok(Self { text, pieces })
    }
}

enum RawPiece<'t> {
    Text(&'t str),
    Value(&'t str),
}

/// Splits off the first piece of a non-empty text, and returns the rest too.
fn next(text: &str) -> Result<(RawPiece<'_>, &str), String> {
    const UNPAIRED: &str = "unmatched brace: write `{{` or `}}` for a literal brace";
    const NESTED: &str =
        "`{…}` can't contain braces: write `key = expression` instead, without quotes";
    for (escape, brace) in [("{{", "{"), ("}}", "}")] {
        if let Some(rest) = text.strip_prefix(escape) {
            return Ok((RawPiece::Text(brace), rest));
        }
    }
    if let Some(rest) = text.strip_prefix('{') {
        let (source, rest) = rest.split_once('}').ok_or(UNPAIRED)?;
        if source.contains('{') {
            return Err(NESTED.to_owned());
        }
        return Ok((RawPiece::Value(source.trim()), rest));
    }
    if text.starts_with('}') {
        return Err(UNPAIRED.to_owned());
    }
    let (literal, rest) = text.split_at(text.find(['{', '}']).unwrap_or(text.len()));
    Ok((RawPiece::Text(literal), rest))
}

fn read_value(source: &str, literal: &LitStr) -> Result<Expr, Error> {
    if source.is_empty() || source.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(Error::new(
            literal.span(),
            format!("`{{{source}}}` names no value: write an argument or a field, `{{user.id}}`"),
        ));
    }
    LitStr::new(source, literal.span()).parse().map_err(|_| {
        let hint = match source.split_once(':') {
            Some((value, _)) => {
                format!("write `{{{value}}}`, without a format")
            }
            None => "write an argument or a field, `{user.id}`".to_owned(),
        };
        Error::new(literal.span(), format!("`{{{source}}}` is not an expression: {hint}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<String>, String> {
        let literal = LitStr::new(text, proc_macro2::Span::call_site());
        let template = Template::read(literal).map_err(|error| error.to_string())?;
        let piece = |piece: Piece| match piece {
            Piece::Text(text) => text,
            Piece::Value { source, .. } => format!("<{source}>"),
        };
        Ok(template.pieces.into_iter().map(piece).collect())
    }

    #[test]
    fn values_and_text_alternate() {
        assert_eq!(read("{a.b}:{self.c.0}").unwrap(), ["<a.b>", ":", "<self.c.0>"]);
        assert_eq!(read("x{{y}}-{ a.b() }!").unwrap(), ["x{y}-", "<a.b()>", "!"]);
        assert_eq!(read("all").unwrap(), ["all"]);
    }

    #[test]
    fn errors_say_what_to_write() {
        for (text, expected) in [
            ("", "the key is empty"),
            ("{a", "unmatched brace"),
            ("a}", "unmatched brace"),
            ("{}", "names no value"),
            ("{0}", "names no value"),
            ("{a:04}", "write `{a}`"),
            ("{a b}", "is not an expression"),
            ("{if a { 1 } else { 2 }}", "write `key = expression`"),
            ("{a}{b}", "write `{a}:{b}`"),
            (r"{a}\{b}", "write another separator, `{a}:`"),
        ] {
            let message = read(text).unwrap_err();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }
}
