//! The JSON of a service: what it answers, and what this client and the command line read.

mod answer;
mod listed;

pub use answer::{Answer, BanAnswer, HoldAnswer, PolicyAnswer, STORE_FULL, WaitEnded, micros};
pub use listed::{BanEntry, BanList, HolderEntry, HolderList};
