//! The slow and obvious store: a map from key and policy to state, in front of the core.

use std::collections::HashMap;

use sluicegate_core::for_stores::{Identity, Stored, step};
use sluicegate_core::kernel::{Now, State};
use sluicegate_core::{Decision, Error, Limit, Operation, Request};

#[derive(Debug, Default)]
pub(crate) struct Naive(HashMap<(Vec<u8>, Identity), State>);

impl Naive {
    pub(crate) fn decide(
        &mut self,
        limit: &Limit,
        request: Request<'_>,
        now: Now,
    ) -> Result<Decision, Error> {
        if request.operation() == Operation::Reset {
            self.0.retain(|(key, _), _| key != request.key());
        }
        let id = |member: &sluicegate_core::Member| (request.key().to_vec(), member.identity());
        let mut held: Vec<Option<Stored>> = limit
            .members()
            .iter()
            .map(|member| self.0.get(&id(member)).cloned().map(Stored::State))
            .collect();
        let step = step(limit, &request, now, &mut held)?;
        for (index, (member, held)) in limit.members().iter().zip(held).enumerate() {
            if step.changed & (1 << index) == 0 {
                continue;
            }
            match held {
                Some(Stored::State(state)) => drop(self.0.insert(id(member), state)),
                _ => drop(self.0.remove(&id(member))),
            }
        }
        Ok(step.decision)
    }
}
