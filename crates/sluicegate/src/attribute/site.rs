//! A call site: a place in the source that asks limits.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwapOption;
use sluicegate_core::{Ban, OnExpiry};
use sluicegate_http::Key as HttpKey;

use super::call::Call;
use super::installed;
use super::name::{enclosing, of_function};
use super::opened::{Holding, Opened, Owner};
use crate::registry::{Gate, Registry};

/// One of the limits of a call site.
#[derive(Debug)]
pub struct Part {
    source: LimitSource,
    ban: Option<&'static str>,
    on_expiry: OnExpiry,
    /// The policies that have costs by name.
    policies: &'static [&'static str],
}

#[derive(Debug)]
enum LimitSource {
    Named(&'static str),
    Inline(&'static str, &'static [&'static str]),
    Nameless(usize, &'static [&'static str]),
}

impl Part {
    /// Makes a part for a limit of the registry.
    #[must_use]
    pub const fn named(name: &'static str) -> Self {
        Self::of(LimitSource::Named(name))
    }

    /// Makes a part for policies under a name.
    #[must_use]
    pub const fn inline(name: &'static str, policies: &'static [&'static str]) -> Self {
        Self::of(LimitSource::Inline(name, policies))
    }

    /// Makes a part for policies under the name of the function. This is the function's limit number `ordinal`.
    #[must_use]
    pub const fn nameless(ordinal: usize, policies: &'static [&'static str]) -> Self {
        Self::of(LimitSource::Nameless(ordinal, policies))
    }

    /// Makes the limit ban keys that are denied too often.
    #[must_use]
    pub const fn banning(mut self, ban: &'static str) -> Self {
        self.ban = Some(ban);
        self
    }

    /// Makes the limit give back holds that are never settled.
    #[must_use]
    pub const fn returning(mut self) -> Self {
        self.on_expiry = OnExpiry::Return;
        self
    }

    /// Sets the policies of the limit that have costs by name.
    #[must_use]
    pub const fn charging(mut self, policies: &'static [&'static str]) -> Self {
        self.policies = policies;
        self
    }

    const fn of(source: LimitSource) -> Self {
        Self { source, ban: None, on_expiry: OnExpiry::Keep, policies: &[] }
    }

    fn gate(&self, registry: &Registry, path: &str) -> (Gate, String) {
        let (gate, name) = self.find(registry, path);
        gate.notice(self.policies);
        (gate, name)
    }

    fn find(&self, registry: &Registry, path: &str) -> (Gate, String) {
        let (name, policies) = match self.source {
            LimitSource::Named(name) => return (registry.gate(name), name.to_owned()),
            LimitSource::Inline(name, policies) => (name.to_owned(), policies),
            LimitSource::Nameless(ordinal, policies) => (of_function(path, ordinal), policies),
        };
        let gate = match crate::Limit::new(&name, policies) {
            Ok(limit) => {
                let ban: Option<Ban> = self.ban.and_then(|ban| ban.parse().ok());
                registry.inline(limit.banning(ban).with_on_expiry(self.on_expiry))
            }
            // The attribute has parsed them with the same code.
            Err(_) => registry.gate(&name),
        };
        (gate, name)
    }
}

/// A call site, whose limits are decided together: a static in a limited function.
pub struct Site {
    /// The path of an item in the function.
    path: fn() -> &'static str,
    parts: &'static [Part],
    /// The gate of the registry that was installed at the first call. This is the usual case, with the fast path from a
    /// call to its gate.
    first: OnceLock<Opened>,
    /// The gates of other registries, the latest first.
    others: ArcSwapOption<Vec<Arc<Opened>>>,
}

impl Site {
    /// The number of registries that a site remembers.
    const MOST: usize = 8;

    #[must_use]
    pub const fn new(path: fn() -> &'static str, parts: &'static [Part]) -> Self {
        Self { path, parts, first: OnceLock::new(), others: ArcSwapOption::const_empty() }
    }

    /// Makes a call that uses the installed registry.
    #[inline]
    #[must_use]
    pub fn call(&'static self) -> Call {
        let number = installed::number();
        match self.first.get() {
            Some(opened) if opened.is_of(number) => Call::new(Holding::First(opened)),
            _ => Call::new(self.installed(number)),
        }
    }

    /// Makes a call that uses this registry.
    #[must_use]
    pub fn call_in<R: AsRegistry + ?Sized>(&'static self, registry: &R) -> Call {
        let registry = registry.as_registry();
        let of_this = |opened: &Opened| matches!(&opened.owner, Owner::Given(known) if known.is_same(registry));
        Call::new(Holding::Other(
            self.known(of_this)
                .unwrap_or_else(|| self.remember(Owner::Given(registry.clone()), registry)),
        ))
    }

    #[cold]
    fn installed(&'static self, number: u64) -> Holding {
        if self.first.get().is_none() {
            let opened = self.first.get_or_init(|| {
                let (number, registry) = installed::current();
                self.open(Owner::Installed(number), &registry)
            });
            // Another registry may have been installed in the meantime: the next call checks that.
            return Holding::First(opened);
        }
        Holding::Other(self.known(|opened| opened.is_of(number)).unwrap_or_else(|| {
            let (number, registry) = installed::current();
            self.remember(Owner::Installed(number), &registry)
        }))
    }

    fn known(&self, is_it: impl Fn(&Opened) -> bool) -> Option<Arc<Opened>> {
        let others = self.others.load();
        others.as_ref()?.iter().find(|opened| is_it(opened)).map(Arc::clone)
    }

    #[cold]
    fn remember(&'static self, owner: Owner, registry: &Registry) -> Arc<Opened> {
        let opened = Arc::new(self.open(owner, registry));
        self.others.rcu(|others| {
            let known = others.iter().flat_map(|others| others.iter());
            let kept = known.filter(|known| !known.is_stale()).take(Self::MOST - 1).map(Arc::clone);
            Some(Arc::new(std::iter::once(Arc::clone(&opened)).chain(kept).collect::<Vec<_>>()))
        });
        opened
    }

    fn open(&'static self, owner: Owner, registry: &Registry) -> Opened {
        let path = enclosing((self.path)());
        let (gates, names): (Vec<Gate>, Vec<String>) =
            self.parts.iter().map(|part| part.gate(registry, path)).unzip();
        for (part, name) in self.parts.iter().zip(&names) {
            if matches!(part.source, LimitSource::Nameless(..)) && !self.is_first_called(name) {
                tracing::warn!(
                    limit = name,
                    "two functions have this path, so they share a limit: add `name = \"…\"` to the attribute of each"
                );
            }
        }
        let gate = gates
            .into_iter()
            .reduce(|gate, other| gate.with(&other))
            .unwrap_or_else(|| registry.gate(path));
        Opened { owner, gate, names: names.into(), method: HttpKey::new(path) }
    }

    /// Returns whether no other function's limit has this name. Functions with equal names in different blocks of one
    /// function have equal paths.
    fn is_first_called(&'static self, name: &str) -> bool {
        static FIRST: Mutex<BTreeMap<String, &'static Site>> = Mutex::new(BTreeMap::new());
        let mut first = FIRST.lock().unwrap_or_else(PoisonError::into_inner);
        std::ptr::eq(*first.entry(name.to_owned()).or_insert(self), self)
    }
}

/// A value that has a registry.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a registry",
    label = "not a `sluicegate::Registry`",
    note = "write a `sluicegate::Registry`, or a reference, a `Box` or an `Arc` of one: `registry = self.limits`"
)]
pub trait AsRegistry {
    fn as_registry(&self) -> &Registry;
}

#[diagnostic::do_not_recommend]
impl<R: Borrow<Registry> + ?Sized> AsRegistry for R {
    fn as_registry(&self) -> &Registry {
        self.borrow()
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site").field("parts", &self.parts).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_two_functions_have_is_noticed() {
        static ONE: Site = Site::new(|| "shop::add::item", &[]);
        static OTHER: Site = Site::new(|| "shop::add::item", &[]);
        assert!(ONE.is_first_called("shop::add"));
        assert!(ONE.is_first_called("shop::add"), "in another registry");
        assert!(!OTHER.is_first_called("shop::add"));
        assert!(OTHER.is_first_called("shop::add-2"));
    }
}
