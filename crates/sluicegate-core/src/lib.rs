//! The heart of Sluicegate: policies, kernels, decisions, keys, rates and the spec grammar.
//!
//! Nothing here does I/O, reads a clock or knows an async runtime; time is an argument, numbers
//! are whole, and the answers are those that every store gives. Most people depend on the
//! `sluicegate` crate, which re-exports what they need.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod calendar;
mod clock;
mod decide;
mod decision;
mod error;
pub mod kernel;
mod key;
mod limit;
mod name;
mod number;
pub mod packed;
mod policy;
mod rate;
mod request;
mod slices;
mod spec;
mod standing;
mod store;
mod time;
mod visible;

pub use calendar::{Boundaries, CalendarUnit, CalendarWindow};
pub use clock::{Clock, ManualClock};
pub use decide::{Evaluation, admitted, check_request, check_subjects, cost_of, evaluate};
pub use decision::{Decision, Notes, Outcome, RetryAfter, Source};
pub use error::{InvalidNumber, LimitError, NameError, PolicyError, SpanError};
pub use key::{KeyPrefix, KeyPrefixError, StoreKey};
pub use limit::{Identity, Limit, Member};
pub use name::{LimitName, PolicyName};
pub use number::{Cost, MAX_EXACT};
pub use policy::{Algorithm, DeniedCharge, Enforcement, Policy, Start, Strategy, Window};
pub use rate::Rate;
pub use request::{Costs, Operation, Request, TimeSource};
pub use slices::SliceCounts;
pub use spec::SpecError;
pub use standing::{Reading, Standing};
pub use store::{EmbeddedStore, Store, StoreError, StoreErrorKind};
pub use time::{Span, Timestamp};
pub use visible::visible;
