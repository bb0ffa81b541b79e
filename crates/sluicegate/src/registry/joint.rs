//! Those limits of a gate that are asked, as one, for every combination of their numbers that comes
//! up.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use sluicegate_core::{Limit, StoreError, StoreErrorKind};
use smallvec::SmallVec;

use super::opened::Opened;
use super::resolved::Part;
use crate::any_store::AnyStore;
use crate::config::OnStoreFailure;
use crate::limiter::Limiter;

/// With which numbers each of the limits of a gate is asked; `None` for one that isn't.
pub(super) type Numbers = SmallVec<[Option<u32>; 4]>;

/// Limits that are decided together, made when a combination of numbers first comes up.
///
/// Keys choose the combinations, so only so many are kept. The table is copied to be changed:
/// whoever reads it waits for nobody.
#[derive(Debug, Default)]
pub(super) struct Joint(ArcSwap<HashMap<Numbers, Arc<Limiter<AnyStore>>>>);

impl Joint {
    /// The most combinations that are kept. Beyond them the table begins anew.
    const MOST: usize = 256;

    /// The limiter of all parts that have numbers.
    pub(super) fn limiter(
        &self,
        numbers: &Numbers,
        parts: &[Part],
    ) -> Result<Arc<Limiter<AnyStore>>, StoreError> {
        if let Some(limiter) = self.0.load().get(numbers) {
            return Ok(Arc::clone(limiter));
        }
        let limiter = Arc::new(together(numbers, parts)?);
        self.0.rcu(|known| {
            let mut table =
                if known.len() < Self::MOST { HashMap::clone(known) } else { HashMap::new() };
            table.insert(numbers.clone(), Arc::clone(&limiter));
            table
        });
        Ok(limiter)
    }
}

/// One limiter of several. It has the store of the part that waits for it the shortest, and when
/// that fails it does what the strictest says.
#[cold]
fn together(numbers: &Numbers, parts: &[Part]) -> Result<Limiter<AnyStore>, StoreError> {
    let asked: SmallVec<[(&Arc<Opened>, &Limiter<AnyStore>); 4]> = parts
        .iter()
        .zip(numbers)
        .filter_map(|(part, numbers)| match part {
            Part::Known(opened, _) => Some((opened, opened.limiter((*numbers)?))),
            Part::Unknown { .. } => None,
        })
        .collect();
    let invalid = |message: String| StoreError::new(StoreErrorKind::InvalidRequest, message);
    // Those that aren't asked this time count for the names that clients see, which stay the same.
    let known = parts.iter().filter_map(|part| match part {
        Part::Known(opened, _) => Some(&opened.config.limit),
        Part::Unknown { .. } => None,
    });
    let limit = Limit::together(asked.iter().map(|(_, limiter)| limiter.limit().clone()))
        .map_err(|error| invalid(error.to_string()))?
        .beside(known);
    let quickest = asked.iter().min_by_key(|(opened, _)| opened.config.deadline);
    let (_, quickest) = quickest.ok_or_else(|| invalid("there is nothing to ask".to_owned()))?;
    if let Some((other, _)) =
        asked.iter().find(|(_, other)| are_apart(other.store(), quickest.store()))
    {
        return Err(invalid(format!(
            "limits `{}` and `{}` have different stores: what is decided together is counted in one",
            quickest.limit().name(),
            other.name()
        )));
    }
    let strictness = |answer: &OnStoreFailure| match answer {
        OnStoreFailure::Allow => 0,
        OnStoreFailure::Deny => 1,
        OnStoreFailure::Error => 2,
    };
    let answers = asked.iter().map(|(opened, _)| opened.config.on_store_failure);
    Ok(Limiter::shared(Arc::clone(quickest.store()), limit)
        .on_store_failure(answers.max_by_key(strictness).unwrap_or_default())
        .observers(quickest.observers().clone())
        .build())
}

/// Whether two stores are known to be different ones. A registry has several for one server where
/// its limits wait for it differently long.
fn are_apart(one: &AnyStore, other: &AnyStore) -> bool {
    match (one, other) {
        (AnyStore::Memory(one), AnyStore::Memory(other)) => !Arc::ptr_eq(one, other),
        #[cfg(feature = "redis")]
        (AnyStore::Redis(_), AnyStore::Redis(_)) => false,
        #[cfg(feature = "redis")]
        _ => true,
    }
}
