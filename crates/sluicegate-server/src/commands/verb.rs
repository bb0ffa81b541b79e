//! What is asked of a limit on the command line.

use sluicegate::store::{Operation, Span};

use super::setup::OnFreshStore;

/// What is asked of a limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verb {
    /// A check that waits for its turn.
    Acquire {
        within: Span,
        priority: u8,
    },
    Decide(Operation),
}

impl Verb {
    /// The call of a service that does the same.
    pub(super) fn path(self) -> String {
        let name = match self {
            Self::Acquire { .. } => "acquire",
            Self::Decide(operation) => operation.name(),
        };
        format!("/v1/{name}")
    }

    /// Whether the service may ask for its admin token.
    pub(super) const fn needs_token(self) -> bool {
        matches!(self, Self::Decide(operation) if operation.is_administrative())
    }

    /// Whether it makes sense on a fresh store: only if it decides and leaves nothing that is needed later.
    pub(super) const fn on_fresh_store(self) -> OnFreshStore {
        match self {
            Self::Decide(Operation::Reserve { .. }) => OnFreshStore::Refuses,
            _ if self.needs_token() => OnFreshStore::Refuses,
            _ => OnFreshStore::Decides,
        }
    }

    /// How long the wait may be that it asks for.
    pub(super) const fn within(self) -> Option<Span> {
        match self {
            Self::Acquire { within, .. } | Self::Decide(Operation::Reserve { within }) => {
                Some(within)
            }
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
        matches!(self, Self::Acquire { .. } | Self::Decide(Operation::Reserve { .. }))
    }

    /// The priority with which it waits, unless that is the highest.
    pub(super) const fn priority(self) -> Option<u8> {
        match self {
            Self::Acquire { priority: priority @ 1.., .. } => Some(priority),
            _ => None,
        }
    }
}
