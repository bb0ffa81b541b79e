//! Tests `sluicegate replay` as its users run it.

#![expect(clippy::unwrap_used, reason = "helpers of tests may")]

mod counts;
mod logs;
mod page;
mod results;
mod stores;
mod support;
