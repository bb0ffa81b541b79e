//! The commands that ask once and end.

mod ask;
mod config;
mod conformance;
mod cost;
mod interrupt;
mod limits;
mod lines;
mod lists;
mod remote;
mod settle;
mod setup;
mod verb;

pub(crate) use ask::{Terms, ask};
pub(crate) use config::config;
pub(crate) use conformance::conformance;
pub(crate) use cost::UsedArg;
pub(crate) use limits::{AskedLimit, AskedLimits};
pub(crate) use lists::{bans, end, holders};
pub(crate) use remote::ServiceUrl;
pub(crate) use settle::{HoldVerb, settle};
pub(crate) use verb::Verb;
