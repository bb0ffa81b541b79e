//! Expands an attribute and its item.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::parse::{ParseStream, Parser};
use syn::{Error, ImplItem, ImplItemFn, ItemImpl, Token, Visibility};

use crate::attribute::{Attribute, LimitOptions};
use crate::emit::{self, Target};
use crate::stack::{self, Stack};

/// Returns the item with the attribute applied, or on an error the unchanged item and the error.
pub(crate) fn limit(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let first = Attribute::read(arguments, Span::call_site());
    match expand(first, item.clone()) {
        Ok(expanded) => expanded,
        Err(error) => {
            let errors = error.into_compile_error();
            let item = without_attributes(item);
            // The compiler would report arguments that only the attribute uses as unused.
            quote!(#errors #[allow(unused)] #item)
        }
    }
}

fn expand(first: Result<Attribute, Error>, item: TokenStream) -> Result<TokenStream, Error> {
    match parse_item.parse2(item)? {
        Item::Function(mut function) => {
            let stack = read_stack(first, &mut function.attrs)?;
            emit::apply(&stack, &mut function, Target::Function)?;
            Ok(function.into_token_stream())
        }
        Item::Impl(mut block) => {
            let stack = read_stack(first, &mut block.attrs)?;
            apply_to_methods(&stack, &mut block)?;
            Ok(block.into_token_stream())
        }
    }
}

fn read_stack(
    first: Result<Attribute, Error>,
    attributes: &mut Vec<syn::Attribute>,
) -> Result<Stack, Error> {
    let others = stack::take_attributes(attributes);
    let all = match (first, others) {
        (Ok(first), Ok(others)) => std::iter::once(first).chain(others),
        (Err(mut error), Err(other)) => {
            error.combine(other);
            return Err(error);
        }
        (Err(error), Ok(_)) | (Ok(_), Err(error)) => return Err(error),
    };
    let limits: Result<Vec<LimitOptions>, Error> = all
        .map(|attribute| match attribute {
            Attribute::Limit(limit) => Ok(*limit),
            Attribute::Skip(span) => Err(Error::new(
                span,
                "`#[limit(skip)]` exempts a method from the attribute on its impl block, and there is none here: remove it",
            )),
        })
        .collect();
    Stack::new(limits?)
}

/// Applies the attribute of an impl block to its methods. A method with an attribute of its own keeps
/// that. A method that the attribute calls stays unlimited, because a limited fallback would be
/// denied in turn.
fn apply_to_methods(stack: &Stack, block: &mut ItemImpl) -> Result<(), Error> {
    let mut errors: Option<Error> = None;
    let mut limited = 0_usize;
    let of = &block.self_ty;
    for item in &mut block.items {
        let ImplItem::Fn(method) = item else {
            continue;
        };
        let applied = if stack::has_attribute(&method.attrs) {
            limited += 1;
            remove_skip(method)
        } else if method.sig.constness.is_some() || stack.call.calls(&method.sig.ident, of) {
            Ok(())
        } else {
            limited += 1;
            emit::apply(stack, method, Target::ImplBlock)
        };
        match (applied, &mut errors) {
            (Ok(()), _) => {}
            (Err(error), Some(errors)) => errors.combine(error),
            (Err(error), none) => *none = Some(error),
        }
    }
    if limited == 0 && errors.is_none() {
        return Err(Error::new(
            block.impl_token.span,
            "this impl block has no function to limit: remove the attribute",
        ));
    }
    errors.map_or(Ok(()), Err)
}

/// Removes `#[limit(skip)]` from a method. Any other attribute of its own takes precedence over that
/// of the block, and expands by itself.
fn remove_skip(method: &mut ImplItemFn) -> Result<(), Error> {
    let mut others = method.attrs.clone();
    let taken = stack::take_attributes(&mut others)?;
    match taken.as_slice() {
        [Attribute::Skip(_)] => {
            method.attrs = others;
            Ok(())
        }
        several => {
            let skip = several.iter().find_map(|attribute| match attribute {
                Attribute::Skip(span) => Some(*span),
                Attribute::Limit(_) => None,
            });
            skip.map_or(Ok(()), |span| {
                Err(Error::new(
                    span,
                    "this method is both exempt and limited: keep one of its attributes",
                ))
            })
        }
    }
}

enum Item {
    Function(ImplItemFn),
    Impl(ItemImpl),
}

fn parse_item(input: ParseStream<'_>) -> Result<Item, Error> {
    let ahead = input.fork();
    ahead.call(syn::Attribute::parse_outer)?;
    ahead.parse::<Visibility>()?;
    let is_default = ahead.peek(Token![default]) && !ahead.peek2(Token![!]);
    if is_default {
        ahead.parse::<Token![default]>()?;
    }
    let is_impl =
        ahead.peek(Token![impl]) || (ahead.peek(Token![unsafe]) && ahead.peek2(Token![impl]));
    if is_impl {
        return input.parse().map(Item::Impl);
    }
    let span = ahead.span();
    if ahead.parse::<syn::Signature>().is_err() {
        let what = match ahead.cursor().token_tree() {
            Some((TokenTree::Ident(word), _)) => format!("`{word}`"),
            _ => "this".to_owned(),
        };
        return Err(Error::new(
            span,
            format!("put `#[limit]` on a function, a method or an `impl` block, not on {what}"),
        ));
    }
    if ahead.peek(Token![;]) {
        return Err(Error::new(
            span,
            "this function has no body to limit: put the attribute on its implementations",
        ));
    }
    input.parse().map(Item::Function)
}

/// Returns the item without its other `#[limit]` attributes, which would report errors of their own.
fn without_attributes(item: TokenStream) -> TokenStream {
    match parse_item.parse2(item.clone()) {
        Ok(Item::Function(mut function)) => {
            let _ = stack::take_attributes(&mut function.attrs);
            function.into_token_stream()
        }
        Ok(Item::Impl(mut block)) => {
            let _ = stack::take_attributes(&mut block.attrs);
            for item in &mut block.items {
                if let ImplItem::Fn(method) = item {
                    let _ = stack::take_attributes(&mut method.attrs);
                }
            }
            block.into_token_stream()
        }
        Err(_) => item,
    }
}
