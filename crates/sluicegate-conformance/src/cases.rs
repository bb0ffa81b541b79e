//! Conformance cases: JSON lines with the required answers of each algorithm, and a runner for any
//! store.
//!
//! Each line is a case: an algorithm with its parameters, and events with the required answers.
//! [`read`] parses a whole file before anything runs. [`run`] plays the cases against a [`Target`]
//! under injected time, without sleeping, each with fresh keys. A [`StoreTarget`] wraps any store.

mod case;
mod params;
mod run;
mod store_target;

pub use case::{Case, Event, Expect, Expected, ReadError, read};
pub use params::{BuildError, Subject};
pub use run::{
    Failure, Report, Retry, Step, StepAnswer, StepError, Target, at_once, run, run_case,
};
pub use store_target::StoreTarget;

/// One or two small cases of each algorithm, as a case file.
pub const SAMPLES: &str = include_str!("../data/conformance-samples.jsonl");
