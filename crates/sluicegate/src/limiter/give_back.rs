//! Gives back the units of one request.

use sluicegate_core::{Decision, Store};

use super::Limiter;
use crate::ask::Ask;

impl<S: Store> Limiter<S> {
    /// Returns the part of a decision's units to give back; `None` if it charged them under other numbers.
    pub(crate) fn returned<'a>(&self, ask: &Ask<'a>, taken: &Decision) -> Option<Ask<'a>> {
        if taken.limit() != Some(self.limit()) {
            return None;
        }
        // A shadow that would have refused took nothing.
        let refused = taken.policies().enumerate().filter(|(_, policy)| !policy.is_admitted());
        let refused = refused.fold(0, |bits, (index, _)| bits | 1 << index);
        Some(ask.clone().sparing(refused))
    }
}
