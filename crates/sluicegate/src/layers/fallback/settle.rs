//! Charges a store with the pending units of a subject.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sluicegate_core::{Costs, Error, Member, OpenedLimit, Operation, Request, StoreErrorKind};
use smallvec::SmallVec;

use super::debts::Settlement;
use super::shared::Shared;

/// Charges a store with the pending units of a subject. If the store failed just before, a read is sent first, because
/// a charge without an answer counts as made.
pub(super) async fn settle<L: OpenedLimit>(
    shared: Arc<Shared<L>>,
    opened: Arc<L>,
    subject: Box<[u8]>,
    mut settlement: Settlement,
) {
    let peek = Request::new(Operation::Peek, &subject);
    let nodes = opened.nodes(&peek);
    let node = nodes.first().copied();
    if shared.absences.is_failing(node)
        && let Err(Error::Store(error)) = opened.ask(peek).wait().await
    {
        return settlement.fail(error);
    }
    let owed = |member: &Member| {
        let units = settlement.owed.iter().find(|(policy, _)| *policy == member.identity());
        units.map_or(0, |(_, units)| *units)
    };
    let costs: SmallVec<[u64; 4]> = opened.limit().members().iter().map(owed).collect();
    settlement.begin();
    let charge = Request::new(Operation::Charge, &subject).costs(Costs::Each(&costs));
    let answer = opened.ask(charge).wait().await;
    match answer {
        Ok(decision) => {
            shared.counts.charged.fetch_add(1, Ordering::Relaxed);
            shared.heard(|| nodes, &decision);
        }
        Err(Error::Store(error)) if has_charged_nothing(error.kind()) => settlement.fail(error),
        Err(error) => {
            shared.counts.uncertain.fetch_add(1, Ordering::Relaxed);
            // Otherwise the state can't hold more than it does.
            if let Error::Store(error) = error {
                settlement.give_up(error);
            }
        }
    }
}

/// Returns whether a failed call is known not to have charged. An error that the server sent instead of a decision
/// counts too.
const fn has_charged_nothing(kind: StoreErrorKind) -> bool {
    !matches!(
        kind,
        StoreErrorKind::Timeout | StoreErrorKind::Disconnected | StoreErrorKind::Unacknowledged
    )
}
