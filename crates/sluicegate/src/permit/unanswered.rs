//! A request for a permit without an answer yet.

use std::sync::Arc;

use sluicegate_core::for_stores::Driver;
use sluicegate_core::{Decision, Error, HoldToken, Span, StoreErrorKind};

use super::held::settle_in_background;
use super::keeper::Keeper;
use super::moment::Moment;
use crate::usage::Usage;

/// A request for a permit that waits for its answer. If dropped before, it cancels what the store may have charged,
/// because no caller has the token.
pub(crate) struct Unanswered {
    open: Option<(Arc<dyn Keeper>, HoldToken)>,
    ends: Moment,
}

impl Unanswered {
    /// Makes a request, sent now, to hold for `lasts`.
    pub(crate) fn new(keeper: Arc<dyn Keeper>, token: HoldToken, lasts: Span) -> Self {
        Self { open: Some((keeper, token)), ends: Moment::now().plus(lasts) }
    }

    /// Notes that the answer came.
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
            let runtime = Driver::home().ok();
            settle_in_background(keeper, token, Usage::nothing(), self.ends, runtime);
        }
    }
}
