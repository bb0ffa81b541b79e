//! The state that a store holds for one policy and subject.

use crate::kernel::{Leased, Reading, State};

/// The state that a store holds for one policy and subject.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Stored {
    /// A state.
    State(State),
    /// A state with leased or held units. Only stores that lease have leased units.
    Leased(Box<Leased>),
    /// The store's report about a log that it evaluated and charged itself.
    Reading(Reading),
}
