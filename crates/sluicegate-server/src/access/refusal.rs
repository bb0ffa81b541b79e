//! The reason that a request is refused because of its caller.

/// The reason that a request is refused because of its caller. It never has a token.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) kind: RefusalKind,
    /// The problem, in words of no protocol.
    pub(crate) message: String,
}

/// The kind of a refusal. The first two are `UNAUTHENTICATED` or 401, the last one is `PERMISSION_DENIED` or 403.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RefusalKind {
    /// The request has no credential.
    Missing,
    /// No client has the credential.
    Wrong,
    /// The caller lacks the right.
    Forbidden,
}

impl RefusalKind {
    pub(super) const ALL: [Self; 3] = [Self::Missing, Self::Wrong, Self::Forbidden];

    /// Returns the label of metrics.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "no_credential",
            Self::Wrong => "wrong_credential",
            Self::Forbidden => "forbidden",
        }
    }
}

impl Refusal {
    pub(super) fn missing(message: impl Into<String>) -> Self {
        Self { kind: RefusalKind::Missing, message: message.into() }
    }

    pub(super) fn wrong(message: impl Into<String>) -> Self {
        Self { kind: RefusalKind::Wrong, message: message.into() }
    }

    pub(super) fn forbidden(message: impl Into<String>) -> Self {
        Self { kind: RefusalKind::Forbidden, message: message.into() }
    }
}
