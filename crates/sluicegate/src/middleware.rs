//! What the middleware of every framework has in common: whose request it is, which limits are
//! asked about it, and what a client is told.

mod admission;
mod builder;
mod question;
mod refusal;
mod response_view;
mod rules;

#[cfg(feature = "tower")]
pub(crate) use admission::Due;
pub(crate) use admission::{Admission, Settled};
pub(crate) use builder::builder_methods;
pub(crate) use question::Verdict;
pub(crate) use refusal::Refusal;
pub use response_view::{Charge, ResponseView};
pub(crate) use rules::Rules;
