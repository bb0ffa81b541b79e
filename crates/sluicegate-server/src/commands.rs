//! The commands that ask once and end.

mod ask;
mod config;
mod conformance;
mod cost;

pub(crate) use ask::{Verb, ask};
pub(crate) use config::config;
pub(crate) use conformance::conformance;
pub(crate) use cost::CostArg;
