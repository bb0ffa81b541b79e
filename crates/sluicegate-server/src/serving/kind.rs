//! The kinds of listeners.

use std::fmt;

/// A kind of listener.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Http,
    Grpc,
    #[cfg(feature = "resp")]
    Resp,
    Admin,
    Metrics,
    Health,
    /// The rules in force, for `sluicegate envoy`.
    #[cfg(feature = "envoy")]
    Debug,
}

impl Kind {
    /// Returns its name in the file, in metrics and on standard error.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
            #[cfg(feature = "resp")]
            Self::Resp => "resp",
            Self::Admin => "admin",
            Self::Metrics => "metrics",
            Self::Health => "health",
            #[cfg(feature = "envoy")]
            Self::Debug => "debug",
        }
    }

    /// Returns the option of the command line that sets its address.
    pub(crate) const fn option(self) -> &'static str {
        match self {
            Self::Http => "--listen",
            Self::Grpc => "--grpc",
            #[cfg(feature = "resp")]
            Self::Resp => "--resp",
            Self::Admin => "--admin",
            Self::Metrics => "--metrics",
            Self::Health => "--health",
            #[cfg(feature = "envoy")]
            Self::Debug => "--debug",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
