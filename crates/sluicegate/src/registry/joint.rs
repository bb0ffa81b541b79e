//! Joint limiters: the limits of a gate that are asked together, per combination of their numbers.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use sluicegate_core::{
    Acknowledgement, Error, Limit, OpenOptions, RequestError, RequestErrorKind, SharedStore,
};
use smallvec::SmallVec;

use super::prepared::{Partitions, Prepared};
use super::resolved::{Known, Resolved};
use crate::config::{Config, OnStoreFailure};
use crate::limiter::Limiter;

/// The set of numbers of each limit of a gate; `None` for a limit that is not asked.
pub(super) type Numbers = SmallVec<[Option<u32>; 4]>;

/// Limiters of limits that are decided together, created when a combination of numbers first
/// occurs.
///
/// Keys choose the combinations, so their number is bounded. Writers copy the table, so that
/// readers never wait.
#[derive(Debug, Default)]
pub(super) struct Joint(ArcSwap<HashMap<Numbers, Arc<Prepared>>>);

impl Joint {
    /// The maximum number of combinations. Beyond it the table starts over.
    const MOST: usize = 256;

    /// The limiter of all parts of `resolved` that have numbers.
    pub(super) fn limiter(
        &self,
        numbers: &Numbers,
        resolved: &Resolved,
    ) -> Result<Arc<Prepared>, Error> {
        if let Some(limiter) = self.0.load().get(numbers) {
            return Ok(Arc::clone(limiter));
        }
        let limiter = Arc::new(together(numbers, resolved)?);
        self.0.rcu(|known| {
            let mut table =
                if known.len() < Self::MOST { HashMap::clone(known) } else { HashMap::new() };
            table.insert(numbers.clone(), Arc::clone(&limiter));
            table
        });
        Ok(limiter)
    }
}

/// Joins limiters into one. Its deadline is the shortest of theirs, it asks of replicas whatever any of
/// them asks, and when the store fails it does what the strictest of them does.
#[cold]
fn together(numbers: &Numbers, resolved: &Resolved) -> Result<Prepared, Error> {
    let parts = &resolved.parts;
    let asked: SmallVec<[(&Known, &Limiter); 4]> = parts
        .iter()
        .zip(numbers)
        .filter_map(|(part, numbers)| {
            let known = part.known()?;
            Some((known, &***known.prepared((*numbers)?)))
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
    options.falls_back = Some(answer == OnStoreFailure::Local);
    let limiter = Limiter::builder(SharedStore::clone(first.store()), limit)
        .options(options)
        .on_store_failure(answer)
        .observers(first.observers().clone());
    let partitions: Option<Partitions> =
        asked.iter().map(|(known, _)| known.partition.clone()).collect();
    Ok(Prepared::new(limiter.build(), resolved.format, partitions.unwrap_or_default()))
}

fn invalid(message: String) -> Error {
    RequestError::new(RequestErrorKind::Invalid, message).into()
}
