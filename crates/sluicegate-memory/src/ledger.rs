//! The load of a store's limits, and the maximum that they may hold together.

use std::sync::Arc;

use crate::budget::{Budget, Load, Short};
use crate::occupied::Occupied;
use crate::ranking::Ranking;
use crate::share::Share;

/// The state that all tables of a store share.
pub(crate) struct Ledger {
    pub(crate) budget: Budget,
    pub(crate) occupied: Occupied,
    by_keys: Ranking,
    by_bytes: Ranking,
}

impl Ledger {
    pub(crate) fn new(most: Load) -> Self {
        Self {
            budget: Budget::new(most),
            occupied: Occupied::default(),
            by_keys: Ranking::by(Short::Keys),
            by_bytes: Ranking::by(Short::Bytes),
        }
    }

    /// Adds a load to a limit.
    pub(crate) fn hold(&self, share: &Arc<Share>, load: Load) {
        self.by_keys.add(share, load);
        self.by_bytes.add(share, load);
    }

    /// Subtracts a load from a limit.
    pub(crate) fn let_go(&self, share: &Arc<Share>, load: Load) {
        self.by_keys.take(share, load);
        self.by_bytes.take(share, load);
    }

    pub(crate) const fn ranking(&self, short: Short) -> &Ranking {
        match short {
            Short::Keys => &self.by_keys,
            Short::Bytes => &self.by_bytes,
        }
    }
}
