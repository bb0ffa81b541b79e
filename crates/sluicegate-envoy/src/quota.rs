//! The numbers of quotas: which share of a limit's rate an Envoy gets, and what to ask the store for.
//!
//! Nothing here has a clock or calls a store: times are arguments, in microseconds of one stopwatch. Shares are millionths
//! of a limit's rate. [`plan`](plan::plan) decides about one report, from the [`Numbers`] of the limit, the
//! [`Demand`] of its holder and the [`level`] over all holders of the [`Fund`].

mod assignment;
mod demand;
mod fund;
mod level;
mod numbers;
mod plan;
mod summary;

pub(crate) use assignment::Assignment;
pub(crate) use demand::Demand;
pub(crate) use fund::Fund;
pub(crate) use numbers::Numbers;
pub(crate) use plan::{Facts, Plan, plan};
pub(crate) use summary::Summary;

/// The share that all holders get together by their needs, in millionths. What is above it, up to
/// [`Pace::MOST`](sluicegate_core::for_stores::Pace::MOST), is for holders that have just appeared.
pub(crate) const FILLED: u64 = 980_000;

/// The share of a newcomer if all holders together have [`FILLED`], so that 200 newcomers get something.
pub(crate) const KEPT_FOR_EACH: u64 = (sluicegate_core::for_stores::Pace::MOST - FILLED) / 200;
