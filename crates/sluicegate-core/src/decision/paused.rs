//! The pause that a decision reports.

use std::time::Duration;

use super::Decision;
use crate::name::{LimitName, PolicyName};

/// A pause that refuses a request, or that a request has set.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct Paused {
    /// The index in [`Limit::parts`](crate::Limit::parts) of the part whose subject is paused.
    pub part: usize,
    /// The index in [`Limit::members`](crate::Limit::members) of the paused policy; `None` if the
    /// whole part is paused.
    pub policy: Option<usize>,
    /// The time until the pause ends, from the evaluation time.
    pub ends_in: Duration,
}

impl Paused {
    /// Creates a pause that ends in `ends_in` µs. For stores.
    #[must_use]
    pub const fn new(part: usize, policy: Option<usize>, ends_in: u64) -> Self {
        Self { part, policy, ends_in: super::time(ends_in) }
    }

    /// Returns the longer of two pauses, or the first if they are equal.
    #[must_use]
    pub(crate) fn longer(self, other: Self) -> Self {
        if other.ends_in > self.ends_in { other } else { self }
    }
}

impl Decision {
    /// Returns the pause that refuses the request, the longest if there are several. For
    /// [`Operation::Pause`](crate::Operation::Pause) it is the pause that lasts from then on.
    ///
    /// While a subject is paused, no policy is evaluated: the decision lists no policy, and none
    /// binds.
    ///
    /// ```
    /// # use sluicegate_core::for_stores::{Book, Now, step_with_books};
    /// # use sluicegate_core::{Limit, Operation, Request, Span};
    /// let limit = Limit::new("upstream", vec!["gcra 9/s"])?;
    /// let (mut held, mut books) = ([None], [Book::default()]);
    /// let mut ask = |operation| {
    ///     let now = Now { micros: 0, max_clock_back: None };
    ///     let request = Request::new(operation, b"acme");
    ///     step_with_books(&limit, &request, now, &mut held, &mut books).map(|step| step.decision)
    /// };
    /// assert!(ask(Operation::Pause { lasts: Span::MINUTE, policy: None })?.is_allowed());
    /// let refused = ask(Operation::Check)?;
    /// assert_eq!(refused.pause().map(|pause| pause.ends_in), Some(Span::MINUTE.into()));
    /// assert_eq!((refused.is_denied(), refused.policies().len()), (true, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn pause(&self) -> Option<Paused> {
        self.extras.as_ref()?.pause
    }

    /// Returns the name of the limit under which the subject is paused.
    #[must_use]
    pub fn paused_by(&self) -> Option<&LimitName> {
        self.limit.as_ref()?.parts().get(self.pause()?.part)
    }

    /// Returns the name of the paused policy; `None` if the whole limit is paused, or nothing is.
    #[must_use]
    pub fn paused_policy(&self) -> Option<&PolicyName> {
        let member = self.limit.as_ref()?.members().get(self.pause()?.policy?)?;
        Some(member.name())
    }
}
