//! Numbers that stores and layers count, for a metrics page.

/// The kind of a number on a metrics page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MeasureKind {
    /// A number that only grows.
    Counter,
    /// A current value.
    Gauge,
}

/// A number that a store or a layer counts.
///
/// Its name is in the style of Prometheus, without the program's prefix and without a counter's
/// suffix.
///
/// ```
/// use sluicegate_core::Measure;
///
/// let denied = Measure::counter("cache_answers", "Answers of the cache", 7).label("allowed", "false");
/// assert_eq!((denied.name(), denied.value()), ("cache_answers", 7));
/// assert!(denied.labels().eq([("allowed", "false")]));
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Measure {
    name: &'static str,
    help: &'static str,
    kind: MeasureKind,
    labels: Vec<(&'static str, String)>,
    value: u64,
}

impl Measure {
    /// Creates a number that only grows.
    #[must_use]
    pub const fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { name, help, kind: MeasureKind::Counter, labels: Vec::new(), value }
    }

    /// Creates a current value.
    #[must_use]
    pub const fn gauge(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { name, help, kind: MeasureKind::Gauge, labels: Vec::new(), value }
    }

    /// Adds a label. Labels must have few values and never be a key, which clients choose. All
    /// numbers of one name have the same labels.
    #[must_use]
    pub fn label(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.labels.push((name, value.into()));
        self
    }

    /// Adds to the number, such as that of another store.
    #[must_use]
    pub const fn plus(mut self, value: u64) -> Self {
        self.value = self.value.saturating_add(value);
        self
    }

    /// Returns the name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns a description, as a sentence without a full stop.
    #[must_use]
    pub const fn help(&self) -> &'static str {
        self.help
    }

    /// Returns the kind: a counter or a gauge.
    #[must_use]
    pub const fn kind(&self) -> MeasureKind {
        self.kind
    }

    /// Returns the names and values of the labels.
    #[must_use]
    pub fn labels(&self) -> impl ExactSizeIterator<Item = (&'static str, &str)> {
        self.labels.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// Returns the number.
    #[must_use]
    pub const fn value(&self) -> u64 {
        self.value
    }
}
