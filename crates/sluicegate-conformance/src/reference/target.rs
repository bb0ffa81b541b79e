//! The model as a target for conformance cases.

use std::convert::Infallible;

use sluicegate_core::Policy;

use super::{Costs, Model, Operation, Retry};
use crate::cases::{self, Step, StepAnswer, StepError, Target};

impl Target for Model {
    type Error = Infallible;

    async fn open(&mut self, policies: Vec<Policy>) -> Result<(), Infallible> {
        *self = Self::new(policies);
        Ok(())
    }

    async fn set_policies(&mut self, policies: Vec<Policy>) -> Result<(), Infallible> {
        Self::set_policies(self, policies);
        Ok(())
    }

    async fn step(&mut self, step: &Step<'_>) -> Result<StepAnswer, StepError<Infallible>> {
        let costs = Costs::All(step.cost);
        let operation = if self.is_bookable() && step.timeout_us > 0 {
            Operation::Reserve { costs, within_us: step.timeout_us }
        } else {
            Operation::Check { costs }
        };
        let answer = self
            .apply(step.at_us, step.key, &operation)
            .map_err(|refusal| StepError::Refused(refusal.to_string()))?;
        let policies = answer.policies.iter();
        Ok(StepAnswer {
            allowed: answer.allowed,
            remaining: policies.clone().filter_map(|policy| policy.remaining).min(),
            retry: match answer.retry {
                Retry::Now => cases::Retry::Now,
                Retry::After(micros) => cases::Retry::After(micros),
                Retry::Never => cases::Retry::Never,
            },
            wait_us: answer.wait_us,
            refused: policies
                .enumerate()
                .filter(|(_, policy)| !policy.admitted)
                .map(|(index, _)| index)
                .collect(),
            violated: answer.policies.first().map(|log| log.violated.clone()).unwrap_or_default(),
        })
    }
}
