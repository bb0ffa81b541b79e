//! The Rust kernels over a plain map: the shortest way from a request to their answer.

use std::collections::HashMap;

use sluicegate_core::kernel::{Rule, Times, log};
use sluicegate_core::packed::State;
use sluicegate_core::{
    Costs, Decision, Evaluation, Identity, Limit, Member, Notes, Operation, Policy, Standing,
    StoreError, check_request, evaluate,
};

use crate::reference::Clock;

/// A store without keys that expire, memory that is bounded, or threads.
#[derive(Clone, Debug)]
pub struct Kernels {
    limit: Limit,
    clock: Clock,
    states: HashMap<StateKey, State>,
}

/// What a state is found by: the limit's part, its subject and the policy.
pub type StateKey = (usize, Vec<u8>, Identity);

impl Kernels {
    /// A store for one limit.
    ///
    /// # Panics
    /// When the policies can't be one limit.
    #[must_use]
    pub fn new(policies: Vec<Policy>, clock: Clock) -> Self {
        Self::of_limit(limit_of(policies), clock)
    }

    /// A store for one limit, which may be several together.
    #[must_use]
    pub fn of_limit(limit: Limit, clock: Clock) -> Self {
        Self { limit, clock, states: HashMap::new() }
    }

    /// Changes the policies and keeps what was consumed.
    ///
    /// # Panics
    /// When the policies can't be one limit.
    pub fn set_policies(&mut self, policies: Vec<Policy>) {
        self.limit = limit_of(policies);
    }

    /// The policies as a limit.
    #[must_use]
    pub const fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Everything that is kept.
    #[must_use]
    pub const fn states(&self) -> &HashMap<StateKey, State> {
        &self.states
    }

    /// What is kept of one subject of a part.
    #[must_use]
    pub fn of(&self, part: usize, subject: &[u8]) -> Vec<(Identity, State)> {
        let mine =
            self.states.iter().filter(|((other, key, _), _)| *other == part && key == subject);
        let mut states: Vec<_> = mine.map(|((.., id), state)| (*id, state.clone())).collect();
        states.sort_by_key(|(id, _)| *id);
        states
    }

    /// Makes some subjects what they were in an earlier store.
    pub fn put_back(&mut self, earlier: &Self, subjects: &[(usize, Vec<u8>)]) {
        for (part, subject) in subjects {
            self.states.retain(|(other, key, _), _| other != part || key != subject);
            for (id, state) in earlier.of(*part, subject) {
                self.states.insert((*part, subject.clone(), id), state);
            }
        }
    }

    /// Answers one request.
    ///
    /// # Errors
    /// Those of [`evaluate`].
    pub fn decide(
        &mut self,
        now: u64,
        key: &[u8],
        operation: Operation,
        costs: Costs<'_>,
    ) -> Result<Decision, StoreError> {
        self.decide_together(now, &[key], operation, costs)
    }

    /// Answers one request about one subject for each part of the limit.
    ///
    /// # Errors
    /// Those of [`evaluate`].
    pub fn decide_together(
        &mut self,
        now: u64,
        subjects: &[&[u8]],
        operation: Operation,
        costs: Costs<'_>,
    ) -> Result<Decision, StoreError> {
        check_request(&self.limit, operation, costs)?;
        let key =
            |member: &Member| (member.part(), subjects[member.part()].to_vec(), member.identity());
        let max_clock_back = match self.clock {
            Clock::Own { max_clock_back_us } => Some(max_clock_back_us),
            Clock::Injected => None,
        };
        let times = Times { now, max_clock_back };
        let members = self.limit.members();
        if operation == Operation::Reset {
            for member in members {
                self.states.remove(&key(member));
            }
        }
        let found: Vec<Option<State>> =
            members.iter().map(|member| self.states.get(&key(member)).cloned()).collect();
        let mut logs: Vec<log::State> = found
            .iter()
            .map(|state| {
                if let Some(State::Ring(log)) = state { log.clone() } else { log::State::default() }
            })
            .collect();
        let mut restamped = 0_u64;
        let mut standings = Vec::new();
        for (index, ((member, state), log)) in members.iter().zip(&found).zip(&mut logs).enumerate()
        {
            let rule = member.policy().rule();
            let (standing, is_restamped) = match (Standing::of(rule, state.as_ref(), times)?, rule)
            {
                (None, Rule::Log(rule)) => Standing::of_log(rule, log, times),
                (Some(standing), _) => standing,
                (None, _) => unreachable!("only a log stands apart"),
            };
            restamped |= u64::from(is_restamped) << index;
            standings.push(standing);
        }
        let Evaluation { decision, changed, .. } =
            evaluate(&self.limit, &mut standings, operation, costs)?;
        let keep = if operation == Operation::Peek { 0 } else { changed | restamped };
        let states: Vec<Option<State>> = members
            .iter()
            .zip(&standings)
            .map(|(member, standing)| standing.state(member.policy().rule()))
            .collect();
        for (index, (member, state)) in members.iter().zip(states).enumerate() {
            if keep & (1 << index) != 0 {
                let state = state.unwrap_or_else(|| State::Ring(logs[index].clone()));
                self.states.insert(key(member), state);
            }
        }
        Ok(decision.with_notes(Notes { restamped: restamped != 0, ..Notes::default() }))
    }
}

fn limit_of(policies: Vec<Policy>) -> Limit {
    #[expect(clippy::expect_used, reason = "a test that builds a bad limit has to hear of it")]
    Limit::new("test".parse().expect("a lawful name"), policies)
        .expect("policies that can be one limit")
}
