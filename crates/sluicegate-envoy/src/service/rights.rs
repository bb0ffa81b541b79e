//! The rights of clients.

use std::fmt;
use std::sync::Arc;

use tonic::{Extensions, Status};

/// The rights of a request's client: an extension of the request. Without it, a client may ask all limits, and returns no
/// units.
#[derive(Clone)]
pub struct Rights {
    may_refund: bool,
    may_ask: Arc<MayAsk>,
}

/// Returns a reason if the client isn't permitted to ask the limit of this name.
type MayAsk = dyn Fn(&str) -> Result<(), String> + Send + Sync;

impl Rights {
    /// Makes the rights of a client. `may_ask` returns a reason if the client isn't permitted to ask a limit of this name.
    pub fn new(
        may_refund: bool,
        may_ask: impl Fn(&str) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self { may_refund, may_ask: Arc::new(may_ask) }
    }

    /// Returns the rights of a request's client.
    pub(super) fn of(extensions: &Extensions) -> Self {
        extensions.get::<Self>().cloned().unwrap_or_else(|| Self::new(false, |_| Ok(())))
    }

    /// Returns whether the client may return units with negative hits.
    pub(super) const fn may_refund(&self) -> bool {
        self.may_refund
    }

    /// Returns an error if the client isn't permitted to ask a limit.
    pub(super) fn ask(&self, limit: &str) -> Result<(), Status> {
        (self.may_ask)(limit).map_err(Status::permission_denied)
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rights").field("may_refund", &self.may_refund).finish_non_exhaustive()
    }
}
