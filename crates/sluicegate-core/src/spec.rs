//! Policy specs: a policy as one line of text, the same in code, in configuration and on the
//! command line.
//!
//! ```text
//! ALG N/PERIOD [option value]… [as NAME]
//! concurrency N hold T [option value]… [as NAME]
//! ```
//!
//! | spec | default |
//! | --- | --- |
//! | `token_bucket 100/s burst 200` · `gcra 10/s burst 5` | burst N |
//! | `leaky_bucket 5/s capacity 20` | capacity N |
//! | `fixed_window 1000/h` · `… aligned` · `fixed_window 10000/month calendar Asia/Tokyo` · `… across_zones` · `… count_denied` | opens at the first admitted request |
//! | `sliding_window 1000/h slices 60` | 60 slices if they are whole milliseconds, else 10 |
//! | `sliding_counter 1000/h` | |
//! | `sliding_log 10/s` · `sliding_log 10/s and 1000/h` | |
//! | `smooth 5/s burst 1s start empty` · `warmup 5/s over 10s` · `shaper 5/s queue 100` | burst 1s, start empty |
//! | `concurrency 10 hold 30s` · `concurrency 10 hold 30s queue 100 priorities 3` | no queue, 1 priority |
//! | any of them: `cost N`, `shadow`, `charge_denied`, `as NAME` | cost 1 |
//!
//! Options are in any order, each at most once. A rate of `0/PERIOD` refuses everything.

mod grammar;
mod parameters;
mod problem;
mod words;

use std::error::Error;
use std::fmt;

use crate::printable::printable;

pub(crate) use grammar::{Grammar, Reader, whole_number};
pub(crate) use parameters::{Amount, OptionWord};
pub(crate) use problem::Problem;
pub(crate) use words::Word;

use words::Location;

/// The longest spec that parses, in bytes.
pub(crate) const MAX_SPEC_BYTES: usize = 1_024;

/// A spec that can't be parsed: the problem, its position, and the fix.
///
/// Prints as a message, with the spec below it and carets under the wrong word. Control characters
/// in the spec print as escapes.
///
/// ```
/// use sluicegate_core::Policy;
///
/// let error = "token_bucket 100/s brust 200".parse::<Policy>().unwrap_err();
/// assert_eq!(error.column(), 20);
/// assert_eq!(error.message(), "unknown word `brust`: did you mean `burst`?");
/// assert_eq!(
///     error.to_string(),
///     "unknown word `brust`: did you mean `burst`?\n\
///      \x20 token_bucket 100/s brust 200\n\
///      \x20                    ^^^^^"
/// );
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SpecError {
    message: String,
    column: usize,
    snippet: String,
}

impl SpecError {
    /// Creates an error in `spec`.
    pub(crate) fn new(spec: &str, problem: &Problem) -> Self {
        let Problem { location, message } = problem;
        Self {
            message: printable(message),
            column: location.column + 1,
            snippet: snippet(spec, *location),
        }
    }

    /// Returns the problem and the fix, on one line.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the column where the wrong word begins, in characters from 1.
    #[must_use]
    pub const fn column(&self) -> usize {
        self.column
    }

    /// Returns the spec, with carets under the wrong word on a second line; no line break at the
    /// end.
    #[must_use]
    pub fn snippet(&self) -> &str {
        &self.snippet
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        for line in self.snippet.lines() {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

impl Error for SpecError {}

/// The number of characters shown of a spec above [`MAX_SPEC_BYTES`].
const SHOWN_OF_LONG: usize = 60;

fn snippet(spec: &str, location: Location) -> String {
    if spec.len() > MAX_SPEC_BYTES {
        let shown: String = spec.chars().take(SHOWN_OF_LONG).collect();
        let shown = printable(&shown);
        return format!("{shown}…\n{}^", " ".repeat(shown.chars().count()));
    }
    let width =
        |text: &mut dyn Iterator<Item = char>| printable(&text.collect::<String>()).chars().count();
    let mut chars = spec.chars();
    let indent = width(&mut chars.by_ref().take(location.column));
    let carets = width(&mut chars.by_ref().take(location.width)).max(1);
    format!("{}\n{}{}", printable(spec), " ".repeat(indent), "^".repeat(carets))
}
