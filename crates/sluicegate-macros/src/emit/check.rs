//! The code of a check: its call site, keys and costs.

use proc_macro2::{Ident, Literal, TokenStream};
use quote::{ToTokens, format_ident, quote_spanned};
use sluicegate_core::OnExpiry;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, Lit};

use super::context::Context;
use crate::attribute::{CallOptions, LimitOptions, Wait};
use crate::limit_source::LimitSource;
use crate::syntax::mixed_site;

/// The name of the item that yields the function's path; also marks a function as limited.
pub(super) const PATH: &str = "__sluicegate_path";

/// The code of one decision on one or several limits. `items` and `setup` go into one block, in
/// this order, before any use of the variables.
pub(super) struct Check {
    pub(super) items: TokenStream,
    pub(super) setup: TokenStream,
    /// The variable of the call.
    pub(super) call: Ident,
    /// The variables of the keys.
    pub(super) keys: Vec<Ident>,
    /// The variable of a closure that returns the `Ask`.
    pub(super) ask: Ident,
    /// The `pause_on` of the limits that have one, with the index of the limit.
    pub(super) pauses: Vec<(usize, Expr)>,
}

impl Check {
    /// Returns the check of `limits`, which decide together. Checks in the same block need different
    /// `number`s.
    pub(super) fn new(
        context: &Context<'_>,
        limits: &[&LimitOptions],
        number: usize,
    ) -> Result<Self, Error> {
        let private = &context.private;
        let numbered = |name: &str| match number {
            0 => Ident::new(name, mixed_site()),
            more => format_ident!("{name}_{more}", span = mixed_site()),
        };
        let (path, site) = (numbered(PATH), numbered("__SLUICEGATE_SITE"));
        let parts = limits.iter().map(|limit| part(limit, private));
        let items = quote_spanned! {mixed_site()=>
            #[allow(unused_imports)]
            use #private::{OtherUnits as _, PutCopied as _, PutDisplay as _, PutOption as _};
            fn #path() -> &'static str {
                ::core::any::type_name_of_val(&#path)
            }
            static #site: #private::Site = #private::Site::new(#path, &[#(#parts),*]);
        };
        let call = numbered("__sluicegate_call");
        let registry = context.stack.call.registry.as_ref().map(|registry| &registry.value);
        let new_call = match registry {
            None => quote_spanned!(mixed_site()=> #site.call()),
            Some(registry) => {
                let span = registry.span().resolved_at(mixed_site());
                quote_spanned!(span=> #site.call_in(&(#registry)))
            }
        };
        let mode = if limits.iter().any(|limit| limit.is_shadow) {
            Some(quote_spanned!(mixed_site()=> .unenforced()))
        } else {
            context.stack.call.wait.as_ref().map(|wait| waiting(&wait.value))
        };
        let held = holding(&context.stack.call);
        let mut setup = quote_spanned!(mixed_site()=> let #call = #new_call #mode #held;);
        let is_asked = numbered("__sluicegate_is_asked");
        let (mut keys, mut asks, mut cost_variables) = (Vec::new(), Vec::new(), TokenStream::new());
        for (index, limit) in limits.iter().enumerate() {
            let key = format_ident!("__sluicegate_key_{number}_{index}", span = mixed_site());
            let new_key = context.key(limit, &path)?;
            setup.extend(match &limit.skip_if {
                None => quote_spanned!(mixed_site()=> let #key = #new_key;),
                Some(skip_if) => quote_spanned! {mixed_site()=>
                    let __sluicegate_is_skipped: bool = #skip_if;
                    let #key = if __sluicegate_is_skipped { #private::Key::skipped() } else { #new_key };
                },
            });
            let (variables, cost_calls) = costs(limit, &key, &is_asked, private);
            cost_variables.extend(variables);
            asks.push(
                quote_spanned!(mixed_site()=> #key.ask(&#call, |__sluicegate_ask| __sluicegate_ask #cost_calls)),
            );
            keys.push(key);
        }
        let priority = context.stack.call.priority.as_ref().map(|priority| &priority.value);
        let priority = priority.filter(|_| limits.iter().all(|limit| !limit.is_shadow));
        let mut first = asks[0].clone();
        if let Some(priority) = priority {
            let variable = numbered("__sluicegate_priority");
            cost_variables.extend(quote_spanned! {mixed_site()=>
                let #variable: u8 = if #is_asked { #priority } else { 0 };
            });
            first.extend(quote_spanned!(mixed_site()=> .priority(#variable)));
        }
        // The expression of a cost or priority may depend on conditions that only checked calls meet,
        // so it runs only for those.
        if !cost_variables.is_empty() {
            setup.extend(quote_spanned! {mixed_site()=>
                let #is_asked = #call.ready(&[#(&#keys),*]).is_none();
                #cost_variables
            });
        }
        let ask = numbered("__sluicegate_ask");
        let others = &asks[1..];
        setup.extend(quote_spanned!(mixed_site()=> let #ask = || #first #(.and(#others))*;));
        let pauses = limits.iter().enumerate();
        let pauses = pauses.filter_map(|(index, limit)| Some((index, limit.pause_on.clone()?)));
        Ok(Self { items, setup, call, keys, ask, pauses: pauses.collect() })
    }
}

fn waiting(wait: &Wait) -> TokenStream {
    let within = duration(wait);
    quote_spanned!(mixed_site()=> .waiting(#within))
}

/// Returns the method call that holds the charged units until the function has returned, if an option
/// says so. Limits that count permits in use hold them without it.
fn holding(call: &CallOptions) -> Option<TokenStream> {
    let lasts = call.hold.as_ref().map(|hold| duration(&hold.value));
    let lasts = match lasts {
        Some(lasts) => quote_spanned!(mixed_site()=> ::core::option::Option::Some(#lasts)),
        None if call.settle.is_some() => {
            quote_spanned!(mixed_site()=> ::core::option::Option::None)
        }
        None => return None,
    };
    Some(quote_spanned!(mixed_site()=> .holding(#lasts)))
}

fn duration(wait: &Wait) -> TokenStream {
    match wait {
        Wait::Micros(micros) => {
            quote_spanned!(mixed_site()=> ::core::time::Duration::from_micros(#micros))
        }
        Wait::Expression(expression) => quote_spanned!(mixed_site()=> #expression),
    }
}

fn part(limit: &LimitOptions, private: &TokenStream) -> TokenStream {
    let part = part_of(limit, private);
    let part = match &limit.ban {
        Some(ban) => quote_spanned!(mixed_site()=> #part.banning(#ban)),
        None => part,
    };
    let part = match limit.on_expiry {
        OnExpiry::Return => quote_spanned!(mixed_site()=> #part.returning()),
        _ => part,
    };
    if limit.costs.is_empty() {
        return part;
    }
    let policies = limit.costs.iter().map(|(policy, _)| policy);
    quote_spanned!(mixed_site()=> #part.charging(&[#(#policies),*]))
}

fn part_of(limit: &LimitOptions, private: &TokenStream) -> TokenStream {
    match &limit.source {
        LimitSource::Named(name) => quote_spanned!(mixed_site()=> #private::Part::named(#name)),
        LimitSource::Inline { policies, name: Some(name), .. } => {
            quote_spanned!(mixed_site()=> #private::Part::inline(#name, &[#(#policies),*]))
        }
        LimitSource::Inline { policies, name: None, .. } => {
            let ordinal = limit.ordinal;
            quote_spanned!(mixed_site()=> #private::Part::nameless(#ordinal, &[#(#policies),*]))
        }
    }
}

/// Returns the variables of the costs that are not literals, and the method calls that add all costs
/// to an `Ask`.
fn costs(
    limit: &LimitOptions,
    key: &Ident,
    is_asked: &Ident,
    private: &TokenStream,
) -> (TokenStream, TokenStream) {
    let (mut variables, mut calls) = (TokenStream::new(), TokenStream::new());
    let whole = limit.cost.iter().map(|cost| (None, cost));
    let named = limit.costs.iter().map(|(policy, cost)| (Some(policy), cost));
    for (number, (policy, cost)) in whole.chain(named).enumerate() {
        let units = literal(cost).map_or_else(
            || {
                let variable = format_ident!("{key}_cost_{number}", span = mixed_site());
                // Use the span of the value, so that the compiler reports a wrong type there.
                let units = quote_spanned!(cost.span().resolved_at(mixed_site())=> units);
                variables.extend(quote_spanned! {mixed_site()=>
                    let #variable = if #is_asked && !#key.is_skipped() {
                        #private::Units(#cost).#units()
                    } else {
                        0
                    };
                });
                variable.into_token_stream()
            },
            ToTokens::into_token_stream,
        );
        calls.extend(match policy {
            None => quote_spanned!(mixed_site()=> .cost(#units)),
            Some(policy) => quote_spanned!(mixed_site()=> .cost_of(#policy, #units)),
        });
    }
    (variables, calls)
}

fn literal(cost: &Expr) -> Option<Literal> {
    let Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) = cost else {
        return None;
    };
    let mut literal = Literal::u64_suffixed(number.base10_parse().ok()?);
    literal.set_span(number.span());
    Some(literal)
}
