//! Each limit's part of a decision about several limits together.

use super::joint::binding;
use super::{Decision, Outcome};
use crate::name::LimitName;

impl Decision {
    /// Returns the name of the limit that refuses the request.
    ///
    /// This is the limit of the [binding policy](Decision::binding), or the one whose
    /// [ban](Decision::ban) or [pause](Decision::pause) refuses. `None` if the request is allowed, or denied for a reason
    /// outside its limits.
    ///
    /// ```
    /// # use sluicegate_core::for_stores::{Now, step};
    /// # use sluicegate_core::{Limit, Request};
    /// let limit = |name: &str, spec: &str| -> Result<Limit, Box<dyn std::error::Error>> {
    ///     Ok(Limit::new(name, vec![spec])?)
    /// };
    /// let both = Limit::together([limit("everything", "gcra 9/s")?, limit("user", "gcra 0/s")?])?;
    /// let also: &[&[u8]] = &[b"alice"];
    /// let now = Now { micros: 0, max_clock_back: None };
    /// let denial = step(&both, &Request::check(b"all").also(also), now, &mut [None, None])?.decision;
    /// assert_eq!(denial.binding_limit().map(|name| name.as_str()), Some("user"));
    /// assert!(denial.binding_of(0).is_none());
    /// assert_eq!(denial.binding_of(1).map(|policy| policy.name().as_str()), Some("gcra"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn binding_limit(&self) -> Option<&LimitName> {
        self.limit.as_ref()?.parts().get(self.binding_part()?)
    }

    /// Returns the binding policy of one part: among its policies that refused, the one with the
    /// longest retry-after.
    ///
    /// `None` if the part's policies admit the request. `part` is an index in
    /// [`Limit::parts`](crate::Limit::parts).
    #[must_use]
    pub fn binding_of(&self, part: usize) -> Option<Outcome<'_>> {
        if self.allowed {
            return None;
        }
        // The binding policy of a repeated denial still binds, even if it would admit the request
        // by now.
        let known = self.binding().filter(|binding| binding.member().part() == part);
        known.or_else(|| {
            let limit = self.limit.as_ref()?;
            let (index, _) = binding(limit, &self.policies, |member| member.part() == part)?;
            self.policy(index)
        })
    }

    /// Returns `true` if a part refuses the request, by a policy, its ban or a pause.
    ///
    /// Otherwise another part denied the request, or a reason outside its limits did. `part` is an
    /// index in [`Limit::parts`](crate::Limit::parts).
    #[must_use]
    pub fn is_refused_by(&self, part: usize) -> bool {
        !self.allowed && (self.binding_part() == Some(part) || self.binding_of(part).is_some())
    }

    fn binding_part(&self) -> Option<usize> {
        if self.allowed {
            return None;
        }
        let of_policy = self.binding().map(|binding| binding.member().part());
        let of_ban = || self.ban().map(|ban| ban.part);
        of_policy.or_else(of_ban).or_else(|| self.pause().map(|pause| pause.part))
    }
}
