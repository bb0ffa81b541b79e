//! Helpers for spans, expressions and tokens that parsing and code generation share.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::parse::ParseStream;
use syn::{Error, Expr};

/// Returns the span of generated code, whose local variables the user's code can't see.
pub(crate) fn mixed_site() -> Span {
    Span::mixed_site()
}

/// Parses an expression, without parentheses around it.
pub(crate) fn parse_expression(input: ParseStream<'_>) -> Result<Expr, Error> {
    input.parse().map(strip_parens)
}

/// Returns the expression inside parentheses, and inside the invisible groups that `macro_rules`
/// leaves.
pub(crate) fn strip_parens(expression: Expr) -> Expr {
    match expression {
        Expr::Group(group) => strip_parens(*group.expr),
        Expr::Paren(group) => strip_parens(*group.expr),
        other => other,
    }
}

/// Gives all tokens another span.
pub(crate) fn with_span(tokens: TokenStream, span: Span) -> TokenStream {
    let respan = |mut token: TokenTree| {
        token.set_span(span);
        token
    };
    tokens.into_iter().map(respan).collect()
}

/// Formats tokens as text, spaced nearly as people write them.
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
