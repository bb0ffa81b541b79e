//! Key templates: `"{user.id}:{params.phone}"`.

use syn::{Error, Expr, LitStr};

/// A key as text with places for values.
pub(crate) struct Template {
    pub(crate) text: LitStr,
    pub(crate) pieces: Vec<Piece>,
}

pub(crate) enum Piece {
    Text(String),
    Value { written: String, expression: Box<Expr> },
}

impl Template {
    /// Reads a template. Spans inside of a string can't be told apart: all are the string's.
    pub(crate) fn read(text: LitStr) -> Result<Self, Error> {
        let value = text.value();
        if value.is_empty() {
            return Err(Error::new(text.span(), "an empty key: write `\"{argument}\"`"));
        }
        let mut pieces = Vec::new();
        let mut rest = value.as_str();
        while !rest.is_empty() {
            let (piece, after) = next(rest).map_err(|problem| Error::new(text.span(), problem))?;
            rest = after;
            match (piece, pieces.last_mut()) {
                (Raw::Text(more), Some(Piece::Value { written, .. })) if more.starts_with('\\') => {
                    return Err(Error::new(
                        text.span(),
                        format!(
                            "a `\\` after a value can't be told from one that is part of it: write another separator, `{{{written}}}:`"
                        ),
                    ));
                }
                (Raw::Text(more), Some(Piece::Text(before))) => before.push_str(more),
                (Raw::Text(more), _) => pieces.push(Piece::Text(more.to_owned())),
                (Raw::Value(written), Some(Piece::Value { written: before, .. })) => {
                    return Err(Error::new(
                        text.span(),
                        format!(
                            "nothing stands between `{{{before}}}` and `{{{written}}}`, so nobody could tell where one ends: write `{{{before}}}:{{{written}}}`"
                        ),
                    ));
                }
                (Raw::Value(written), _) => pieces.push(Piece::Value {
                    written: written.to_owned(),
                    expression: Box::new(read_value(written, &text)?),
                }),
            }
        }
        Ok(Self { text, pieces })
    }
}

enum Raw<'t> {
    Text(&'t str),
    Value(&'t str),
}

/// The next piece of a text that is not empty, and what comes after it.
fn next(text: &str) -> Result<(Raw<'_>, &str), String> {
    const UNPAIRED: &str = "a brace without its partner: write `{{` or `}}` for a brace itself";
    const NESTED: &str =
        "braces can't stand inside of `{…}`: write `key = expression` instead, without quotes";
    for (escape, brace) in [("{{", "{"), ("}}", "}")] {
        if let Some(rest) = text.strip_prefix(escape) {
            return Ok((Raw::Text(brace), rest));
        }
    }
    if let Some(rest) = text.strip_prefix('{') {
        let (written, rest) = rest.split_once('}').ok_or(UNPAIRED)?;
        if written.contains('{') {
            return Err(NESTED.to_owned());
        }
        return Ok((Raw::Value(written.trim()), rest));
    }
    if text.starts_with('}') {
        return Err(UNPAIRED.to_owned());
    }
    let (literal, rest) = text.split_at(text.find(['{', '}']).unwrap_or(text.len()));
    Ok((Raw::Text(literal), rest))
}

fn read_value(written: &str, place: &LitStr) -> Result<Expr, Error> {
    if written.is_empty() || written.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(Error::new(
            place.span(),
            format!("`{{{written}}}` names nothing: write an argument or a field, `{{user.id}}`"),
        ));
    }
    LitStr::new(written, place.span()).parse().map_err(|_| {
        let hint = match written.split_once(':') {
            Some((value, _)) => {
                format!("a key has values as they are: write `{{{value}}}`, without a format")
            }
            None => "write an argument or a field, `{user.id}`".to_owned(),
        };
        Error::new(place.span(), format!("`{{{written}}}` is no expression: {hint}"))
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
            Piece::Value { written, .. } => format!("<{written}>"),
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
    fn what_can_t_be_read_says_what_to_write() {
        for (text, expected) in [
            ("", "an empty key"),
            ("{a", "without its partner"),
            ("a}", "without its partner"),
            ("{}", "names nothing"),
            ("{0}", "names nothing"),
            ("{a:04}", "write `{a}`"),
            ("{a b}", "is no expression"),
            ("{if a { 1 } else { 2 }}", "write `key = expression`"),
            ("{a}{b}", "write `{a}:{b}`"),
            (r"{a}\{b}", "write another separator, `{a}:`"),
        ] {
            let message = read(text).unwrap_err();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }
}
