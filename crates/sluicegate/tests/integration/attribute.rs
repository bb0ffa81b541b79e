//! The attribute `#[limit(…)]`: what limited functions do.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "the helpers of tests may do what tests may"
)]
#![allow(clippy::needless_pass_by_value, reason = "arguments of every kind are handed over")]

mod bodies;
mod costs;
mod fallbacks;
mod holding;
mod inline;
mod keys;
mod missing_keys;
mod named;
mod names;
mod pauses;
mod placement;
mod refunds;
#[cfg(feature = "redis")]
mod refunds_on_servers;
mod skip_charge_shadow;
mod stacking;
#[cfg(feature = "redis")]
mod store_failures;
mod support;
mod switches;
mod traits;
mod waiting;
