//! Joint limiters, for the limits of a gate that are asked together.

use sluicegate_core::{
    Acknowledgement, Error, Limit, OpenOptions, RequestError, RequestErrorKind, SharedStore,
};
use smallvec::SmallVec;

use super::combinations::Numbers;
use super::resolved::{Known, Part, Resolved};
use crate::config_file::Config;
use crate::layers::FallsBack;
use crate::limiter::Limiter;
use crate::on_store_failure::OnStoreFailure;

impl Resolved {
    /// Returns a limiter of all limits in force, each with its own numbers; `None` if none is in force.
    pub(super) fn with_own_numbers(&self) -> Option<Result<Limiter, Error>> {
        let numbers: Numbers = self.parts.iter().map(|part| part.in_force().map(|_| 0)).collect();
        let first = self.parts.iter().find_map(Part::in_force)?;
        if self.parts.len() == 1 {
            return Some(Ok(first.limiter(0).clone()));
        }
        Some(self.joint(&numbers))
    }

    /// Returns the limiter of all parts that have numbers.
    pub(super) fn joint(&self, numbers: &Numbers) -> Result<Limiter, Error> {
        self.combinations.limiter(numbers, || together(numbers, self))
    }
}

/// Joins limiters into one. It has the shortest of their deadlines and the strictest of their acknowledgements by
/// replicas. When the store fails, it gives the strictest of their answers.
#[cold]
fn together(numbers: &Numbers, resolved: &Resolved) -> Result<Limiter, Error> {
    let parts = &resolved.parts;
    let asked: SmallVec<[(&Known, &Limiter); 4]> = parts
        .iter()
        .zip(numbers)
        .filter_map(|(part, numbers)| {
            let known = part.known()?;
            Some((known, known.limiter((*numbers)?)))
        })
        .collect();
    // Include the limits that are not asked this time, so that the names in response fields don't
    // vary.
    let known = parts.iter().filter_map(|part| Some(&part.known()?.opened.config.limit));
    let limit = Limit::together(asked.iter().map(|(_, limiter)| limiter.limit().clone()))
        .map_err(|error| invalid(error.to_string()))?
        .with_namesakes_of(known);
    // Gates are joined only if their stores are the same.
    let Some((_, first)) = asked.first() else {
        return Err(invalid("there is nothing to ask".to_owned()));
    };
    let mut options = OpenOptions::default();
    let deadlines = asked.iter().map(|(known, _)| known.opened.config.deadline);
    if deadlines.clone().any(|deadline| deadline.is_some()) {
        let shortest = deadlines.map(|deadline| deadline.unwrap_or(Config::DEADLINE)).min();
        options.deadline = shortest;
    }
    let asked_of_replicas = asked.iter().filter_map(|(known, _)| known.opened.config.replicas);
    options.acknowledged = asked_of_replicas.reduce(Acknowledgement::strictest);
    let strictness = |answer: &OnStoreFailure| match answer {
        OnStoreFailure::Allow => 0,
        OnStoreFailure::Local => 1,
        OnStoreFailure::Deny => 2,
        OnStoreFailure::Error => 3,
    };
    let answers = asked.iter().map(|(known, _)| known.opened.config.on_store_failure);
    let answer = answers.max_by_key(strictness).unwrap_or_default();
    let options = options.layer(FallsBack(answer == OnStoreFailure::Local));
    let limiter = Limiter::builder(SharedStore::clone(first.store()), limit)
        .options(options)
        .on_store_failure(answer)
        .observers(first.observers().clone());
    Ok(limiter.build_for_registry())
}

fn invalid(message: String) -> Error {
    RequestError::new(RequestErrorKind::Invalid, message).into()
}
