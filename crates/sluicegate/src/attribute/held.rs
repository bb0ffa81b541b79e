//! The hold of a limited function while it runs.

use std::borrow::Cow;
use std::fmt;

use crate::middleware::Charge;
use crate::permit;
use crate::usage::Usage;

/// The hold of a call until the function has returned, if any. Dropping it releases the hold.
#[derive(Default)]
pub struct Held(permit::Held);

impl Held {
    /// Returns the value of a call without a hold.
    #[must_use]
    pub const fn nothing() -> Self {
        Self(permit::Held::nothing())
    }

    pub(super) const fn new(held: permit::Held) -> Self {
        Self(held)
    }

    /// Settles the hold for the usage that a result reports, without waiting for the store.
    pub fn settle<R, S: Said>(self, result: &R, settle: impl FnOnce(&R) -> S) {
        let used = settle(result).said();
        let usage = used.map_or_else(Usage::as_charged, Charge::into_usage);
        self.0.settle_in_background(usage);
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Held").field(&self.0.token()).finish()
    }
}

/// The usage that a `settle` function returns.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the usage of a call",
    label = "not a usage",
    note = "write units per policy, `[(\"tokens\", 412)]`, a number for every policy, a `sluicegate::middleware::Charge`, or an `Option` of these; `None` settles as charged"
)]
pub trait Said {
    /// Returns the usage, or `None` to settle as charged.
    fn said(self) -> Option<Charge>;
}

#[diagnostic::do_not_recommend]
impl<S: Said> Said for Option<S> {
    fn said(self) -> Option<Charge> {
        self.and_then(Said::said)
    }
}

impl Said for u64 {
    fn said(self) -> Option<Charge> {
        Some(self.into())
    }
}

impl Said for Charge {
    fn said(self) -> Option<Charge> {
        Some(self)
    }
}

#[diagnostic::do_not_recommend]
impl<P: Into<Cow<'static, str>>, const N: usize> Said for [(P, u64); N] {
    fn said(self) -> Option<Charge> {
        Some(self.into())
    }
}
