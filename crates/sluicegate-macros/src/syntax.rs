//! Spans, expressions and the text of tokens: what reading and emitting share.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::parse::ParseStream;
use syn::{Error, Expr};

/// The span of what is generated: its variables are not those of the source.
pub(crate) fn mixed_site() -> Span {
    Span::mixed_site()
}

/// An expression; one that a macro was given, or that is in parentheses, as what it is.
pub(crate) fn parse_expression(input: ParseStream<'_>) -> Result<Expr, Error> {
    input.parse().map(strip_parens)
}

pub(crate) fn strip_parens(expression: Expr) -> Expr {
    match expression {
        Expr::Group(group) => strip_parens(*group.expr),
        Expr::Paren(group) => strip_parens(*group.expr),
        other => other,
    }
}

/// The same tokens, at another place.
pub(crate) fn with_span(tokens: TokenStream, span: Span) -> TokenStream {
    let respan = |mut token: TokenTree| {
        token.set_span(span);
        token
    };
    tokens.into_iter().map(respan).collect()
}

/// Tokens as people write them, nearly.
pub(crate) fn to_source(tokens: &TokenStream) -> String {
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
