//! The code that asks before a function runs.
//!
//! It is put in front of the body, in the function itself, so that whatever holds of the function
//! (its lifetimes, whether its future is `Send`) holds as before. Only `charge_if`, which has to
//! see the result, puts the body into a closure or an async block.
//!
//! Every name begins with `__sluicegate_`. Variables are hygienic, so that the body sees none of
//! them; but a pattern that has the name of a unit struct, a constant or a static in scope is
//! that item and no variable, and hygiene doesn't keep items apart.

mod check;
mod context;
mod denial;
mod key;

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote_spanned};
use syn::{Error, Expr, ImplItemFn, Stmt};

use crate::attribute::OptionValue;
use crate::function::{Parameters, check_function};
use crate::output::Output;
use crate::stack::Stack;
use crate::syntax::mixed_site;

pub(crate) use context::Target;

use check::Check;
use context::Context;

/// Puts what `stack` asks in front of a function.
pub(crate) fn apply(stack: &Stack, function: &mut ImplItemFn, target: Target) -> Result<(), Error> {
    check_function(function)?;
    if has_ident(function.block.to_token_stream(), check::PATH) {
        return Err(Error::new(
            function.sig.ident.span(),
            "another attribute has limited this function already, so that the two can't be one decision: call each of them `limit`, which is how they find each other",
        ));
    }
    let crate_path = match &stack.call.crate_path {
        Some(path) => path.value.to_token_stream(),
        None => quote_spanned!(mixed_site()=> ::sluicegate),
    };
    let context = Context {
        stack,
        parameters: Parameters::of(&function.sig),
        output: Output::of(function),
        target,
        private: quote_spanned!(mixed_site()=> #crate_path::__private),
    };
    let body = context.output.body(function)?;
    let statements = std::mem::take(&mut body.stmts);
    let guarded = match &stack.call.charge_if {
        None => context.ask_and_run(&statements)?,
        Some(charge_if) => context.run_and_charge(charge_if, &statements)?,
    };
    body.stmts = vec![Stmt::Expr(Expr::Verbatim(guarded), None)];
    Ok(())
}

fn has_ident(tokens: TokenStream, name: &str) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == name,
        TokenTree::Group(group) => has_ident(group.stream(), name),
        _ => false,
    })
}

impl Context<'_> {
    /// Asks, and runs the body if that is allowed.
    fn ask_and_run(&self, statements: &[Stmt]) -> Result<TokenStream, Error> {
        let shadows = self.shadows()?;
        if self.stack.enforced.is_empty() {
            let never = self.unreachable_denial()?;
            return Ok(quote_spanned!(mixed_site()=> #shadows #never #(#statements)*));
        }
        let Check { items, setup, call, keys, ask } = self.enforced()?;
        let decision = self.decision(&call, &ask);
        let refuse = self.return_if_denied()?;
        Ok(quote_spanned! {mixed_site()=>
            #shadows
            let __sluicegate_denied = {
                #items
                #setup
                match #call.ready(&[#(&#keys),*]) {
                    ::core::option::Option::Some(__sluicegate_settled) => __sluicegate_settled,
                    ::core::option::Option::None => #decision,
                }
            };
            #refuse
            #(#statements)*
        })
    }

    /// Asks each shadow by itself, as if it were alone, and its answer is for the observers.
    fn shadows(&self) -> Result<TokenStream, Error> {
        let shadows = self.stack.shadows.iter().map(|shadow| {
            let Check { items, setup, call, keys, ask } = Check::new(self, &[shadow], 0)?;
            let decision = self.decision(&call, &ask);
            Ok(quote_spanned! {mixed_site()=>
                {
                    #items
                    #setup
                    if #call.ready(&[#(&#keys),*]).is_none() {
                        let _ = #decision;
                    }
                }
            })
        });
        shadows.collect()
    }

    /// Looks whether it would be allowed, runs the body, and charges if the result is such.
    fn run_and_charge(
        &self,
        charge_if: &OptionValue<Expr>,
        statements: &[Stmt],
    ) -> Result<TokenStream, Error> {
        let (peek, awaited) = self.method("peek");
        let (charge, _) = self.method("charge");
        let (private, predicate) = (&self.private, &charge_if.value);
        let (mut peeks, mut charges) = (TokenStream::new(), TokenStream::new());
        for (index, shadow) in self.stack.shadows.iter().enumerate() {
            let Check { items, setup, call, keys, ask } = Check::new(self, &[shadow], index + 1)?;
            let is_counted = format_ident!("__sluicegate_is_counted_{index}", span = mixed_site());
            peeks.extend(quote_spanned! {mixed_site()=>
                #items
                #setup
                let #is_counted = #call.ready(&[#(&#keys),*]).is_none()
                    && #call.#peek(#ask())#awaited.is_none();
            });
            charges.extend(quote_spanned! {mixed_site()=>
                if #is_counted {
                    #call.#charge(#ask())#awaited;
                }
            });
        }
        if self.stack.enforced.is_empty() {
            peeks.extend(self.unreachable_denial()?);
        } else {
            let Check { items, setup, call, keys, ask } = self.enforced()?;
            let refuse = self.return_if_denied()?;
            peeks.extend(quote_spanned! {mixed_site()=>
                #items
                #setup
                let (__sluicegate_denied, __sluicegate_is_counted) = match #call.ready(&[#(&#keys),*]) {
                    ::core::option::Option::Some(__sluicegate_settled) => (__sluicegate_settled, false),
                    ::core::option::Option::None => (#call.#peek(#ask())#awaited, true),
                };
                #refuse
            });
            charges.extend(quote_spanned! {mixed_site()=>
                if __sluicegate_is_counted {
                    #call.#charge(#ask())#awaited;
                }
            });
        }
        let result = self.output.result_type();
        let run = self.run_body(statements);
        Ok(quote_spanned! {mixed_site()=>
            #peeks
            let __sluicegate_result: #result = #run;
            if #private::holds(&__sluicegate_result, #predicate) {
                #charges
            }
            __sluicegate_result
        })
    }

    /// The body as an expression, in which a `return` ends only the body.
    fn run_body(&self, statements: &[Stmt]) -> TokenStream {
        let (private, result) = (&self.private, self.output.result_type());
        if !self.is_async() {
            return quote_spanned!(mixed_site()=> #private::run(move || -> #result { #(#statements)* }));
        }
        quote_spanned! {mixed_site()=>
            async move {
                // Says what it returns before its body is looked at.
                #[allow(unreachable_code, clippy::all, clippy::pedantic)]
                if false {
                    let __sluicegate_never: #result = loop {};
                    return __sluicegate_never;
                }
                #(#statements)*
            }
            .await
        }
    }

    /// What is decided together.
    fn enforced(&self) -> Result<Check, Error> {
        let enforced: Vec<_> = self.stack.enforced.iter().collect();
        Check::new(self, &enforced, 0)
    }

    /// Where nothing is enforced: what a denied call would do is there, for the day on which
    /// `shadow` goes.
    fn unreachable_denial(&self) -> Result<TokenStream, Error> {
        if !self.stack.call.handles_denial() {
            return Ok(TokenStream::new());
        }
        let (private, refuse) = (&self.private, self.return_if_denied()?);
        Ok(quote_spanned! {mixed_site()=>
            let __sluicegate_denied: ::core::option::Option<#private::Denied> = ::core::option::Option::None;
            #refuse
        })
    }

    /// The answer to a question: a denial, or none.
    fn decision(&self, call: &Ident, ask: &Ident) -> TokenStream {
        let private = &self.private;
        let (settle, awaited) = self.method("settle");
        quote_spanned! {mixed_site()=>
            match #call.at_once(#ask()) {
                #private::Answer::Settled(__sluicegate_denied) => __sluicegate_denied,
                __sluicegate_open => #call.#settle(__sluicegate_open, #ask())#awaited,
            }
        }
    }
}
