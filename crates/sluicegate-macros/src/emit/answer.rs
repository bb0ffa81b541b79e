//! What happens to a denied call.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::{Error, Expr};

use super::context::{Context, Place};
use crate::attribute::{Callee, Fallback, Said};
use crate::syntax::{here, respanned};

impl Context<'_> {
    /// Returns from the function if the variable `__sluicegate_denied` has a denial.
    pub(super) fn refuse(&self) -> Result<TokenStream, Error> {
        let handlers = self.handlers()?;
        let answer = self.answer()?;
        Ok(quote_spanned! {here()=>
            if let ::core::option::Option::Some(__sluicegate_denied) = __sluicegate_denied {
                #handlers
                return #answer;
            }
        })
    }

    /// Asks the handlers in turn, if it was the store that failed. They are lent the arguments,
    /// since several may look at them.
    fn handlers(&self) -> Result<TokenStream, Error> {
        let Some(on_error) = &self.stack.call.on_error else {
            return Ok(TokenStream::new());
        };
        let (private, result) = (&self.private, self.output.inferred());
        let take_arguments = on_error.value.take_arguments;
        let arguments =
            if take_arguments { self.arguments.all(&on_error.option)? } else { Vec::new() };
        let mut handlers = TokenStream::new();
        for callee in &on_error.value.callees {
            self.check_callee(callee)?;
            let receiver =
                self.arguments.receiver().filter(|_| take_arguments && !callee.is_method());
            let handed = receiver.iter().chain(&arguments);
            let place = callee.span().resolved_at(here());
            let error = Ident::new("__sluicegate_error", place);
            let call = quote_spanned!(place=> #callee(#error, #(&#handed),*));
            let answer = self.resolved(
                &call,
                place,
                &quote_spanned!(here()=> ::core::option::Option<#result>),
            );
            handlers.extend(quote_spanned! {here()=>
                let __sluicegate_answer: ::core::option::Option<#result> = #answer;
                if let ::core::option::Option::Some(__sluicegate_answer) = __sluicegate_answer {
                    return __sluicegate_answer;
                }
            });
        }
        Ok(quote_spanned! {here()=>
            if let ::core::option::Option::Some(__sluicegate_error) =
                #private::store_failure(&__sluicegate_denied)
            {
                #handlers
            }
        })
    }

    /// What is returned in place of the result.
    fn answer(&self) -> Result<TokenStream, Error> {
        let call = &self.stack.call;
        if let Some(fallback) = &call.fallback {
            return self.fallback(fallback);
        }
        let private = &self.private;
        match &call.denied {
            Some(Said { value: value @ Expr::Closure(_), .. }) => {
                Ok(quote_spanned!(here()=> #private::answer(__sluicegate_denied, #value)))
            }
            Some(Said { value, .. }) => Ok(quote_spanned!(here()=> {
                ::core::mem::drop(__sluicegate_denied);
                #value
            })),
            None => {
                let denied = Ident::new("__sluicegate_denied", here());
                self.output.denial(&denied, private, self.place == Place::Impl)
            }
        }
    }

    fn fallback(&self, fallback: &Said<Fallback>) -> Result<TokenStream, Error> {
        let Fallback { takes_denied, takes_arguments, callee } = &fallback.value;
        self.check_callee(callee)?;
        let drop_denied = (!takes_denied)
            .then(|| quote_spanned!(here()=> ::core::mem::drop(__sluicegate_denied);));
        let denied = Ident::new("__sluicegate_denied", here());
        let mut handed: Vec<&Ident> = takes_denied.then_some(&denied).into_iter().collect();
        if *takes_arguments {
            handed.extend(self.arguments.receiver().filter(|_| !callee.is_method()));
            handed.extend(self.arguments.all(&fallback.option)?);
        }
        let place = callee.span().resolved_at(here());
        let call = quote_spanned!(place=> #callee(#(#handed),*));
        let answer = self.resolved(&call, place, &self.output.inferred());
        Ok(quote_spanned!(here()=> {
            #drop_denied
            #answer
        }))
    }

    fn check_callee(&self, callee: &Callee) -> Result<(), Error> {
        if callee.is_method() && self.arguments.receiver().is_none() {
            return Err(Error::new(
                callee.span(),
                "this function has no `self`: write the path of a function, such as `Self::other`",
            ));
        }
        let function = self.arguments.function();
        let is_method = self.arguments.receiver().is_some() || self.place == Place::Impl;
        // An argument may be called as the function is.
        let is_named =
            !is_method && callee.is_named(function) && !self.arguments.has(&function.to_string());
        if is_named || callee.is_own(function) {
            let other = if is_named {
                format!(
                    ", or `self::{function}` if this is an associated function and one of the module is meant"
                )
            } else {
                String::new()
            };
            return Err(Error::new(
                callee.span(),
                format!(
                    "this is `{function}` itself, which would ask again and be denied again without end: name another function{other}"
                ),
            ));
        }
        Ok(())
    }

    /// What a call gives; in an async function what is called may be async too. What is wrong
    /// with it is reported at `place`.
    fn resolved(&self, call: &TokenStream, place: Span, result: &TokenStream) -> TokenStream {
        let private = respanned(self.private.clone(), place);
        let resolve = if self.is_async() {
            quote_spanned!(place=> resolve().await)
        } else {
            quote_spanned!(place=> resolve_now())
        };
        quote_spanned!(here()=> {
            #[allow(unused_imports)]
            use #private::ResolveFuture as _;
            #private::Resolve::<#result, _>::new(#call).#resolve
        })
    }
}
