//! A store as a target for cases.

use std::collections::HashSet;
use std::fmt;

use sluicegate_core::{
    Cost, Costs, Error, Limit, LimitName, OpenOptions, OpenedLimit as _, Operation, Policy,
    Request, RequestError, RequestErrorKind, Span, Store, TimeSource, Timestamp,
};

use super::run::{Step, StepAnswer, StepError, Target};
use crate::fresh::fresh;

/// A store under injected time. Each case has its own states, which are deleted after it.
pub struct StoreTarget<'s, S: Store> {
    store: &'s S,
    /// A unique name of this run.
    run: String,
    cases: u64,
    current: Option<Current<S::Opened>>,
}

struct Current<L> {
    opened: L,
    keys: HashSet<Vec<u8>>,
    last: Timestamp,
}

impl<'s, S: Store> StoreTarget<'s, S> {
    /// Creates a target that runs cases against `store`.
    #[must_use]
    pub fn new(store: &'s S) -> Self {
        Self { store, run: fresh("conformance"), cases: 0, current: None }
    }

    /// Deletes the states of the last case. Nothing else deletes them.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn forget(&mut self) -> Result<(), Error> {
        let Some(current) = self.current.take() else {
            return Ok(());
        };
        for key in &current.keys {
            let reset = Request::new(Operation::Reset, key).at(current.last);
            let _ = current.opened.ask(reset).wait().await?;
        }
        Ok(())
    }

    fn prepare(&self, policies: Vec<Policy>) -> Result<S::Opened, Error> {
        let name: LimitName = "conformance".parse().map_err(invalid)?;
        let limit = Limit::new(name, policies).map_err(invalid)?;
        let run = format!("{}-{}", self.run, self.cases);
        let options = OpenOptions::default().time(TimeSource::Injected { run });
        Ok(self.store.open(limit, options))
    }
}

impl<S: Store> Target for StoreTarget<'_, S> {
    type Error = Error;

    async fn open(&mut self, policies: Vec<Policy>) -> Result<(), Error> {
        self.forget().await?;
        self.cases += 1;
        let opened = self.prepare(policies)?;
        self.current = Some(Current { opened, keys: HashSet::new(), last: Timestamp::EPOCH });
        Ok(())
    }

    async fn set_policies(&mut self, policies: Vec<Policy>) -> Result<(), Error> {
        let opened = self.prepare(policies)?;
        if let Some(current) = &mut self.current {
            current.opened = opened;
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step<'_>) -> Result<StepAnswer, StepError<Error>> {
        let current = self.current.as_mut().ok_or_else(|| refused("no limit is open"))?;
        let at = Timestamp::from_micros(step.at_us).map_err(refused)?;
        let cost = Cost::new(step.cost).map_err(refused)?;
        let within = Span::from_micros(step.timeout_us).map_err(refused)?;
        let operation = if within.is_zero() || !current.opened.limit().can_reserve() {
            Operation::Check
        } else {
            Operation::Reserve { within }
        };
        if !current.keys.contains(step.key) {
            current.keys.insert(step.key.to_vec());
        }
        current.last = at;
        let request = Request::new(operation, step.key).costs(Costs::Same(cost)).at(at);
        match current.opened.ask(request).wait().await {
            Ok(decision) => Ok(StepAnswer::from(&decision)),
            Err(error) if error.is_store_failure() => Err(StepError::Store(error)),
            Err(error) => Err(refused(error)),
        }
    }
}

impl<S: Store> fmt::Debug for StoreTarget<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreTarget")
            .field("store", &self.store.id())
            .field("cases", &self.cases)
            .finish_non_exhaustive()
    }
}

fn refused(problem: impl fmt::Display) -> StepError<Error> {
    StepError::Refused(problem.to_string())
}

fn invalid(problem: impl fmt::Display) -> Error {
    RequestError::new(RequestErrorKind::Invalid, problem.to_string()).into()
}
