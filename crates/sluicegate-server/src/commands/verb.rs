//! The actions on a limit from the command line.

use sluicegate::store::{Operation, Span};

use super::setup::OnFreshStore;

/// An action on a limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verb {
    /// A check that waits for its turn.
    Acquire {
        within: Span,
        priority: u8,
    },
    Decide(Operation<'static>),
}

impl Verb {
    /// Returns the path of the service call for the action.
    pub(super) fn path(self) -> String {
        let name = match self {
            Self::Acquire { .. } => "acquire",
            Self::Decide(operation) => operation.name(),
        };
        format!("/v1/{name}")
    }

    /// Returns `true` if a service without clients may require its admin token.
    pub(super) const fn needs_token(self) -> bool {
        matches!(self, Self::Decide(operation) if operation.is_administrative())
    }

    /// Returns how the action behaves on a fresh store.
    ///
    /// It is refused unless it decides and leaves nothing that is needed later.
    pub(super) const fn on_fresh_store(self) -> OnFreshStore {
        match self {
            Self::Decide(Operation::Reserve { .. }) => OnFreshStore::Refuses,
            _ if self.needs_token() => OnFreshStore::Refuses,
            _ => OnFreshStore::Decides,
        }
    }

    /// Returns the maximum wait that the request specifies.
    pub(super) const fn within(self) -> Option<Span> {
        match self {
            Self::Acquire { within, .. } | Self::Decide(Operation::Reserve { within }) => {
                Some(within)
            }
            _ => None,
        }
    }

    /// Returns the maximum time that the call waits for units.
    pub(super) const fn wait(self) -> Span {
        match self {
            Self::Acquire { within, .. } => within,
            _ => Span::ZERO,
        }
    }

    /// Returns `true` if the action may wait for a turn or reserves one.
    pub(super) const fn takes_turns(self) -> bool {
        matches!(self, Self::Acquire { .. } | Self::Decide(Operation::Reserve { .. }))
    }

    /// Returns the priority of the wait, unless it is the highest.
    pub(super) const fn priority(self) -> Option<u8> {
        match self {
            Self::Acquire { priority: priority @ 1.., .. } => Some(priority),
            _ => None,
        }
    }
}
