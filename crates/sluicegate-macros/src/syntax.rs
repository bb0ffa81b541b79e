//! Spans, expressions and the text of tokens: what reading and emitting share.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::parse::ParseStream;
use syn::{Error, Expr};

/// The span of what is generated: its variables are not those of the source.
pub(crate) fn here() -> Span {
    Span::mixed_site()
}

/// An expression; one that a macro was given, or that is in parentheses, as what it is.
pub(crate) fn expression(input: ParseStream<'_>) -> Result<Expr, Error> {
    input.parse().map(ungrouped)
}

pub(crate) fn ungrouped(expression: Expr) -> Expr {
    match expression {
        Expr::Group(group) => ungrouped(*group.expr),
        Expr::Paren(group) => ungrouped(*group.expr),
        other => other,
    }
}

/// The same tokens, at another place.
pub(crate) fn respanned(tokens: TokenStream, place: Span) -> TokenStream {
    let respan = |mut token: TokenTree| {
        token.set_span(place);
        token
    };
    tokens.into_iter().map(respan).collect()
}

/// Tokens as people write them, nearly.
pub(crate) fn printed(tokens: &TokenStream) -> String {
    let text = tokens.to_string();
    let mut printed = text.as_str().to_owned();
    for (spaced, tight) in [
        (" < ", "<"),
        (" <", "<"),
        ("< ", "<"),
        (" >", ">"),
        (" ,", ","),
        (" :: ", "::"),
        ("& ", "&"),
        ("( ", "("),
        (" )", ")"),
        ("[ ", "["),
        (" ]", "]"),
        ("' ", "'"),
        (" ;", ";"),
    ] {
        printed = printed.replace(spaced, tight);
    }
    printed
}
