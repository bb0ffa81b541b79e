//! What is asked of a limit on the command line.

use sluicegate::Span;

use super::setup::OnFreshStore;

/// What is asked of a limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verb {
    Acquire { within: Span, priority: u8 },
    Ban { lasts: Span },
    Charge,
    Check,
    Peek,
    Refund,
    Reserve { within: Span },
    Reset,
    Take,
    Unban,
}

impl Verb {
    /// The call of a service that does the same.
    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Acquire { .. } => "/v1/acquire",
            Self::Ban { .. } => "/v1/ban",
            Self::Charge => "/v1/charge",
            Self::Check => "/v1/check",
            Self::Peek => "/v1/peek",
            Self::Refund => "/v1/refund",
            Self::Reserve { .. } => "/v1/reserve",
            Self::Reset => "/v1/reset",
            Self::Take => "/v1/take",
            Self::Unban => "/v1/unban",
        }
    }

    /// Whether the service may ask for its admin token.
    pub(super) const fn needs_token(self) -> bool {
        matches!(self, Self::Ban { .. } | Self::Charge | Self::Refund | Self::Reset | Self::Unban)
    }

    /// Whether it makes sense on a fresh store: only if it decides and leaves nothing that is needed later.
    pub(super) const fn on_fresh_store(self) -> OnFreshStore {
        match self {
            Self::Acquire { .. } | Self::Check | Self::Peek | Self::Take => OnFreshStore::Decides,
            _ => OnFreshStore::Refuses,
        }
    }

    /// How long the wait may be that it asks for.
    pub(super) const fn within(self) -> Option<Span> {
        match self {
            Self::Acquire { within, .. } | Self::Reserve { within } => Some(within),
            _ => None,
        }
    }

    /// How long it may wait for units.
    pub(super) const fn wait(self) -> Span {
        match self {
            Self::Acquire { within, .. } => within,
            _ => Span::ZERO,
        }
    }

    /// Whether it may wait for a turn, or leaves one for the caller.
    pub(super) const fn takes_turns(self) -> bool {
        matches!(self, Self::Acquire { .. } | Self::Reserve { .. })
    }

    /// The priority with which it waits, unless that is the highest.
    pub(super) const fn priority(self) -> Option<u8> {
        match self {
            Self::Acquire { priority: priority @ 1.., .. } => Some(priority),
            _ => None,
        }
    }
}
