//! The parts of a [`Decision`](crate::Decision), and the tokens that it gives out.

pub use sluicegate_core::{
    Banned, HoldFound, HoldId, HoldToken, Paused, Receipt, Source, Warnings,
};

pub use crate::holding::Holding;
