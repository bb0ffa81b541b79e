//! The numbers of quotas: the share of a limit's rate that an Envoy gets, and the request to the store for it.
//!
//! Nothing here has a clock or calls a store: times are arguments, in microseconds of one stopwatch. Shares are millionths
//! of a limit's rate. [`plan`](plan::plan) decides about one report. Its inputs are the [`Numbers`] of the limit, the
//! [`Demand`] of the holder, and the [`level`] over all holders of the [`Fund`].

mod assignment;
mod demand;
mod fund;
mod level;
mod numbers;
mod plan;
mod summary;

pub(crate) use assignment::Assignment;
pub(crate) use demand::{Demand, per_kilosecond};
pub(crate) use fund::Fund;
pub(crate) use numbers::Numbers;
pub(crate) use plan::{Facts, Plan, plan};
pub(crate) use summary::Summary;

/// The share that all holders get together by their needs, in millionths. The rest, up to
/// [`Pace::MOST`](sluicegate_core::for_stores::Pace::MOST), is for holders that have just appeared.
pub(crate) const FILLED: u64 = 980_000;

/// The share of a newcomer if all holders together have [`FILLED`], so that 200 new holders get something.
pub(crate) const KEPT_FOR_EACH: u64 = (sluicegate_core::for_stores::Pace::MOST - FILLED) / 200;
