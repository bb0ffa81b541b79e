//! What it takes to give a reservation back.

use sluicegate_core::packed::State;
use smallvec::SmallVec;

use crate::fingerprint::Fingerprint;

/// What a reservation found and left of its subjects: if all still is as it was left, it is put
/// back as it was found.
#[derive(Clone, Debug)]
pub struct Receipt {
    pub(crate) changes: SmallVec<[Change; 1]>,
}

/// The state of one policy before and after.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// The policy's place in its limit.
    pub(crate) index: usize,
    pub(crate) part: usize,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) before: Option<State>,
    pub(crate) after: Option<State>,
}
