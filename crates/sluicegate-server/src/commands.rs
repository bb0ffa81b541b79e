//! The commands that ask once and end.

mod ask;
mod config;
mod conformance;
mod cost;
mod lines;
mod remote;
mod verb;

pub(crate) use ask::ask;
pub(crate) use config::config;
pub(crate) use conformance::conformance;
pub(crate) use cost::CostArg;
pub(crate) use remote::ServiceUrl;
pub(crate) use verb::Verb;
