//! What to ask about a request.

use sluicegate_core::{Clock as _, Costs, Decision, Error, Limit};
use sluicegate_http::{FieldFormat, LimitFields, PreparedFields};
use sluicegate_memory::SystemClock;
use smallvec::SmallVec;

use crate::ask::Ask;
use crate::registry::RequestKeys;

/// What to ask about a request: per limit a key, and maybe a cost.
#[derive(Debug)]
pub(super) struct Question {
    keys: RequestKeys,
    /// By the index of the limit; limits beyond the end have their own costs.
    costs: SmallVec<[Option<u64>; 2]>,
}

/// The gate's answer, and the response fields if a limit was asked.
pub(super) type Answer = Result<(Decision, Option<LimitFields>), Error>;

impl Question {
    pub(super) const fn new(keys: RequestKeys, costs: SmallVec<[Option<u64>; 2]>) -> Self {
        Self { keys, costs }
    }

    /// Asks whether the request may pass.
    pub(super) fn ask(&self) -> Ask<'_> {
        self.keys.ask_with(|index, ask| match self.cost(index) {
            Some(units) => ask.cost(units),
            None => ask,
        })
    }

    /// Charges what the request used to all limits that were asked.
    pub(super) fn charge(&self, units: u64) -> Ask<'_> {
        self.keys.ask_with(|_, ask| ask.cost(units))
    }

    /// The response fields for an answer.
    pub(super) fn fields_of(
        &self,
        decision: &Decision,
        fields: Option<&LimitFields>,
    ) -> PreparedFields {
        let Some((fields, limit)) = fields.zip(decision.limit()) else {
            return PreparedFields::default();
        };
        let of = fields.of(decision);
        match fields.format() {
            FieldFormat::None if decision.is_allowed() => PreparedFields::default(),
            FieldFormat::DraftNext => match self.costs_of(limit) {
                Some(costs) => of.costs(Costs::Each(&costs)).prepare(),
                None => of.prepare(),
            },
            // Clients compare with this clock; the store's may differ.
            FieldFormat::XRateLimitUnix => of.at(SystemClock::new().now()).prepare(),
            _ => of.prepare(),
        }
    }

    /// The cost under each policy, if all limits were asked.
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
