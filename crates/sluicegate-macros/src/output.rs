//! The return type of a function, the place of its body, and the conversion of a denial into its
//! result.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    Block, Error, Expr, GenericArgument, ImplItemFn, PathArguments, ReturnType, Stmt, Type,
    TypeParamBound,
};

use crate::syntax::{mixed_site, to_source, with_span};

/// The way in which a function runs its body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Asyncness {
    Sync,
    Async,
    /// Not `async`, but ends with an async block that it returns. Macros such as `#[async_trait]`
    /// generate such functions.
    Future,
}

/// The result of a function; of a function that returns a future, the future's output.
pub(crate) struct Output {
    pub(crate) asyncness: Asyncness,
    /// `None` for a function without a return type.
    pub(crate) result: Option<Type>,
    function: syn::Ident,
    span: Span,
}

impl Output {
    pub(crate) fn of(function: &ImplItemFn) -> Self {
        let name = function.sig.ident.clone();
        let returned = match &function.sig.output {
            ReturnType::Default => None,
            ReturnType::Type(_, returned) => Some(returned.as_ref()),
        };
        let span = returned.map_or(name.span(), Spanned::span);
        if function.sig.asyncness.is_some() {
            let result = returned.cloned();
            return Self { asyncness: Asyncness::Async, result, function: name, span };
        }
        let of_future = returned.and_then(future_output);
        let asyncness = if of_future.is_some() { Asyncness::Future } else { Asyncness::Sync };
        let result = of_future.or(returned).cloned();
        Self { asyncness, result, function: name, span }
    }

    /// Returns the block to run after the check of the limits.
    pub(crate) fn body<'f>(&self, function: &'f mut ImplItemFn) -> Result<&'f mut Block, Error> {
        if self.asyncness != Asyncness::Future {
            return Ok(&mut function.block);
        }
        let last = match function.block.stmts.last_mut() {
            Some(Stmt::Expr(last, None)) => async_block(last),
            _ => None,
        };
        last.ok_or_else(|| {
            Error::new(
                self.span,
                format!(
                    "`{0}` returns a future of another function, so the limit can't check it: write `async fn {0}`, or end with `async move {{ … }}` or `Box::pin(async move {{ … }})`",
                    self.function
                ),
            )
        })
    }

    /// Returns the result type for a type annotation inside the function: with `_` for each `impl
    /// Trait`.
    pub(crate) fn result_type(&self) -> TokenStream {
        match &self.result {
            None => quote_spanned!(mixed_site()=> ()),
            Some(result) => erase_impl_trait(result.clone()).into_token_stream(),
        }
    }

    /// Returns an expression that converts the variable `denied`, a `Denied`, into the result type.
    pub(crate) fn convert_denied(
        &self,
        denied: &syn::Ident,
        private: &TokenStream,
        in_impl: bool,
    ) -> Result<TokenStream, Error> {
        if let Some(result) = self.result.as_ref().filter(|result| may_be_from_denied(result)) {
            let span = result.span().resolved_at(mixed_site());
            let private = with_span(private.clone(), span);
            return Ok(quote_spanned!(span=> #private::FromDenied::from_denied(#denied)));
        }
        Err(self.no_denied_result(in_impl))
    }

    fn no_denied_result(&self, in_impl: bool) -> Error {
        let function = &self.function;
        let returned = self.result.as_ref().map(|result| to_source(&result.to_token_stream()));
        let (what, result) = match &returned {
            None => ("returns nothing".to_owned(), "()"),
            Some(result) => (format!("returns `{result}`"), result.as_str()),
        };
        let inner = match result.strip_prefix("Option<") {
            Some(inner) => inner.strip_suffix('>').unwrap_or(inner),
            None => result,
        };
        let example = if result.starts_with("Option<") { "None" } else { "…" };
        let (arrow, value) = (format!("-> Result<{inner}, E>"), format!("denied = {example}"));
        let width = arrow.len().max("fallback = path".len());
        let mut message = format!(
            "`{function}` {what}, which can't report a denied call\n\
             write one of these:\n\
             \x20 {arrow:width$}  where `E: From<sluicegate::Denied>`: a denied call returns `Err(E::from(denied))`\n\
             \x20 {:width$}  a function to call instead; `fallback(args) = path` passes the arguments\n\
             \x20 {value:width$}  the value that a denied call returns",
            "fallback = path",
        );
        if in_impl {
            message.push_str("\nor `#[limit(skip)]` on a method that needs no limit");
        }
        Error::new(self.span, message)
    }
}

/// Returns whether a type may implement `FromDenied`: false for common types that don't. For all
/// others the compiler decides.
fn may_be_from_denied(result: &Type) -> bool {
    match result {
        Type::Paren(inner) => may_be_from_denied(&inner.elem),
        Type::Group(inner) => may_be_from_denied(&inner.elem),
        Type::Macro(_) | Type::Verbatim(_) => true,
        Type::Path(path) => {
            let Some(last) = path.path.segments.last() else {
                return true;
            };
            const NEVER: [&str; 28] = [
                "bool", "char", "f32", "f64", "i8", "i16", "i32", "i64", "i128", "isize", "str",
                "u8", "u16", "u32", "u64", "u128", "usize", "String", "Vec", "Option", "Box", "Rc",
                "Arc", "HashMap", "HashSet", "BTreeMap", "BTreeSet", "Duration",
            ];
            !NEVER.iter().any(|name| last.ident == name)
        }
        _ => false,
    }
}

/// Returns the output of a type that looks like a future.
fn future_output(returned: &Type) -> Option<&Type> {
    match returned {
        Type::ImplTrait(bounds) => bounds.bounds.iter().find_map(bound_output),
        Type::TraitObject(bounds) => bounds.bounds.iter().find_map(bound_output),
        Type::Paren(inner) => future_output(&inner.elem),
        Type::Path(path) => {
            let last = path.path.segments.last()?;
            let PathArguments::AngleBracketed(arguments) = &last.arguments else {
                return None;
            };
            let inner = arguments.args.iter().find_map(|argument| match argument {
                GenericArgument::Type(inner) => Some(inner),
                _ => None,
            })?;
            match last.ident.to_string().as_str() {
                "Pin" | "Box" => future_output(inner),
                "BoxFuture" | "LocalBoxFuture" => Some(inner),
                _ => None,
            }
        }
        _ => None,
    }
}

fn bound_output(bound: &TypeParamBound) -> Option<&Type> {
    let TypeParamBound::Trait(bound) = bound else {
        return None;
    };
    let last = bound.path.segments.last().filter(|last| last.ident == "Future")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return None;
    };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::AssocType(output) if output.ident == "Output" => Some(&output.ty),
        _ => None,
    })
}

/// Returns the block of `async move { … }`, `Box::pin(async move { … })` or `async move { …
/// }.boxed()`.
fn async_block(expression: &mut Expr) -> Option<&mut Block> {
    match expression {
        Expr::Async(block) => Some(&mut block.block),
        Expr::Paren(inner) => async_block(&mut inner.expr),
        Expr::MethodCall(call) => async_block(&mut call.receiver),
        Expr::Call(call) => {
            let is_pin = matches!(call.func.as_ref(), Expr::Path(path)
                if path.path.segments.last().is_some_and(|last| last.ident == "pin"));
            call.args.first_mut().filter(|_| is_pin).and_then(async_block)
        }
        _ => None,
    }
}

/// Replaces each `impl Trait` by `_`.
fn erase_impl_trait(mut written: Type) -> Type {
    fn erase(written: &mut Type) {
        match written {
            Type::ImplTrait(bounds) => {
                *written = Type::Infer(syn::TypeInfer {
                    attrs: Vec::new(),
                    underscore_token: syn::token::Underscore(bounds.impl_token.span),
                });
            }
            Type::Path(path) => {
                for segment in &mut path.path.segments {
                    if let PathArguments::AngleBracketed(arguments) = &mut segment.arguments {
                        for argument in &mut arguments.args {
                            if let GenericArgument::Type(inner) = argument {
                                erase(inner);
                            }
                        }
                    }
                }
            }
            Type::Tuple(tuple) => tuple.elems.iter_mut().for_each(erase),
            Type::Reference(inner) => erase(&mut inner.elem),
            Type::Paren(inner) => erase(&mut inner.elem),
            Type::Array(inner) => erase(&mut inner.elem),
            _ => {}
        }
    }
    erase(&mut written);
    written
}
