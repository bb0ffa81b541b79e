//! Numbers that stores and layers count, for a metrics page.

/// What a number on a metrics page is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MeasureKind {
    /// It only grows.
    Counter,
    /// It is what is the case now.
    Gauge,
}

/// A number that a store or a layer counts, under a name in the style of Prometheus: without the
/// prefix of the program, and without the suffix of a counter.
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
    /// A number that only grows.
    #[must_use]
    pub const fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { name, help, kind: MeasureKind::Counter, labels: Vec::new(), value }
    }

    /// A number that is what is the case now.
    #[must_use]
    pub const fn gauge(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { name, help, kind: MeasureKind::Gauge, labels: Vec::new(), value }
    }

    /// The same number under one more label. Labels must be few and never a key, which clients choose.
    /// All numbers of one name have the same labels.
    #[must_use]
    pub fn label(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.labels.push((name, value.into()));
        self
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What it counts, as a sentence without a full stop.
    #[must_use]
    pub const fn help(&self) -> &'static str {
        self.help
    }

    /// Whether it only grows.
    #[must_use]
    pub const fn kind(&self) -> MeasureKind {
        self.kind
    }

    /// Names and values of its labels.
    #[must_use]
    pub fn labels(&self) -> impl ExactSizeIterator<Item = (&'static str, &str)> {
        self.labels.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// The number.
    #[must_use]
    pub const fn value(&self) -> u64 {
        self.value
    }
}
