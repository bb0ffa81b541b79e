//! A request for a permit of which no answer has come.

use std::sync::Arc;

use sluicegate_core::{Decision, Error, HoldToken, Span, StoreErrorKind};

use super::held::settle_in_background;
use super::keeper::Keeper;
use super::moment::Moment;
use crate::usage::Usage;

/// A request for a permit that waits for its answer. Dropped before that, it cancels what the store
/// may have charged: nobody knows of it.
pub(crate) struct Unanswered {
    open: Option<(Arc<dyn Keeper>, HoldToken)>,
    ends: Moment,
}

impl Unanswered {
    /// A request to hold for `lasts` that is sent now.
    pub(crate) fn new(keeper: Arc<dyn Keeper>, token: HoldToken, lasts: Span) -> Self {
        Self { open: Some((keeper, token)), ends: Moment::now().plus(lasts) }
    }

    /// The answer came.
    pub(crate) fn answered(mut self, answer: &Result<Decision, Error>) {
        let is_unknown = matches!(
            answer,
            Err(Error::Store(error)) if matches!(
                error.kind(),
                StoreErrorKind::Timeout | StoreErrorKind::Disconnected | StoreErrorKind::Unacknowledged
            )
        );
        if !is_unknown {
            self.open = None;
        }
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some((keeper, token)) = self.open.take() {
            let runtime = tokio::runtime::Handle::try_current().ok();
            settle_in_background(keeper, token, Usage::nothing(), self.ends, runtime);
        }
    }
}
