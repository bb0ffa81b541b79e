//! What is asked about a request.

use sluicegate_core::Limit;
use sluicegate_http::FieldFormat;
use smallvec::SmallVec;

use super::admission::Admission;
use super::refusal::Refusal;
use crate::ask::Ask;
use crate::registry::RequestKeys;

/// What happens to a request.
pub(crate) enum Verdict {
    /// It is let in.
    Admit(Admission),
    /// The store has to be waited for, which is asked this.
    Wait(Box<Question>),
    /// It is turned away.
    Refuse(Box<Refusal>),
}

/// What is asked about a request: one key, and perhaps a cost, for each limit.
#[derive(Debug)]
pub(crate) struct Question {
    keys: RequestKeys,
    /// By the place of the limit; a shorter list leaves the others at their own costs.
    costs: SmallVec<[Option<u64>; 2]>,
    /// How the client is told of the answer.
    format: FieldFormat,
}

impl Question {
    pub(super) const fn new(
        keys: RequestKeys,
        costs: SmallVec<[Option<u64>; 2]>,
        format: FieldFormat,
    ) -> Self {
        Self { keys, costs, format }
    }

    pub(super) const fn format(&self) -> FieldFormat {
        self.format
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

    /// What was asked of each policy, if all limits were asked.
    pub(super) fn costs_of(&self, limit: &Limit) -> Option<SmallVec<[u64; 16]>> {
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
