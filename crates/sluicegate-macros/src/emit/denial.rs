//! The code for a denied call.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::{Error, Expr};

use super::context::{Context, Target};
use crate::attribute::{Callee, Fallback, OptionValue};
use crate::syntax::{mixed_site, with_span};

impl Context<'_> {
    /// Returns from the function if the variable `__sluicegate_denied` holds a denial.
    pub(super) fn return_if_denied(&self) -> Result<TokenStream, Error> {
        let handlers = self.error_handlers()?;
        let answer = self.denied_result()?;
        Ok(quote_spanned! {mixed_site()=>
            if let ::core::option::Option::Some(__sluicegate_denied) = __sluicegate_denied {
                #handlers
                return #answer;
            }
        })
    }

    /// Calls the handlers of `on_error` in turn if the store failed. They borrow the arguments,
    /// since there may be several handlers.
    fn error_handlers(&self) -> Result<TokenStream, Error> {
        let Some(on_error) = &self.stack.call.on_error else {
            return Ok(TokenStream::new());
        };
        let (private, result) = (&self.private, self.output.result_type());
        let takes_arguments = on_error.value.takes_arguments;
        let arguments =
            if takes_arguments { self.parameters.to_pass(&on_error.option)? } else { Vec::new() };
        let mut handlers = TokenStream::new();
        for callee in &on_error.value.callees {
            self.check_callee(callee)?;
            let receiver =
                self.parameters.receiver().filter(|_| takes_arguments && !callee.is_method());
            let passed = receiver.iter().chain(&arguments);
            let span = callee.span().resolved_at(mixed_site());
            let error = Ident::new("__sluicegate_error", span);
            let call = quote_spanned!(span=> #callee(#error, #(&#passed),*));
            let answer = self.resolved(
                &call,
                span,
                &quote_spanned!(mixed_site()=> ::core::option::Option<#result>),
            );
            handlers.extend(quote_spanned! {mixed_site()=>
                let __sluicegate_answer: ::core::option::Option<#result> = #answer;
                if let ::core::option::Option::Some(__sluicegate_answer) = __sluicegate_answer {
                    return __sluicegate_answer;
                }
            });
        }
        Ok(quote_spanned! {mixed_site()=>
            if let ::core::option::Option::Some(__sluicegate_error) =
                #private::store_failure(&__sluicegate_denied)
            {
                #handlers
            }
        })
    }

    /// Returns the expression that a denied call returns.
    fn denied_result(&self) -> Result<TokenStream, Error> {
        let call = &self.stack.call;
        if let Some(fallback) = &call.fallback {
            return self.fallback(fallback);
        }
        let private = &self.private;
        match &call.denied {
            Some(OptionValue { value: value @ Expr::Closure(_), .. }) => {
                Ok(quote_spanned!(mixed_site()=> #private::answer(__sluicegate_denied, #value)))
            }
            Some(OptionValue { value, .. }) => Ok(quote_spanned!(mixed_site()=> {
                ::core::mem::drop(__sluicegate_denied);
                #value
            })),
            None => {
                let denied = Ident::new("__sluicegate_denied", mixed_site());
                self.output.convert_denied(&denied, private, self.target == Target::ImplBlock)
            }
        }
    }

    fn fallback(&self, fallback: &OptionValue<Fallback>) -> Result<TokenStream, Error> {
        let Fallback { takes_denied, takes_arguments, callee } = &fallback.value;
        self.check_callee(callee)?;
        let drop_denied = (!takes_denied)
            .then(|| quote_spanned!(mixed_site()=> ::core::mem::drop(__sluicegate_denied);));
        let denied = Ident::new("__sluicegate_denied", mixed_site());
        let mut passed: Vec<&Ident> = takes_denied.then_some(&denied).into_iter().collect();
        if *takes_arguments {
            passed.extend(self.parameters.receiver().filter(|_| !callee.is_method()));
            passed.extend(self.parameters.to_pass(&fallback.option)?);
        }
        let span = callee.span().resolved_at(mixed_site());
        let call = quote_spanned!(span=> #callee(#(#passed),*));
        let answer = self.resolved(&call, span, &self.output.result_type());
        Ok(quote_spanned!(mixed_site()=> {
            #drop_denied
            #answer
        }))
    }

    fn check_callee(&self, callee: &Callee) -> Result<(), Error> {
        if callee.is_method() && self.parameters.receiver().is_none() {
            return Err(Error::new(
                callee.span(),
                "this function has no `self`: write the path of a function, such as `Self::other`",
            ));
        }
        let function = self.parameters.function();
        let is_method = self.parameters.receiver().is_some() || self.target == Target::ImplBlock;
        // An argument may have the name of the function.
        let is_named =
            !is_method && callee.is_named(function) && !self.parameters.has(&function.to_string());
        if is_named || callee.is_own_method(function) {
            let other = if is_named {
                format!(", or write `self::{function}` for a function of that name in the module")
            } else {
                String::new()
            };
            return Err(Error::new(
                callee.span(),
                format!(
                    "this is `{function}` itself, which would be denied again without end: name another function{other}"
                ),
            ));
        }
        Ok(())
    }

    /// Returns the result of `call`, which in an async function may be a future. The compiler reports
    /// a wrong type at `span`.
    fn resolved(&self, call: &TokenStream, span: Span, result: &TokenStream) -> TokenStream {
        let private = with_span(self.private.clone(), span);
        let resolve = if self.is_async() {
            quote_spanned!(span=> resolve().await)
        } else {
            quote_spanned!(span=> resolve_now())
        };
        quote_spanned!(mixed_site()=> {
            #[allow(unused_imports)]
            use #private::ResolveFuture as _;
            #private::Resolve::<#result, _>::new(#call).#resolve
        })
    }
}
