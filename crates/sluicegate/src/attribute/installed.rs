//! The registry of limited functions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use arc_swap::ArcSwapOption;
use sluicegate_memory::MemoryStore;

use crate::registry::Registry;

/// The number of times a registry was installed. Every call of a limited function reads it.
static NUMBER: AtomicU64 = AtomicU64::new(NONE);
static INSTALLED: ArcSwapOption<Installed> = ArcSwapOption::const_empty();
static INSTALLING: Mutex<()> = Mutex::new(());

/// The number of the registry that functions use before one is installed.
pub(super) const NONE: u64 = 0;

struct Installed {
    registry: Registry,
    number: u64,
}

/// Makes `registry` the registry of functions with `#[limit(…)]` from now on, in this process.
///
/// This is for start-up. To change limits at run time, [replace the configuration](Registry::replace) of the registry
/// instead. Without an installed registry, functions use an empty one in an embedded store. Then inline policies are in
/// force, and calls of functions with a limit by name are denied with an error that says so.
///
/// Functions that were called before keep the gates and the store of the previous registry alive.
///
/// ```
/// use sluicegate::{Config, Denied, Registry, limit};
///
/// #[limit("export")]
/// fn export() -> Result<&'static str, Denied> {
///     Ok("rows")
/// }
///
/// let config = Config::parse("limits: {export: {policies: [gcra 1/min]}}", "limits.yaml")?;
/// sluicegate::install(Registry::open(&config)?);
/// assert_eq!(export()?, "rows");
/// assert_eq!(export().unwrap_err().to_string(), "limit `export` is exhausted: retry in 1 min");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn install(registry: Registry) {
    let _one = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let number = NUMBER.load(Ordering::Relaxed) + 1;
    INSTALLED.store(Some(Arc::new(Installed { registry, number })));
    NUMBER.store(number, Ordering::Release);
}

/// Returns the registry of functions with `#[limit(…)]`.
#[must_use]
pub fn installed() -> Registry {
    current().1
}

#[inline]
pub(super) fn number() -> u64 {
    NUMBER.load(Ordering::Acquire)
}

/// Returns the registry and its number, which may be newer than the one that [`number`] has returned.
pub(super) fn current() -> (u64, Registry) {
    match &*INSTALLED.load() {
        Some(installed) => (installed.number, installed.registry.clone()),
        None => (NONE, EMBEDDED.clone()),
    }
}

static EMBEDDED: LazyLock<Registry> =
    LazyLock::new(|| Registry::builder(MemoryStore::new()).build());
