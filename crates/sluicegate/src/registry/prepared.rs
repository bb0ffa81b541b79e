//! A limiter with what clients are told of its answers.

use std::ops::Deref;
use std::sync::OnceLock;

use sluicegate_http::{FieldFormat, LimitFields, Partition};
use smallvec::SmallVec;

use crate::limiter::Limiter;

/// A limiter with the response fields that tell of its decisions. They are made at the first
/// answer that shows them: most gates show none.
#[derive(Debug)]
pub(crate) struct Prepared {
    limiter: Limiter,
    format: FieldFormat,
    partitions: Partitions,
    fields: OnceLock<LimitFields>,
}

/// One for each part of a limit; none where they are not told.
pub(super) type Partitions = SmallVec<[Partition; 1]>;

/// What the clients of a gate are told of its limits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    /// As the configuration says, unless given.
    pub(crate) format: Option<FieldFormat>,
    /// What divides each limit's quota, in the order of the gate; none where that is not told.
    pub(crate) partitions: Vec<ShownPartition>,
}

/// What divides a limit's quota.
#[derive(Clone, Debug)]
pub(crate) enum ShownPartition {
    /// The key that the configuration says.
    Configured,
    Given(Partition),
}

impl Prepared {
    pub(super) const fn new(limiter: Limiter, format: FieldFormat, partitions: Partitions) -> Self {
        Self { limiter, format, partitions, fields: OnceLock::new() }
    }

    /// The response fields of the limiter's decisions.
    pub(crate) fn fields(&self) -> &LimitFields {
        self.fields.get_or_init(|| {
            LimitFields::new(self.limiter.limit(), self.format).with_partitions(&self.partitions)
        })
    }
}

impl Deref for Prepared {
    type Target = Limiter;

    fn deref(&self) -> &Limiter {
        &self.limiter
    }
}
