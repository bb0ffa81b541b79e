//! The attributes on one item, which make one decision.

use proc_macro2::{Span, TokenStream};
use sluicegate_core::{Algorithm, Enforcement, Member};
use syn::punctuated::Punctuated;
use syn::{Error, Ident, Meta, Token, Type};

use crate::attribute::{Attribute, CallOptions, LimitOptions, OptionValue, Wait};

/// All limits to check before a function runs.
pub(crate) struct Stack {
    /// Limits that decide together: all allow, or none is charged.
    pub(crate) enforced: Vec<LimitOptions>,
    /// Limits that are checked on their own, and never deny.
    pub(crate) shadows: Vec<LimitOptions>,
    pub(crate) call: CallOptions,
}

impl Stack {
    pub(crate) fn new(limits: Vec<LimitOptions>) -> Result<Self, Error> {
        let mut call = CallOptions::default();
        let (mut enforced, mut shadows) = (Vec::<LimitOptions>::new(), Vec::new());
        let mut unnamed = 0;
        for mut limit in limits {
            call.merge(std::mem::take(&mut limit.call))?;
            if limit.source.name().is_none() {
                limit.ordinal = unnamed;
                unnamed += 1;
            }
            if limit.is_shadow {
                shadows.push(limit);
                continue;
            }
            if let Some(name) = limit.source.name()
                && enforced
                    .iter()
                    .filter_map(|other| other.source.name())
                    .any(|other| other.value() == name.value())
            {
                return Err(Error::new(
                    name.span(),
                    format!(
                        "another attribute on this item already asks `{}`, and a decision asks each limit once: give one of them another name",
                        name.value()
                    ),
                ));
            }
            enforced.push(limit);
        }
        call.check()?;
        if let Some(wait) = &call.wait {
            check_wait(wait, &enforced)?;
        }
        if let Some(refund_if) = &call.refund_if {
            check_refund(&refund_if.option, enforced.iter().chain(&shadows))?;
        }
        Ok(Self { enforced, shadows, call })
    }
}

impl CallOptions {
    fn merge(&mut self, other: Self) -> Result<(), Error> {
        set_once(&mut self.wait, other.wait)?;
        set_once(&mut self.priority, other.priority)?;
        set_once(&mut self.fallback, other.fallback)?;
        set_once(&mut self.denied, other.denied)?;
        set_once(&mut self.on_error, other.on_error)?;
        set_once(&mut self.charge_if, other.charge_if)?;
        set_once(&mut self.refund_if, other.refund_if)?;
        set_once(&mut self.hold, other.hold)?;
        set_once(&mut self.settle, other.settle)?;
        set_once(&mut self.registry, other.registry)?;
        // This option doesn't concern one call: any attribute may set it.
        self.crate_path = self.crate_path.take().or(other.crate_path);
        Ok(())
    }

    /// Returns whether an option says what a denied or failed call does.
    pub(crate) const fn handles_denial(&self) -> bool {
        self.fallback.is_some() || self.denied.is_some() || self.on_error.is_some()
    }

    /// Returns whether a denied or failed call calls `method` of the type `of`.
    pub(crate) fn calls(&self, method: &Ident, of: &Type) -> bool {
        let fallback = self.fallback.iter().map(|fallback| &fallback.value.callee);
        let handlers = self.on_error.iter().flat_map(|handlers| &handlers.value.callees);
        fallback.chain(handlers).any(|callee| callee.is_method_of(method, of))
    }

    fn check(&self) -> Result<(), Error> {
        if let (Some(wait), Some(_)) = (&self.wait, &self.charge_if) {
            return Err(Error::new(
                wait.option.span(),
                "`wait` charges before the call, and `charge_if` after it: keep one",
            ));
        }
        if let (Some(priority), None) = (&self.priority, &self.wait) {
            return Err(Error::new(
                priority.option.span(),
                "`priority` says who goes first of the calls that wait in a queue: write `wait = \"10s\"` too",
            ));
        }
        if let (Some(refund_if), Some(_)) = (&self.refund_if, &self.charge_if) {
            return Err(Error::new(
                refund_if.option.span(),
                "`refund_if` charges before the call, and `charge_if` after it: keep one; with `charge_if`, concurrent calls may all pass before the first charge",
            ));
        }
        let held = [
            self.hold.as_ref().map(|hold| &hold.option),
            self.settle.as_ref().map(|settle| &settle.option),
        ];
        let other = [self.charge_if.as_ref(), self.refund_if.as_ref()];
        if let (Some(held), Some(other)) =
            (held.into_iter().flatten().next(), other.into_iter().flatten().next())
        {
            let other = &other.option;
            return Err(Error::new(
                held.span(),
                format!(
                    "a call is settled for what it used, by `settle`, or by `{other}`: keep one of `{held}` and `{other}`"
                ),
            ));
        }
        if let (Some(fallback), Some(_)) = (&self.fallback, &self.denied) {
            return Err(Error::new(
                fallback.option.span(),
                "`fallback` and `denied` both set what a denied call returns: keep `fallback` to call a function, or `denied` for a value",
            ));
        }
        Ok(())
    }
}

/// Waiting for a shaper reserves its turn in advance, so every policy in the decision must be able
/// to reserve.
fn check_wait(wait: &OptionValue<Wait>, enforced: &[LimitOptions]) -> Result<(), Error> {
    let members = || enforced.iter().flat_map(|limit| limit.source.members()).map(Member::policy);
    let shaper = members().find(|policy| {
        matches!(policy.algorithm(), Algorithm::Shaper { .. })
            && policy.enforcement() == Enforcement::Enforced
    });
    let other = members().find(|policy| !policy.rule().profile().can_reserve);
    let (Some(shaper), Some(other)) = (shaper, other) else {
        return Ok(());
    };
    Err(Error::new(
        wait.option.span(),
        format!(
            "`wait` can't reserve `{shaper}` together with `{other}`, which can't be reserved: remove `wait`, since a shaper delays calls anyway, or change one algorithm"
        ),
    ))
}

/// Rejects `refund_if` if no policy can give anything back. After a call, these algorithms may have
/// told other callers when to act.
fn check_refund<'l>(
    option: &Ident,
    limits: impl Iterator<Item = &'l LimitOptions>,
) -> Result<(), Error> {
    let mut keeping = None;
    for limit in limits {
        let members = limit.source.members();
        let keeps = |member: &Member| {
            matches!(
                member.policy().algorithm(),
                Algorithm::Shaper { .. } | Algorithm::Smooth { .. } | Algorithm::WarmUp { .. }
            )
        };
        // The policies of a limit by name are unknown here.
        if members.is_empty() || !members.iter().all(keeps) {
            return Ok(());
        }
        keeping = keeping.or(members.first());
    }
    let Some(member) = keeping else {
        return Ok(());
    };
    Err(Error::new(
        option.span(),
        format!(
            "`{}` gives nothing back, since others may have been told to act after this call: write another algorithm, such as `token_bucket`, or remove `refund_if`",
            member.policy()
        ),
    ))
}

fn set_once<T>(
    into: &mut Option<OptionValue<T>>,
    other: Option<OptionValue<T>>,
) -> Result<(), Error> {
    match (into.as_ref(), other) {
        (Some(_), Some(second)) => Err(Error::new(
            second.option.span(),
            format!(
                "`{}` applies to the whole call, and another attribute sets it too: set it in one of them",
                second.option
            ),
        )),
        (None, Some(only)) => {
            *into = Some(only);
            Ok(())
        }
        (_, None) => Ok(()),
    }
}

const CONDITIONAL: &str = "`#[limit]` expands before this `cfg_attr`, so it can't tell whether this attribute applies: write two versions of the function, each under a `#[cfg(…)]`";

/// Removes the `#[limit]` attributes from an item and parses them.
pub(crate) fn take_attributes(
    attributes: &mut Vec<syn::Attribute>,
) -> Result<Vec<Attribute>, Error> {
    let mut taken = Vec::new();
    let mut error: Option<Error> = None;
    attributes.retain(|attribute| {
        let read = match &attribute.meta {
            meta if is_limit(meta.path()) => read(meta),
            meta if is_conditional(meta) => Err(Error::new_spanned(attribute, CONDITIONAL)),
            _ => return true,
        };
        match (read, &mut error) {
            (Ok(attribute), _) => taken.push(attribute),
            (Err(problem), Some(error)) => error.combine(problem),
            (Err(problem), error @ None) => *error = Some(problem),
        }
        false
    });
    error.map_or(Ok(taken), Err)
}

/// Returns whether an item has a `#[limit]` attribute.
pub(crate) fn has_attribute(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| is_limit(attribute.path()) || is_conditional(&attribute.meta))
}

fn read(meta: &Meta) -> Result<Attribute, Error> {
    let span = meta.path().segments.last().map_or_else(Span::call_site, |last| last.ident.span());
    match meta {
        Meta::Path(_) => Attribute::read(TokenStream::new(), span),
        Meta::List(list) => Attribute::read(list.tokens.clone(), span),
        Meta::NameValue(value) => Err(Error::new_spanned(value, "write `#[limit(…)]`")),
    }
}

/// `limit` or `sluicegate::limit`. Only the last segment counts, since the crate may be renamed.
fn is_limit(path: &syn::Path) -> bool {
    path.segments.len() <= 2 && path.segments.last().is_some_and(|last| last.ident == "limit")
}

/// Returns whether an attribute is `cfg_attr(…, limit(…))`.
fn is_conditional(meta: &Meta) -> bool {
    let Meta::List(list) = meta else {
        return false;
    };
    let parse = Punctuated::<Meta, Token![,]>::parse_terminated;
    list.path.is_ident("cfg_attr")
        && list
            .parse_args_with(parse)
            .is_ok_and(|metas| metas.iter().skip(1).any(|meta| is_limit(meta.path())))
}
