//! Bounds on the size of a configuration.

/// Maximum size of a configuration. A larger one is refused before it takes memory.
///
/// ```
/// use sluicegate::Config;
/// use sluicegate::config::ConfigCaps;
///
/// let caps = ConfigCaps::default().max_values(4);
/// let error = Config::parse_within("limits: {a: {policies: [gcra 5/s]}}", "c.yaml", caps).unwrap_err();
/// assert!(error.to_string().contains("more than 4 values"), "{error}");
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ConfigCaps {
    /// The maximum size in bytes. Default: 64 MiB.
    pub max_bytes: usize,
    /// The maximum number of values: every map, list, name, text and number is one. Default: 5,000,000.
    pub max_values: usize,
}

impl ConfigCaps {
    /// Sets the maximum size, in bytes.
    #[must_use]
    pub const fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets the maximum number of values.
    #[must_use]
    pub const fn max_values(mut self, values: usize) -> Self {
        self.max_values = values;
        self
    }
}

impl Default for ConfigCaps {
    fn default() -> Self {
        Self { max_bytes: 64 << 20, max_values: 5_000_000 }
    }
}
