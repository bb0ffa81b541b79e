//! A policy in a limit, and the identity of its state.

use crate::kernel::Rule;
use crate::name::PolicyName;
use crate::policy::{Enforcement, Policy};

/// A policy with the name it has in its limit.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Member {
    pub(super) name: PolicyName,
    pub(super) policy: Policy,
    pub(super) identity: Identity,
    pub(super) part: u8,
    pub(super) has_namesake: bool,
}

/// The identity of a policy's state: a short hash of its name, algorithm and window. Numbers that
/// can change while a state exists aren't part of it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Identity([u8; 4]);

impl Member {
    /// Returns `true` if a request that the policy refuses can wait in a queue.
    #[must_use]
    pub fn has_queue(&self) -> bool {
        let is_queue = matches!(self.policy.rule(), Rule::Permits(permits) if permits.queue() > 0);
        is_queue && self.policy.enforcement() == Enforcement::Enforced
    }

    /// Returns the policy's name in its limit.
    #[must_use]
    pub const fn name(&self) -> &PolicyName {
        &self.name
    }

    /// Returns the policy.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the identity of the policy's state.
    #[must_use]
    pub const fn identity(&self) -> Identity {
        self.identity
    }

    /// Returns the index in [`Limit::parts`](super::Limit::parts) of the policy's part.
    #[must_use]
    pub const fn part(&self) -> usize {
        self.part as usize
    }

    /// Returns `true` if another limit decided [together](super::Limit::together) with this one has a
    /// policy of this name.
    ///
    /// Only the limits' names then distinguish the two policies.
    #[must_use]
    pub const fn has_namesake(&self) -> bool {
        self.has_namesake
    }
}

impl Identity {
    /// The identity of a subject's own entry, next to its policies' states. It holds the subject's
    /// holds, request ids, denials and bans.
    pub const SUBJECT: Self = Self([0; 4]);

    pub(super) fn new(name: &PolicyName, policy: &Policy) -> Self {
        let algorithm = policy.algorithm();
        let mut hasher = blake3::Hasher::new();
        hasher.update(name.as_str().as_bytes());
        // A changed algorithm or window starts fresh. The bucket family could share a state,
        // because its members differ only in how they evaluate it. But a user who changes the
        // algorithm wants a different policy.
        let window = policy.rule().window_text(algorithm);
        hasher.update(format!("\0{}\0{window}", algorithm.keyword()).as_bytes());
        let hash = hasher.finalize();
        let [a, b, c, d, ..] = *hash.as_bytes();
        Self([a, b, c, d])
    }

    /// Creates the identity from its four stored bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 4]) -> Self {
        Self(bytes)
    }

    /// Returns the four stored bytes.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 4] {
        self.0
    }
}
