//! Commands and answers, as clients see them.

mod recorded;
mod session;
mod support;
