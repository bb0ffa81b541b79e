//! The metrics of the service.

use std::num::NonZeroUsize;

/// The metrics of the service.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct MetricsConfig {
    /// Maximum number of series of limits: different sets of labels. Further limits count together under the limit
    /// `other`. Default: `None`, for 10,000.
    pub max_series: Option<NonZeroUsize>,
}
