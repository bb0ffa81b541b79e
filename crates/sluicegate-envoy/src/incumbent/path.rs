//! Paths to values in a file, for messages.

use std::fmt;

/// The path to a value, such as `descriptors[2].rate_limit.unit`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

impl Path<'_> {
    /// Returns the message about the value at this path.
    pub(crate) fn says(&self, message: &str) -> String {
        match self {
            Self::Root => message.to_owned(),
            _ => format!("{self}: {message}"),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Path::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}
