//! The incumbent's recorded answers, and malicious files.

#![expect(clippy::expect_used, reason = "helpers of tests fail like tests")]

mod files;
mod hostile;
#[path = "../recorded/mod.rs"]
mod recorded;
mod requests;
mod rules;
