//! What a store holds for one policy and subject.

use crate::kernel::{Leased, Reading, State};

/// What a store holds for one policy and subject.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Stored {
    /// A state.
    State(State),
    /// A state of which some units are leased, or held. Only stores that lease have leased ones.
    Leased(Box<Leased>),
    /// What the store reports about a log that it judged and charged itself.
    Reading(Reading),
}
