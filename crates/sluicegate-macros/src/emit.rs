//! Generates the code that checks the limits before a function runs.
//!
//! The code precedes the body inside the function itself, so that the function keeps its lifetimes,
//! and its future stays `Send` if it was. Only `charge_if`, `refund_if`, `settle` and `pause_on`, which
//! need the result, move the body into a closure or an async block.
//!
//! Every generated name begins with `__sluicegate_`. Variables are hygienic, so the body can't see
//! them. Items are not hygienic: a pattern named like a unit struct, constant or static in scope
//! matches that item instead of binding a variable. The prefix prevents this.

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

/// Inserts the code for `stack` in front of the body of `function`.
pub(crate) fn apply(stack: &Stack, function: &mut ImplItemFn, target: Target) -> Result<(), Error> {
    check_function(function)?;
    if has_ident(function.block.to_token_stream(), check::PATH) {
        return Err(Error::new(
            function.sig.ident.span(),
            "this function is already limited by an attribute under another name, so the two can't decide together: write each as `#[limit]`",
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
    let guarded = match (&stack.call.charge_if, &stack.call.refund_if) {
        (Some(charge_if), _) => context.run_and_charge(charge_if, &statements)?,
        (None, Some(refund_if)) => context.run_and_refund(refund_if, &statements)?,
        (None, None) => context.ask_and_run(&statements)?,
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
    /// Checks the limits, and runs the body if the call is allowed.
    fn ask_and_run(&self, statements: &[Stmt]) -> Result<TokenStream, Error> {
        let private = &self.private;
        let (shadows, mut pauses) = self.shadows()?;
        if self.stack.enforced.is_empty() {
            let never = self.unreachable_denial()?;
            let held =
                quote_spanned!(mixed_site()=> let __sluicegate_held = #private::Held::nothing(););
            let run = self.run_and_settle(statements, &pauses);
            return Ok(quote_spanned!(mixed_site()=> #shadows #never #held #run));
        }
        let check = self.enforced()?;
        pauses.extend(self.pauses(&check));
        let Check { call, keys, ask, .. } = &check;
        let decision = self.decision(call, ask);
        let decided = Self::bind(
            &quote_spanned!(mixed_site()=> (__sluicegate_denied, __sluicegate_held)),
            &check,
            &quote_spanned! {mixed_site()=>
                match #call.ready(&[#(&#keys),*]) {
                    ::core::option::Option::Some(__sluicegate_settled) => (__sluicegate_settled, #private::Held::nothing()),
                    ::core::option::Option::None => #decision,
                }
            },
        );
        let (refuse, run) = (self.return_if_denied()?, self.run_and_settle(statements, &pauses));
        Ok(quote_spanned!(mixed_site()=> #shadows #decided #refuse #run))
    }

    /// Returns the body, and code after it that settles the hold for the usage of the result, and
    /// pauses keys. Without `settle`, the hold is released when the function ends, regardless of how.
    fn run_and_settle(&self, statements: &[Stmt], pauses: &TokenStream) -> TokenStream {
        let settle = self.stack.call.settle.as_ref().map(|settle| &settle.value);
        if settle.is_none() && pauses.is_empty() {
            return quote_spanned!(mixed_site()=> #(#statements)*);
        }
        let settle = settle.map(|settle| {
            quote_spanned!(mixed_site()=> __sluicegate_held.settle(&__sluicegate_result, #settle);)
        });
        let (run, result) = (self.run_body(statements), self.output.result_type());
        quote_spanned! {mixed_site()=>
            let __sluicegate_result: #result = #run;
            #settle
            #pauses
            __sluicegate_result
        }
    }

    /// Checks each shadow limit on its own, and drops the decision: only observers see it. Also
    /// returns the code that pauses their keys.
    fn shadows(&self) -> Result<(TokenStream, TokenStream), Error> {
        let private = &self.private;
        let (mut checks, mut pauses) = (TokenStream::new(), TokenStream::new());
        for (index, shadow) in self.stack.shadows.iter().enumerate() {
            let held = format_ident!("__sluicegate_shadow_{index}", span = mixed_site());
            let check = Check::new(self, &[shadow], index + 1)?;
            let Check { call, keys, ask, .. } = &check;
            let decision = self.decision(call, ask);
            checks.extend(Self::bind(
                &held.to_token_stream(),
                &check,
                &quote_spanned! {mixed_site()=>
                    if #call.ready(&[#(&#keys),*]).is_none() { (#decision).1 } else { #private::Held::nothing() }
                },
            ));
            pauses.extend(self.pauses(&check));
        }
        Ok((checks, pauses))
    }

    /// Binds a check's result. The call and its keys live only as long as the check, unless a pause
    /// after the body needs them.
    fn bind(pattern: &TokenStream, check: &Check, value: &TokenStream) -> TokenStream {
        let Check { items, setup, pauses, .. } = check;
        if pauses.is_empty() {
            return quote_spanned!(mixed_site()=> let #pattern = { #items #setup #value };);
        }
        quote_spanned!(mixed_site()=> #items #setup let #pattern = #value;)
    }

    /// Returns the code after the body that pauses keys of a check by the result, unless the call
    /// asked nothing.
    fn pauses(&self, check: &Check) -> TokenStream {
        let private = &self.private;
        let (pause, awaited) = self.method("pause");
        let Check { call, keys, ask, pauses, .. } = check;
        let pauses = pauses.iter().map(|(index, pause_on)| {
            quote_spanned! {mixed_site()=>
                if let ::core::option::Option::Some(__sluicegate_lasts) =
                    #private::pause_of(&__sluicegate_result, #pause_on)
                {
                    if #call.ready(&[#(&#keys),*]).is_none() {
                        #call.#pause(#ask(), #index, __sluicegate_lasts)#awaited;
                    }
                }
            }
        });
        pauses.collect()
    }

    /// Peeks, runs the body if the call would be allowed, and charges if the predicate holds for the
    /// result.
    fn run_and_charge(
        &self,
        charge_if: &OptionValue<Expr>,
        statements: &[Stmt],
    ) -> Result<TokenStream, Error> {
        let (peek, awaited) = self.method("peek");
        let (charge, _) = self.method("charge");
        let (mut peeks, mut charges) = (TokenStream::new(), TokenStream::new());
        let mut pauses = TokenStream::new();
        for (index, shadow) in self.stack.shadows.iter().enumerate() {
            let check = Check::new(self, &[shadow], index + 1)?;
            pauses.extend(self.pauses(&check));
            let Check { items, setup, call, keys, ask, .. } = check;
            let is_counted = format_ident!("__sluicegate_is_counted_{index}", span = mixed_site());
            peeks.extend(quote_spanned! {mixed_site()=>
                #items
                #setup
                let #is_counted = #call.ready(&[#(&#keys),*]).is_none() && {
                    let __sluicegate_peeked = #call.#peek(#ask())#awaited;
                    __sluicegate_peeked.denied.is_none() && __sluicegate_peeked.is_due
                };
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
            let check = self.enforced()?;
            pauses.extend(self.pauses(&check));
            let Check { items, setup, call, keys, ask, .. } = check;
            let refuse = self.return_if_denied()?;
            peeks.extend(quote_spanned! {mixed_site()=>
                #items
                #setup
                let (__sluicegate_denied, __sluicegate_is_counted) = match #call.ready(&[#(&#keys),*]) {
                    ::core::option::Option::Some(__sluicegate_settled) => (__sluicegate_settled, false),
                    ::core::option::Option::None => {
                        let __sluicegate_peeked = #call.#peek(#ask())#awaited;
                        (__sluicegate_peeked.denied, __sluicegate_peeked.is_due)
                    }
                };
                #refuse
            });
            charges.extend(quote_spanned! {mixed_site()=>
                if __sluicegate_is_counted {
                    #call.#charge(#ask())#awaited;
                }
            });
        }
        Ok(self.run_between(&peeks, statements, charge_if, &charges, &pauses))
    }

    /// Takes, runs the body if the call is allowed, and gives back what it took if the predicate
    /// holds for the result.
    fn run_and_refund(
        &self,
        refund_if: &OptionValue<Expr>,
        statements: &[Stmt],
    ) -> Result<TokenStream, Error> {
        let (take, awaited) = self.method("take");
        let (give_back, _) = self.method("give_back");
        let private = &self.private;
        let (mut takes, mut refunds) = (TokenStream::new(), TokenStream::new());
        let mut pauses = TokenStream::new();
        for (index, shadow) in self.stack.shadows.iter().enumerate() {
            let check = Check::new(self, &[shadow], index + 1)?;
            pauses.extend(self.pauses(&check));
            let Check { items, setup, call, keys, ask, .. } = check;
            let taken = format_ident!("__sluicegate_taken_{index}", span = mixed_site());
            takes.extend(quote_spanned! {mixed_site()=>
                #items
                #setup
                let #taken = match #call.ready(&[#(&#keys),*]) {
                    ::core::option::Option::Some(_) => #private::Taken::nothing(),
                    ::core::option::Option::None => #call.#take(#ask())#awaited.1,
                };
            });
            refunds
                .extend(quote_spanned!(mixed_site()=> #call.#give_back(#ask(), #taken)#awaited;));
        }
        if self.stack.enforced.is_empty() {
            takes.extend(self.unreachable_denial()?);
        } else {
            let check = self.enforced()?;
            pauses.extend(self.pauses(&check));
            let Check { items, setup, call, keys, ask, .. } = check;
            let refuse = self.return_if_denied()?;
            takes.extend(quote_spanned! {mixed_site()=>
                #items
                #setup
                let (__sluicegate_denied, __sluicegate_taken) = match #call.ready(&[#(&#keys),*]) {
                    ::core::option::Option::Some(__sluicegate_settled) => (__sluicegate_settled, #private::Taken::nothing()),
                    ::core::option::Option::None => #call.#take(#ask())#awaited,
                };
                #refuse
            });
            refunds.extend(quote_spanned! {mixed_site()=>
                #call.#give_back(#ask(), __sluicegate_taken)#awaited;
            });
        }
        Ok(self.run_between(&takes, statements, refund_if, &refunds, &pauses))
    }

    /// Runs the body after `before`, then `after` if the predicate holds for the result, and the
    /// pauses.
    fn run_between(
        &self,
        before: &TokenStream,
        statements: &[Stmt],
        predicate: &OptionValue<Expr>,
        after: &TokenStream,
        pauses: &TokenStream,
    ) -> TokenStream {
        let (private, predicate) = (&self.private, &predicate.value);
        let result = self.output.result_type();
        let run = self.run_body(statements);
        quote_spanned! {mixed_site()=>
            #before
            let __sluicegate_result: #result = #run;
            if #private::holds(&__sluicegate_result, #predicate) {
                #after
            }
            #pauses
            __sluicegate_result
        }
    }

    /// Returns the body as an expression: a `return` inside leaves only the body.
    fn run_body(&self, statements: &[Stmt]) -> TokenStream {
        let (private, result) = (&self.private, self.output.result_type());
        if !self.is_async() {
            return quote_spanned!(mixed_site()=> #private::run(move || -> #result { #(#statements)* }));
        }
        quote_spanned! {mixed_site()=>
            async move {
                // Fixes the output type before the compiler infers it from the body.
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

    /// Returns the check of all enforced limits, which decide together.
    fn enforced(&self) -> Result<Check, Error> {
        let enforced: Vec<_> = self.stack.enforced.iter().collect();
        Check::new(self, &enforced, 0)
    }

    /// Returns the code for a denial where all limits are shadows. It never runs, but it compiles, so
    /// removing `shadow` later breaks nothing.
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

    /// Returns an expression for the decision on a check: an `Option<Denied>`, and the hold.
    fn decision(&self, call: &Ident, ask: &Ident) -> TokenStream {
        let private = &self.private;
        let (settle, awaited) = self.method("settle");
        quote_spanned! {mixed_site()=>
            match #call.at_once(#ask()) {
                #private::Answer::Settled(__sluicegate_denied) => (__sluicegate_denied, #private::Held::nothing()),
                __sluicegate_open => #call.#settle(__sluicegate_open, #ask())#awaited,
            }
        }
    }
}
