//! The response fields of a gate's answers.

use arc_swap::ArcSwap;
use sluicegate_core::Limit;
use sluicegate_http::{FieldFormat, LimitFields, Partition};

/// The response fields of each limit that has answered, written once.
#[derive(Debug, Default)]
pub(super) struct ResponseFields(ArcSwap<Vec<Written>>);

/// The fields of a limit.
#[derive(Clone, Debug)]
struct Written {
    limit: Limit,
    fields: LimitFields,
}

/// The response fields of a gate, which override the configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    pub(crate) format: Option<FieldFormat>,
    /// By the index of the limit.
    pub(crate) partitions: Vec<ShownPartition>,
}

/// Which parts of a key clients see.
#[derive(Clone, Debug)]
pub(crate) enum ShownPartition {
    /// The parts that the limit's configuration selects.
    Configured,
    Given(Partition),
}

impl ResponseFields {
    /// Maximum number of limits that are remembered at a time.
    const MOST: usize = 1_024;

    pub(super) fn of(&self, limit: &Limit, write: impl FnOnce() -> LimitFields) -> LimitFields {
        let is_same = |written: &&Written| written.limit.is_same(limit);
        if let Some(written) = self.0.load().iter().find(is_same) {
            return written.fields.clone();
        }
        let fields = write();
        let written = Written { limit: limit.clone(), fields: fields.clone() };
        self.0.rcu(|known| {
            let mut known = if known.len() < Self::MOST { Vec::clone(known) } else { Vec::new() };
            known.push(written.clone());
            known
        });
        fields
    }
}
