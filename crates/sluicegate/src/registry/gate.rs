//! One or several named limits, decided together.

mod answers;
mod counted;
mod from_limiter;
mod join;
mod keys;
mod look;
mod numbers;
mod standings;

use std::fmt;
use std::sync::Arc;

use arc_swap::Guard;
use sluicegate_core::{Decision, Limit};
use sluicegate_http::LimitFields;

use super::gate_cache::GateCache;
use super::resolved::Resolved;
use super::response_fields::Shown;
use super::shared::Shared;
use crate::uses::Uses;

pub use counted::{Counted, CountedKey, Leased};
pub use join::JoinError;
pub use keys::{MissingKey, RequestKeys};
pub(crate) use look::Look;

/// One or several limits of a [`Registry`](super::Registry), by name, decided together. A call site holds it.
///
/// It follows the registry: a switch or a new configuration takes effect with the next call, and no call mixes old and
/// new. If a limit isn't asked (it is off, or the key is on a list), the answer is a
/// [bypass](crate::decision::Source::Bypass). With several limits, the others are still decided all or nothing.
///
/// Its methods are those of a [`Limiter`](crate::Limiter). Cloning is cheap. A call on a limit in the embedded store
/// looks up nothing by name, takes no lock of the registry and allocates nothing.
///
/// ```
/// use sluicegate::{Config, Registry};
///
/// let config = "limits: {address: {policies: [gcra 10/min]}, account: {policies: [gcra 1/min]}}";
/// let registry = Registry::open(&Config::parse(config, "limits.yaml")?)?;
/// let login = registry.gate("address").and(registry.gate("account"))?;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// assert!(login.check("192.0.2.7").and("alice").await?.is_allowed());
/// assert!(login.check("192.0.2.7").and("alice").await?.is_denied());
/// // The denied one took nothing of the address either.
/// let left = registry.gate("address").peek("192.0.2.7").await?.remaining();
/// assert_eq!(left, Some(9));
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct Gate {
    shared: Arc<Shared>,
    cell: Arc<GateCache>,
}

impl Gate {
    pub(super) const fn new(shared: Arc<Shared>, cell: Arc<GateCache>) -> Self {
        Self { shared, cell }
    }

    /// Returns a gate for these limits with other response fields for clients.
    pub(crate) fn showing(&self, shown: Shown) -> Self {
        let cell = GateCache::showing(self.cell.targets().into(), shown);
        Self { shared: Arc::clone(&self.shared), cell: Arc::new(cell) }
    }

    /// Notes that a call site uses these limits, and `policies` of each by name, so that the registry refuses a
    /// configuration without them.
    pub(crate) fn notice(&self, policies: &[&'static str]) {
        let mut writer = self.shared.write();
        for target in self.cell.targets() {
            let uses = Uses::limit(target.name()).policies(policies.iter().copied());
            writer.used.notice(uses);
        }
    }

    /// Returns the name of the limit; for several, their names joined with ` + `.
    #[must_use]
    pub fn name(&self) -> &str {
        self.cell.name()
    }

    /// Returns a number that only clones of this gate have, as long as one exists.
    pub(crate) fn identity(&self) -> usize {
        Arc::as_ptr(&self.cell).addr()
    }

    /// Returns the number of limits.
    pub(crate) fn len(&self) -> usize {
        self.cell.targets().len()
    }

    /// Returns the limits as currently configured, for several calls about one request.
    pub(crate) fn look(&self) -> Look {
        Look { resolved: self.resolved() }
    }

    /// Returns the limit as currently configured, without overrides; for several, those in force, together. `None` if
    /// none is in force: they are off or unknown.
    #[must_use]
    pub fn limit(&self) -> Option<Limit> {
        let limiter = self.resolved().with_own_numbers()?.ok()?;
        Some(limiter.limit().clone())
    }

    /// Returns the response fields that the configuration sends to clients with a decision of this gate; `None` if no
    /// limit was asked.
    ///
    /// ```
    /// use sluicegate::{Config, Registry};
    ///
    /// let config = "limits: {api: {policies: [gcra 1/min burst 2 as steady]}}";
    /// let api = Registry::open(&Config::parse(config, "limits.yaml")?)?.gate("api");
    /// let decision = api.check("alice").now()?;
    /// let mut response = http::Response::new("hello");
    /// if let Some(fields) = api.fields(&decision) {
    ///     fields.of(&decision).write(response.headers_mut());
    /// }
    /// assert_eq!(response.headers()["ratelimit"], "\"steady\";r=1;t=60");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn fields(&self, decision: &Decision) -> Option<LimitFields> {
        decision.limit().map(|limit| self.resolved().fields(limit))
    }

    /// Returns whether a request that takes units of these limits has to hold them.
    pub(crate) fn has_permits(&self) -> bool {
        self.resolved().has_permits
    }

    #[inline]
    fn resolved(&self) -> Guard<Arc<Resolved>> {
        self.shared.resolved(&self.cell)
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("name", &self.name()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Config, Registry};

    /// A program with many requests in flight pays for each of these.
    #[test]
    fn futures_are_small() {
        let config = Config::parse("limits: {a: {policies: [gcra 1/s]}}", "limits.yaml").unwrap();
        let gate = Registry::open(&config).unwrap().gate("a");
        let check = gate.check("k");
        assert!(size_of_val(&check) <= 1_024, "{}", size_of_val(&check));
    }
}
