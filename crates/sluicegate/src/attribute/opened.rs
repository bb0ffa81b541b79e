//! The gate that a call site has opened.

use std::ops::Deref;
use std::sync::Arc;

use sluicegate_http::Key as HttpKey;

use super::installed;
use crate::registry::{Gate, Registry};

/// The gate of a call site.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) owner: Owner,
    pub(super) gate: Gate,
    pub(super) names: Box<[String]>,
    pub(super) method: HttpKey,
}

/// The owner of a gate.
#[derive(Clone, Debug)]
pub(super) enum Owner {
    /// The registry that was installed under this number.
    Installed(u64),
    Given(Registry),
}

/// A call's reference to its gate.
#[derive(Debug)]
pub(super) enum Holding {
    First(&'static Opened),
    Other(Arc<Opened>),
}

impl Opened {
    #[inline]
    pub(super) fn is_of(&self, number: u64) -> bool {
        matches!(self.owner, Owner::Installed(known) if known == number)
    }

    /// Returns whether another registry has been installed since.
    pub(super) fn is_stale(&self) -> bool {
        matches!(self.owner, Owner::Installed(known) if known != installed::number())
    }
}

impl Deref for Holding {
    type Target = Opened;

    #[inline]
    fn deref(&self) -> &Opened {
        match self {
            Self::First(opened) => opened,
            Self::Other(opened) => opened,
        }
    }
}
