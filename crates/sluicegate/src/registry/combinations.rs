//! The limiters of limits that are decided together, per combination of their numbers.

use std::collections::HashMap;

use arc_swap::ArcSwap;
use sluicegate_core::Error;
use smallvec::SmallVec;

use crate::limiter::Limiter;

/// The set of numbers of each limit of a gate; `None` for a limit that is not asked.
pub(super) type Numbers = SmallVec<[Option<u32>; 4]>;

/// Limiters of limits that are decided together, created when a combination of numbers first
/// occurs.
///
/// Keys choose the combinations, so their number is bounded. Writers copy the table, so that
/// readers never wait.
#[derive(Debug, Default)]
pub(super) struct Combinations(ArcSwap<HashMap<Numbers, Limiter>>);

impl Combinations {
    /// The maximum number of combinations. Beyond it the table starts over.
    const MOST: usize = 256;

    /// Returns the limiter of a combination, which `make` creates when it first occurs.
    pub(super) fn limiter(
        &self,
        numbers: &Numbers,
        make: impl FnOnce() -> Result<Limiter, Error>,
    ) -> Result<Limiter, Error> {
        if let Some(limiter) = self.0.load().get(numbers) {
            return Ok(limiter.clone());
        }
        let limiter = make()?;
        self.0.rcu(|known| {
            let mut table =
                if known.len() < Self::MOST { HashMap::clone(known) } else { HashMap::new() };
            table.insert(numbers.clone(), limiter.clone());
            table
        });
        Ok(limiter)
    }
}
