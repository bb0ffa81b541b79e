//! For tests: a clock that tests set, and a wait for units that are given back in the background.

pub use sluicegate_core::{Clock, ManualClock, Timestamp};
pub use sluicegate_memory::SystemClock;

pub use crate::background::given_back;
