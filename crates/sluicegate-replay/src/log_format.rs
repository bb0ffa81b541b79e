//! The kinds of logs that can be read.

/// What kind of lines a log has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum LogFormat {
    /// Common or combined: `HOST IDENT USER [TIME] "REQUEST" …`.
    Access,
    /// One JSON object a line: `{"time":…,"key":…,"cost":…}`.
    Json,
}

impl LogFormat {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Access => "access",
            Self::Json => "json",
        }
    }
}
