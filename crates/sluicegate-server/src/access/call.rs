//! The kinds of calls, and the rights that they need.

use sluicegate::config::Right;

/// A kind of call, in any protocol.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Call {
    /// Takes units without holding them: a check, a grant, a reservation or a wait.
    Take,
    /// Takes units and holds them, or settles, renews, cancels or releases a hold.
    Hold,
    /// Looks at the state of a key.
    Peek,
    /// Lists limits.
    ListLimits,
    /// Lists keys, holds or decisions.
    Inspect,
    /// Changes the charges of other clients.
    Administer,
}

impl Call {
    /// Returns `true` if only administrators may make the call where no client is configured.
    pub(super) const fn is_administrative(self) -> bool {
        matches!(self, Self::Inspect | Self::Administer)
    }

    /// Returns the rights, one of which a client needs. The first one permits the fewest calls.
    pub(super) const fn rights(self) -> &'static [Right] {
        match self {
            Self::Take => &[Right::Check, Right::Hold, Right::Admin],
            Self::Hold => &[Right::Hold, Right::Admin],
            Self::Peek => &[Right::Read, Right::Check, Right::Hold, Right::Admin],
            Self::ListLimits | Self::Inspect => &[Right::Read, Right::Admin],
            Self::Administer => &[Right::Admin],
        }
    }
}
