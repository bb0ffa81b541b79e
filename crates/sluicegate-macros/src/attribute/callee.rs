//! Functions that an attribute names for a denied or failed call.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::parse::ParseStream;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprPath, Ident, Member, Token, Type};

use crate::syntax::{parse_expression, strip_parens};

/// A function to call in place of the limited one.
pub(crate) enum Callee {
    Path(ExprPath),
    /// `self.name`.
    Method {
        receiver: Expr,
        name: Member,
    },
}

const EXPECTED: &str = "write the path of a function, or a method as `self.method`";

impl Callee {
    pub(super) fn read(value: Expr) -> Result<Self, Error> {
        let value = strip_parens(value);
        let hint = match value {
            Expr::Path(path) => return Ok(Self::Path(path)),
            Expr::Field(field) if is_self(&field.base) => {
                return Ok(Self::Method { receiver: *field.base, name: field.member });
            }
            Expr::Call(_) | Expr::MethodCall(_) => {
                ", without calling it; to pass the arguments, write `(args)` before the `=`"
            }
            Expr::Await(_) => ", without `.await`: a future that it returns is awaited",
            Expr::Lit(_) => ", without quotes",
            Expr::Closure(_) => "; to return a value, write `denied = expression`",
            _ => "",
        };
        Err(Error::new(value.span(), format!("{EXPECTED}{hint}")))
    }

    /// Parses one callee, or several in brackets.
    pub(super) fn read_all(input: ParseStream<'_>) -> Result<Vec<Self>, Error> {
        match parse_expression(input)? {
            Expr::Array(array) if array.elems.is_empty() => {
                Err(Error::new(array.span(), "name a handler: `on_error = [handler]`"))
            }
            Expr::Array(array) => array.elems.into_iter().map(Self::read).collect(),
            one => Ok(vec![Self::read(one)?]),
        }
    }

    pub(crate) fn span(&self) -> Span {
        match self {
            Self::Path(path) => path.span(),
            Self::Method { name, .. } => name.span(),
        }
    }

    pub(crate) const fn is_method(&self) -> bool {
        matches!(self, Self::Method { .. })
    }

    /// Returns whether this is `method` of the type `of`: `self.method`, `Self::method` or
    /// `Type::method`.
    pub(crate) fn is_method_of(&self, method: &Ident, of: &Type) -> bool {
        self.is_own_method(method)
            || matches!((self, of), (Self::Path(path), Type::Path(of))
                if of.path.segments.iter().map(|segment| &segment.ident).chain([method])
                    .eq(path.path.segments.iter().map(|segment| &segment.ident)))
    }

    /// Returns whether this is `self.method` or `Self::method`.
    pub(crate) fn is_own_method(&self, method: &Ident) -> bool {
        match self {
            Self::Path(path) => {
                let segments = &path.path.segments;
                segments.len() == 2 && segments[0].ident == "Self" && segments[1].ident == *method
            }
            Self::Method { name, .. } => matches!(name, Member::Named(name) if name == method),
        }
    }

    /// Returns whether this is the bare name of `function`, without a path.
    pub(crate) fn is_named(&self, function: &Ident) -> bool {
        matches!(self, Self::Path(path) if path.path.is_ident(function))
    }
}

impl ToTokens for Callee {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            Self::Path(path) => path.to_tokens(tokens),
            Self::Method { receiver, name } => {
                receiver.to_tokens(tokens);
                <Token![.]>::default().to_tokens(tokens);
                name.to_tokens(tokens);
            }
        }
    }
}

fn is_self(expression: &Expr) -> bool {
    matches!(expression, Expr::Path(path) if path.path.is_ident("self"))
}
