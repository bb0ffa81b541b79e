//! The commands that make one request and exit.

mod ask;
mod config;
mod conformance;
mod cost;
mod fleet;
mod health;
mod hold_verb;
mod interrupt;
mod limit_list;
mod limits;
mod lines;
mod lists;
mod overrides;
mod pages;
mod recent;
mod remote;
mod settle;
mod setup;
mod terms;
mod verb;

pub(crate) use ask::ask;
pub(crate) use config::config;
pub(crate) use conformance::conformance;
pub(crate) use cost::UsedArg;
pub(crate) use fleet::fleet;
pub(crate) use health::health;
pub(crate) use hold_verb::HoldVerb;
pub(crate) use limit_list::limits;
pub(crate) use limits::{AskedLimit, AskedLimits};
pub(crate) use lists::{bans, holders, revoke};
pub(crate) use overrides::overrides;
pub(crate) use pages::{completions, man};
pub(crate) use recent::recent;
pub(crate) use settle::settle;
pub(crate) use terms::Terms;
pub(crate) use verb::Verb;
