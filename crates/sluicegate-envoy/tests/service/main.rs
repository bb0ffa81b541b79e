//! The service over gRPC, with the recorded requests of the incumbent.

#![expect(clippy::expect_used, reason = "helpers of tests fail like tests")]

mod answers;
mod blocks;
mod blocks_together;
mod control_plane;
mod hostile;
mod json;
mod native;
mod quota;
#[path = "../recorded/mod.rs"]
mod recorded;
mod requests;
mod running;
mod wrong_blocks;
mod xds;
