//! Plays recorded logs through the policies of the Sluicegate rate limiter, to see what they would
//! have denied.
//!
//! ```
//! use sluicegate::MemoryStore;
//! use sluicegate_replay::{LogReader, Plan};
//!
//! let log = r#"
//! 10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 12
//! 10.0.0.1 - - [17/May/2015:10:05:04 +0000] "GET /b HTTP/1.1" 200 12
//! 10.0.0.2 - - [17/May/2015:10:05:04 +0000] "GET /a HTTP/1.1" 200 12
//! 10.0.0.1 - - [17/May/2015:10:05:05 +0000] "GET /c HTTP/1.1" 200 12
//! "#;
//! let recording = LogReader::new("access.log").read(log.trim_start().as_bytes())?;
//! assert_eq!((recording.requests(), recording.malformed()), (4, 0));
//!
//! let plan = Plan::side_by_side(["sliding_log 2/min".parse()?, "gcra 1/h".parse()?]);
//! let report = plan.play_now(&MemoryStore::new(), &recording, &|_| ())?;
//! let denied: Vec<_> = report.subjects().map(|subject| subject.denied()).collect();
//! assert_eq!(denied, [1, 2]);
//!
//! let mut page = Vec::new();
//! report.write_html(&mut page)?;
//! assert!(page.starts_with(b"<!DOCTYPE html>"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`LogReader`] reads logs of any [`LogFormat`], compressed or not, into a [`Recording`].
//! - [`Plan`] chooses what a recording is played through: policies side by side, or a limit whose
//!   policies decide together. Decisions use the times in the log, in any store.
//! - [`Goal`] searches for the smallest limits that deny at most a share of a recording.
//! - [`Report`] is the result: a table for people, JSON for programs, or a page with plots.
//! - [`chart`] draws bars in the style of those plots.

mod answer;
mod batch;
pub mod chart;
mod comparison;
mod counts;
mod decide;
mod decision_counts;
mod format;
mod goal;
mod gzip;
mod key;
mod keys;
mod lines;
mod listed;
mod log_format;
mod malformed;
mod need;
mod numbers;
mod output;
mod page;
mod plan;
mod play;
mod plot;
mod reader;
mod recognized;
mod record;
mod recording;
mod report;
mod requests;
mod rules;
mod scale;
mod subject;
mod suggest;
mod table;
mod tally;
mod timeline;
mod times;
mod unpack;

pub use comparison::{ComparedKey, Comparison};
pub use format::decisions::{LoggedCost, LoggedDecision, LoggedDecisions};
pub use format::pattern::{Pattern, PatternError};
pub use format::{FieldNames, FieldNamesError};
pub use goal::{Goal, GoalError};
pub use key::{KeyExpression, KeyExpressionError};
pub use log_format::{LogFormat, UnknownLogFormat};
pub use plan::{Plan, PolicySpec};
pub use reader::LogReader;
pub use recording::{PastDecision, Recording};
pub use report::Report;
pub use rules::{KeyRule, KeyRules};
pub use subject::Subject;
pub use suggest::{Suggestion, Suggestions};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
