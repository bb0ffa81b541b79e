//! Checks a store of the Sluicegate rate limiter against its semantics.
//!
//! Two lines in a test run your own store, or a layer around one, through every check that the
//! built-in stores pass:
//!
//! ```
//! # mod my {
//! #     pub use sluicegate_conformance::kernels::MapStore as Store;
//! # }
//! # #[allow(unused)]
//! mod conformance {
//!     use super::my;
//!     sluicegate_conformance::suite!(leases [my::Store::default()]);
//! }
//! # fn main() {}
//! ```
//!
//! - [`cases`]: case files, and a runner that checks any store against them.
//! - [`mod@reference`]: a slow and obvious model of every policy, which the stores are compared
//!   with.
//! - [`schedules`]: seeded random policies and requests, with the model's answers.
//! - [`kernels`]: the Rust kernels over a plain map.
//! - [`mod@suite`]: all of these together, over any store or stack of stores.
//!
//! `SLUICEGATE_SEED=…` replays a schedule that failed, and `SLUICEGATE_SOAK=50` runs 50 times as
//! many schedules.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod algorithms;
pub mod cases;
mod dice;
mod fresh;
pub mod kernels;
pub mod reference;
pub mod schedules;
pub mod suite;
mod times;
