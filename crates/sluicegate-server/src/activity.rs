//! The activity of the last 15 min, for operators: counts of decisions, rates, latencies and problems.
//!
//! [`Activity`] observes decisions. A task calls [`Activity::tick`] once a second with the [`Gauges`] of the service, and
//! streams read the result.

mod counts;
mod limits;
mod problems;
mod steps;
mod totals;

pub(crate) use counts::Counts;
pub(crate) use limits::{Activity, ChangedLimit, LimitActivity, LimitView};
pub(crate) use problems::{
    CertificateEnd, DenyingLimit, FEW_DENIALS, LimitReload, MainKey, Observed, Problem,
    StoreFailure, problems,
};
pub(crate) use steps::{MOST_STEPS, STEP_SECONDS};
pub(crate) use totals::{Gauges, Quantiles, Step, Totals};
