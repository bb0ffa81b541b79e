//! Commands and answers, as clients see them.

#![expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod recorded;
mod session;
mod support;
