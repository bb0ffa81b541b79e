//! What is asked about a request.

use sluicegate_core::{Clock as _, Costs, Decision, Error, Limit};
use sluicegate_http::{FieldFormat, LimitFields, ReadyFields};
use sluicegate_memory::SystemClock;
use smallvec::SmallVec;

use crate::ask::Ask;
use crate::registry::RequestKeys;

/// What is asked about a request: one key, and perhaps a cost, for each limit.
#[derive(Debug)]
pub(super) struct Question {
    keys: RequestKeys,
    /// By the place of the limit; a shorter list leaves the others at their own costs.
    costs: SmallVec<[Option<u64>; 2]>,
}

/// What the gate says, and how a client is told if a limit was asked.
pub(super) type Answer = Result<(Decision, Option<LimitFields>), Error>;

impl Question {
    pub(super) const fn new(keys: RequestKeys, costs: SmallVec<[Option<u64>; 2]>) -> Self {
        Self { keys, costs }
    }

    /// May the request pass?
    pub(super) fn ask(&self) -> Ask<'_> {
        self.keys.ask_with(|index, ask| match self.cost(index) {
            Some(units) => ask.cost(units),
            None => ask,
        })
    }

    /// What it used is charged to all that were asked.
    pub(super) fn charge(&self, units: u64) -> Ask<'_> {
        self.keys.ask_with(|_, ask| ask.cost(units))
    }

    /// The response fields of an answer.
    pub(super) fn fields_of(
        &self,
        decision: &Decision,
        fields: Option<&LimitFields>,
    ) -> ReadyFields {
        let Some((fields, limit)) = fields.zip(decision.limit()) else {
            return ReadyFields::default();
        };
        let of = fields.of(decision);
        match fields.format() {
            FieldFormat::None if decision.is_allowed() => ReadyFields::default(),
            FieldFormat::DraftNext => match self.costs_of(limit) {
                Some(costs) => of.costs(Costs::Each(&costs)).ready(),
                None => of.ready(),
            },
            // Clients go by this clock: stores may have another one.
            FieldFormat::XRateLimitUnix => of.at(SystemClock::new().now()).ready(),
            _ => of.ready(),
        }
    }

    /// What was asked of each policy, if all limits were asked.
    fn costs_of(&self, limit: &Limit) -> Option<SmallVec<[u64; 4]>> {
        let asked = self.keys.iter().flatten().count();
        (asked == self.keys.iter().len() && asked == limit.parts().len()).then(|| {
            let members = limit.members().iter();
            let own = |member: &sluicegate_core::Member| member.policy().cost().get();
            members.map(|member| self.cost(member.part()).unwrap_or_else(|| own(member))).collect()
        })
    }

    fn cost(&self, index: usize) -> Option<u64> {
        self.costs.get(index).copied().flatten()
    }
}
