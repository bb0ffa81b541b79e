//! A request for the verdict on some descriptors.

use super::unit::Unit;

/// The request of a proxy: descriptors in a domain.
#[derive(Clone, Debug, Default)]
pub struct Request<'a> {
    /// Name of the domain.
    pub domain: &'a str,
    /// Descriptors, which are evaluated separately.
    pub descriptors: Vec<Descriptor<'a>>,
    /// Hits of each descriptor without its own; 0 means 1.
    pub hits_addend: u32,
}

/// A descriptor of a request.
#[derive(Clone, Debug, Default)]
pub struct Descriptor<'a> {
    /// Keys and values, each found on the level of the one before.
    pub entries: Vec<(&'a str, &'a str)>,
    /// Limit that replaces the rules.
    pub limit: Option<Override>,
    /// Hits of this descriptor; 0 only looks. Absent, the request's count.
    pub hits_addend: Option<u64>,
    /// Whether the hits are given back.
    pub is_negative_hits: bool,
}

/// A limit that a request brings.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Override {
    /// Number of requests per unit.
    pub requests_per_unit: u32,
    /// Unit of the limit.
    pub unit: Unit,
}

impl Override {
    /// Makes a limit of a message's fields. Returns `None` if no unit has this number.
    #[must_use]
    pub fn new(requests_per_unit: u32, unit: i32) -> Option<Self> {
        Some(Self { requests_per_unit, unit: Unit::from_number(unit)? })
    }
}

impl Request<'_> {
    /// Returns the hits of a descriptor of this request.
    #[must_use]
    pub fn hits(&self, descriptor: &Descriptor<'_>) -> u64 {
        descriptor.hits_addend.unwrap_or_else(|| u64::from(self.hits_addend.max(1)))
    }
}
