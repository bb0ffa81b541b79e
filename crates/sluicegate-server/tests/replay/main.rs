//! `sluicegate replay`, run as its users run it.

#![expect(clippy::unwrap_used, reason = "helpers of tests may")]

mod burst;
mod counts;
mod guide;
mod page;
mod support;
