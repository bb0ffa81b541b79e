//! The decision on a request that passed.

use std::ops::Deref;

use sluicegate_core::Decision;

/// An allowed decision: the result of [`Gate::enforce`](crate::Gate::enforce), whose error is the denial. Unlike a
/// [`Decision`] it may be left unused.
///
/// ```
/// use sluicegate::{Config, Registry};
///
/// let config = "limits: {login: {policies: [gcra 5/min]}}";
/// let login = Registry::open(&Config::parse(config, "limits.yaml")?)?.gate("login");
/// login.enforce("alice").now()?;
/// let allowed = login.enforce("alice").now()?;
/// assert_eq!(allowed.remaining(), Some(3));
/// login.refund("alice").taken_by(&allowed).now()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Allowed(Decision);

impl Allowed {
    pub(crate) const fn new(decision: Decision) -> Self {
        Self(decision)
    }
}

impl Deref for Allowed {
    type Target = Decision;

    fn deref(&self) -> &Decision {
        &self.0
    }
}

impl From<Allowed> for Decision {
    fn from(allowed: Allowed) -> Self {
        allowed.0
    }
}
