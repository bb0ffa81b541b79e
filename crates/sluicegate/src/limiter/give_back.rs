//! Giving back what one request took.

use sluicegate_core::{Decision, Store};

use super::Limiter;
use crate::ask::Ask;

impl<S: Store> Limiter<S> {
    /// What is given back of what a decision took; `None` if it took that under other numbers.
    pub(crate) fn returned<'a>(&self, ask: &Ask<'a>, taken: &Decision) -> Option<Ask<'a>> {
        if taken.limit() != Some(self.limit()) {
            return None;
        }
        // Nothing was taken from a shadow that would have refused.
        let refused = taken.policies().enumerate().filter(|(_, policy)| !policy.is_admitted());
        let refused = refused.fold(0, |bits, (index, _)| bits | 1 << index);
        Some(ask.clone().sparing(refused))
    }
}
