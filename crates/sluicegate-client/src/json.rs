//! The service's JSON answers, which this crate and the command line also read.

mod answer;
mod listed;

pub use answer::{
    Answer, BanAnswer, HoldAnswer, PAUSED, PauseAnswer, PolicyAnswer, STORE_FULL, WaitEnded,
};
pub use listed::{BanEntry, BanList, HolderEntry, HolderList};
