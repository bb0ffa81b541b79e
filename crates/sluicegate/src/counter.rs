//! Counting events in a ring of time slices, such as requests per minute of the last hour.

pub use sluicegate_core::SliceCounts;

pub use crate::ring_counter::RingCounter;
