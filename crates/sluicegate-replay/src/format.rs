//! The formats of logs: each reads a line into a [`Record`].
//!
//! [`Parser`] reads the lines of one format. [`detect`] finds the format of a log.

pub(crate) mod access;
mod columns;
pub(crate) mod decisions;
pub(crate) mod detect;
mod json;
mod logfmt;
mod names;
mod parser;
pub(crate) mod pattern;
pub(crate) mod role;
mod values;
mod words;
pub(crate) mod wrapper;

pub use names::{FieldNames, FieldNamesError};
pub(crate) use parser::Parser;
