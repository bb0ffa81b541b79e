//! The slow and obvious store: a map from key and policy to state, in front of the core.

use std::collections::HashMap;

use sluicegate_core::kernel::{Rule, Times, log};
use sluicegate_core::packed::State;
use sluicegate_core::{
    Decision, Identity, Limit, Operation, Request, Standing, StoreError, check_request, evaluate,
};

#[derive(Debug, Default)]
pub(crate) struct Naive {
    small: HashMap<(Vec<u8>, Identity), State>,
    logs: HashMap<(Vec<u8>, Identity), log::State>,
}

impl Naive {
    pub(crate) fn decide(
        &mut self,
        limit: &Limit,
        request: Request<'_>,
        times: Times,
    ) -> Result<Decision, StoreError> {
        check_request(limit, request.operation, request.costs)?;
        let id = |member: &sluicegate_core::Member| (request.key.to_vec(), member.identity());
        if request.operation == Operation::Reset {
            self.small.retain(|(key, _), _| key != request.key);
            self.logs.retain(|(key, _), _| key != request.key);
        }
        let mut copies: Vec<log::State> = limit
            .members()
            .iter()
            .map(|member| self.logs.get(&id(member)).cloned().unwrap_or_default())
            .collect();
        let mut restamped = 0_u64;
        let mut standings = Vec::new();
        for (index, (member, copy)) in limit.members().iter().zip(&mut copies).enumerate() {
            let rule = member.policy().rule();
            let small = Standing::of(rule, self.small.get(&id(member)), times)?;
            let (standing, is_restamped) = match (rule, small) {
                (_, Some(small)) => small,
                (Rule::Log(rule), None) => Standing::of_log(rule, copy, times),
                _ => unreachable!("only logs have no small state"),
            };
            restamped |= u64::from(is_restamped) << index;
            standings.push(standing);
        }
        let mut evaluation = evaluate(limit, &mut standings, request.operation, request.costs)?;
        let mut keep = evaluation.changed | restamped;
        if request.operation == Operation::Peek {
            keep = 0;
        }
        for (index, (member, standing)) in limit.members().iter().zip(standings).enumerate() {
            if keep & (1 << index) == 0 {
                continue;
            }
            let small = match (member.policy().rule(), standing) {
                (Rule::Bucket(rule), Standing::Bucket(standing)) => {
                    State::Bucket(rule.state(&standing))
                }
                (Rule::Counter(rule), Standing::Counter(standing)) => {
                    State::Counter(rule.state(&standing))
                }
                (Rule::WarmUp(rule), Standing::WarmUp(standing)) => {
                    State::WarmUp(rule.state(&standing))
                }
                (Rule::Window(rule), Standing::Window(standing)) if standing.is_open() => {
                    State::Window(rule.state(&standing))
                }
                (_, Standing::Log { state, .. }) => {
                    self.logs.insert(id(member), state.clone());
                    continue;
                }
                _ => continue,
            };
            self.small.insert(id(member), small);
        }
        let mut notes = evaluation.decision.notes();
        notes.restamped = restamped != 0;
        evaluation.decision.set_notes(notes);
        Ok(evaluation.decision)
    }
}
