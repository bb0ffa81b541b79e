//! The limiters of limits that are decided together, per combination of their numbers.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use sluicegate_core::Error;
use smallvec::SmallVec;

use super::limiter_with_fields::LimiterWithFields;

/// The set of numbers of each limit of a gate; `None` for a limit that is not asked.
pub(super) type Numbers = SmallVec<[Option<u32>; 4]>;

/// Limiters of limits that are decided together, created when a combination of numbers first
/// occurs.
///
/// Keys choose the combinations, so their number is bounded. Writers copy the table, so that
/// readers never wait.
#[derive(Debug, Default)]
pub(super) struct Combinations(ArcSwap<HashMap<Numbers, Arc<LimiterWithFields>>>);

impl Combinations {
    /// The maximum number of combinations. Beyond it the table starts over.
    const MOST: usize = 256;

    /// The limiter of a combination, which `make` creates when it first occurs.
    pub(super) fn limiter(
        &self,
        numbers: &Numbers,
        make: impl FnOnce() -> Result<LimiterWithFields, Error>,
    ) -> Result<Arc<LimiterWithFields>, Error> {
        if let Some(limiter) = self.0.load().get(numbers) {
            return Ok(Arc::clone(limiter));
        }
        let limiter = Arc::new(make()?);
        self.0.rcu(|known| {
            let mut table =
                if known.len() < Self::MOST { HashMap::clone(known) } else { HashMap::new() };
            table.insert(numbers.clone(), Arc::clone(&limiter));
            table
        });
        Ok(limiter)
    }
}
