//! Domains and their descriptors as a file or a message of xDS has them, before they are checked.

use std::sync::Arc;

use super::block::Block;
use super::metadata::Metadata;
use super::position::Span;
use super::source::Source;

/// A domain, as one file or one `RateLimitConfig` has it.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct DomainConfig {
    /// Name of the file or resource, for messages.
    pub origin: String,
    /// Name of the domain, which requests give.
    pub domain: String,
    /// Descriptors of the first level.
    pub descriptors: Vec<DescriptorConfig>,
    /// The domain's `x_sluicegate` block, which only a file can have.
    pub(crate) block: Option<Arc<Block>>,
    pub(crate) span: Option<Span>,
    pub(crate) source: Option<Arc<Source>>,
}

impl DomainConfig {
    /// Makes a domain that isn't from a file. Messages call it `origin`.
    #[must_use]
    pub fn new(origin: &str, domain: &str, descriptors: Vec<DescriptorConfig>) -> Self {
        let (origin, domain) = (origin.to_owned(), domain.to_owned());
        Self { origin, domain, descriptors, ..Self::default() }
    }
}

/// A descriptor of a domain: one level of rules.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DescriptorConfig {
    /// Key of the entry; may have the wildcard `*`.
    pub key: String,
    /// Value of the entry; may have the wildcard `*`. If empty, any value matches.
    pub value: String,
    /// Limit of requests whose entries end here.
    pub rate_limit: Option<LimitConfig>,
    /// Descriptors of the next level.
    pub descriptors: Vec<DescriptorConfig>,
    /// Whether the limit is only reported.
    pub shadow_mode: bool,
    /// Whether requests pass while another quota of theirs isn't used up.
    pub quota_mode: bool,
    /// Whether the limit's counters are named after the request's entries.
    pub detailed_metric: bool,
    /// Whether the limit's counters have this entry's value in their names.
    pub value_to_metric: bool,
    /// Whether all values that match the wildcard share one limit.
    pub share_threshold: bool,
    /// Metadata for answers to requests that pass.
    pub metadata: Metadata,
    /// The descriptor's `x_sluicegate` block, which only a file can have.
    pub(crate) block: Option<Arc<Block>>,
    pub(crate) span: Option<Span>,
}

impl DescriptorConfig {
    /// Makes a descriptor without a limit.
    #[must_use]
    pub fn new(key: &str, value: &str) -> Self {
        Self { key: key.to_owned(), value: value.to_owned(), ..Self::default() }
    }
}

/// The limit of a descriptor.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LimitConfig {
    /// Number of requests per unit. A limit without it denies all requests.
    pub requests_per_unit: Option<u32>,
    /// Name of a [`Unit`](super::Unit), in letters of any case. An unlimited limit has no unit.
    pub unit: String,
    /// Whether there is no limit.
    pub unlimited: bool,
    /// Name by which other limits replace this one.
    pub name: String,
    /// Names of the limits that this one replaces.
    pub replaces: Vec<ReplacedLimit>,
    pub(crate) span: Option<Span>,
    pub(crate) unit_span: Option<Span>,
}

impl LimitConfig {
    /// Makes a limit of `requests_per_unit`.
    #[must_use]
    pub fn new(requests_per_unit: u32, unit: &str) -> Self {
        let requests_per_unit = Some(requests_per_unit);
        Self { requests_per_unit, unit: unit.to_owned(), ..Self::default() }
    }
}

/// The name of a limit that another one replaces.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ReplacedLimit {
    /// Name of the replaced limit.
    pub name: String,
    pub(crate) span: Option<Span>,
}

impl ReplacedLimit {
    /// Makes a name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), span: None }
    }
}
