//! Numbers that stores and layers count, for a metrics page.

use crate::histogram::HistogramCounts;

/// The kind of a number on a metrics page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MeasureKind {
    /// A number that only grows.
    Counter,
    /// A current value.
    Gauge,
    /// Durations, counted in buckets.
    Histogram,
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
    /// The durations of a histogram. Boxed, because few numbers have them.
    durations: Option<Box<HistogramCounts>>,
}

impl Measure {
    /// Creates a number that only grows.
    #[must_use]
    pub const fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { name, help, kind: MeasureKind::Counter, labels: Vec::new(), value, durations: None }
    }

    /// Creates a current value.
    #[must_use]
    pub const fn gauge(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { name, help, kind: MeasureKind::Gauge, labels: Vec::new(), value, durations: None }
    }

    /// Creates the durations that a [`Histogram`](crate::Histogram) has counted. Its [value](Self::value) is their number.
    #[must_use]
    pub fn histogram(name: &'static str, help: &'static str, durations: HistogramCounts) -> Self {
        let value = durations.total();
        let (kind, durations) = (MeasureKind::Histogram, Some(Box::new(durations)));
        Self { name, help, kind, labels: Vec::new(), value, durations }
    }

    /// Adds a label. Labels must have few values and never be a key, which clients choose. All
    /// numbers of one name have the same labels.
    #[must_use]
    pub fn label(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.labels.push((name, value.into()));
        self
    }

    /// Adds the number, or the durations, of another store.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        self.value = self.value.saturating_add(other.value);
        self.durations = match (self.durations, &other.durations) {
            (Some(own), Some(others)) => Some(Box::new(own.plus(others))),
            (own, _) => own,
        };
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

    /// Returns the kind: a counter, a gauge or a histogram.
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

    /// Returns the durations of a histogram; `None` for another kind.
    #[must_use]
    pub fn durations(&self) -> Option<&HistogramCounts> {
        self.durations.as_deref()
    }
}
