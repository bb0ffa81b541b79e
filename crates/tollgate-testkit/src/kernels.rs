//! The Rust kernels over a plain map: the shortest way from a request to their answer.

use std::collections::HashMap;

use tollgate_core::kernel::{Rule, Times, log};
use tollgate_core::packed::State;
use tollgate_core::{
    Costs, Decision, Evaluation, Identity, Limit, Notes, Operation, Policy, Standing, StoreError,
    check_request, evaluate,
};

use crate::reference::Clock;

/// A store without keys that expire, memory that is bounded, or threads.
#[derive(Debug)]
pub struct Kernels {
    limit: Limit,
    clock: Clock,
    states: HashMap<(Vec<u8>, Identity), State>,
}

impl Kernels {
    /// A store for one limit.
    ///
    /// # Panics
    /// When the policies can't be one limit.
    #[must_use]
    pub fn new(policies: Vec<Policy>, clock: Clock) -> Self {
        Self { limit: limit_of(policies), clock, states: HashMap::new() }
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
    pub const fn states(&self) -> &HashMap<(Vec<u8>, Identity), State> {
        &self.states
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
        check_request(&self.limit, operation, costs)?;
        let max_clock_back = match self.clock {
            Clock::Own { max_clock_back_us } => Some(max_clock_back_us),
            Clock::Injected => None,
        };
        let times = Times { now, max_clock_back };
        let members = self.limit.members();
        if operation == Operation::Reset {
            for member in members {
                self.states.remove(&(key.to_vec(), member.identity()));
            }
        }
        let found: Vec<Option<State>> = members
            .iter()
            .map(|member| self.states.get(&(key.to_vec(), member.identity())).cloned())
            .collect();
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
                self.states.insert((key.to_vec(), member.identity()), state);
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
