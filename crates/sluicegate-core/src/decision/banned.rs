//! The ban that a decision reports.

use std::time::Duration;

use super::Decision;
use crate::name::LimitName;
use crate::time::Span;

/// A ban that refuses a request, or that begins with its denial.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct Banned {
    /// The index in [`Limit::parts`](crate::Limit::parts) of the part whose subject is banned.
    pub part: usize,
    /// The time until the ban ends, from the evaluation time.
    pub ends_in: Duration,
    /// Whether the ban begins with this decision, because policies refused. Otherwise the ban alone
    /// refused.
    pub begins: bool,
}

impl Banned {
    /// Creates a ban that ends in `ends_in` µs. For stores.
    #[must_use]
    pub const fn new(part: usize, ends_in: u64, begins: bool) -> Self {
        Self { part, ends_in: super::time(ends_in), begins }
    }

    /// Returns the longer of two bans, or the first if they are equal.
    #[must_use]
    pub(crate) fn longer(self, other: Self) -> Self {
        if other.ends_in > self.ends_in { other } else { self }
    }
}

impl Decision {
    /// Returns the ban that refuses the request or begins with its denial; the longest if there are
    /// several.
    ///
    /// While a subject is banned, no policy is evaluated: the decision lists no policy, and none
    /// binds.
    ///
    /// ```
    /// # use sluicegate_core::for_stores::{Book, Now, step_with_books};
    /// # use sluicegate_core::{Ban, Limit, Request};
    /// let ban: Ban = "1/min for 15min".parse()?;
    /// let limit = Limit::new("login", vec!["gcra 1/min"])?.banning(ban);
    /// let (mut held, mut books) = ([None], [Book::default()]);
    /// let mut check = || {
    ///     let now = Now { micros: 0, max_clock_back: None };
    ///     let request = Request::check(b"alice");
    ///     step_with_books(&limit, &request, now, &mut held, &mut books).map(|step| step.decision)
    /// };
    /// assert!(check()?.is_allowed());
    /// let denial = check()?;
    /// assert!(denial.ban().is_some_and(|ban| ban.begins) && denial.binding().is_some());
    /// let refused = check()?;
    /// assert_eq!(refused.ban().map(|ban| (ban.ends_in, ban.begins)), Some((ban.lasts().into(), false)));
    /// assert_eq!(refused.policies().len(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn ban(&self) -> Option<Banned> {
        self.extras.as_ref()?.ban
    }

    /// Returns the name of the limit that banned the subject.
    #[must_use]
    pub fn banned_by(&self) -> Option<&LimitName> {
        self.limit.as_ref()?.parts().get(self.ban()?.part)
    }

    /// Records that the denial begins a ban. No request passes before the ban ends.
    pub(crate) fn begin_ban(&mut self, ban: Banned) {
        self.instant = self.instant.max(Span::from(ban.ends_in).as_micros());
        self.extras_mut().ban = Some(ban);
    }
}
