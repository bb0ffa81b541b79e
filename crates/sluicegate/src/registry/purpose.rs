//! The purpose of a call to a gate.

/// The purpose of a call to a gate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Purpose {
    /// To admit a request, or to peek. Allow and block lists apply.
    Admit,
    /// To account for an admitted request. Allow lists apply, block lists don't.
    Settle,
    /// To forget a key. No list applies.
    Forget,
}
