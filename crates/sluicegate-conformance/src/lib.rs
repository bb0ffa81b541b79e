//! Conformance cases: what each algorithm must answer, as JSON lines, and a runner that holds any
//! store against them.
//!
//! One case a line: an algorithm with its parameters and the events with what must be answered.
//! [`read`] parses a whole file before anything runs, [`run`] plays the cases against a
//! [`Target`] under injected time, each with fresh keys. Nothing is slept for.

mod case;
mod params;
mod run;

pub use case::{Case, Event, Expect, Expected, ReadError, read};
pub use params::{BuildError, Subject};
pub use run::{
    Failure, Report, Retry, Step, StepAnswer, StepError, Target, at_once, run, run_case,
};
