//! A limiter with the response fields for its answers.

use std::ops::Deref;
use std::sync::OnceLock;

use sluicegate_http::{FieldFormat, LimitFields, Partition};
use smallvec::SmallVec;

use crate::limiter::Limiter;

/// A limiter with the response fields for its decisions. They are prepared for the first answer
/// that shows them, because most gates show none.
#[derive(Debug)]
pub(crate) struct LimiterWithFields {
    limiter: Limiter,
    format: FieldFormat,
    partitions: Partitions,
    fields: OnceLock<LimitFields>,
}

/// One per part of the limit; none if clients don't get them.
pub(super) type Partitions = SmallVec<[Partition; 1]>;

/// The response fields for the clients of a gate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    /// The configuration's format, unless set here.
    pub(crate) format: Option<FieldFormat>,
    /// The partition key of each limit, in the order of the gate; none if clients don't get it.
    pub(crate) partitions: Vec<ShownPartition>,
}

/// The partition key of a limit, which divides its quota among clients.
#[derive(Clone, Debug)]
pub(crate) enum ShownPartition {
    /// The configured key.
    Configured,
    Given(Partition),
}

impl LimiterWithFields {
    pub(super) const fn new(limiter: Limiter, format: FieldFormat, partitions: Partitions) -> Self {
        Self { limiter, format, partitions, fields: OnceLock::new() }
    }

    /// The response fields for the limiter's decisions.
    pub(crate) fn fields(&self) -> &LimitFields {
        self.fields.get_or_init(|| {
            LimitFields::new(self.limiter.limit(), self.format).with_partitions(&self.partitions)
        })
    }
}

impl Deref for LimiterWithFields {
    type Target = Limiter;

    fn deref(&self) -> &Limiter {
        &self.limiter
    }
}
