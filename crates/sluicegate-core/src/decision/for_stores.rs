//! Constructors and setters of decisions, for authors of stores and layers.

use smallvec::SmallVec;

use super::joint::joint;
use super::kept::{known, repeat};
use super::{
    Banned, Decision, Numbers, Paused, Said, Share, Source, Told, Warnings, refused, told,
};
use crate::hold::{Hold, HoldFound};
use crate::kernel::{Kernel, NEVER, Verdict};
use crate::lease::Lease;
use crate::limit::Limit;
use crate::receipt::Receipt;
use crate::request::Request;
use crate::slices::SliceCounts;
use crate::ticket::{Queued, Ticket};
use crate::time::{Span, Timestamp};

/// Constructors and setters of decisions, for authors of stores and layers.
pub trait DecisionForStores: Sized {
    /// Returns the decision of `limit`'s `on_store_failure` after its store failed.
    fn fallback(limit: &Limit, allowed: bool) -> Self;

    /// Returns a decision made without checking a limit.
    fn bypass(allowed: bool) -> Self;

    /// Returns the decision on a cancellation: allowed if the units were given back.
    fn cancelled(limit: &Limit, given_back: bool) -> Self;

    /// Returns the decision on a check of a limit whose only policy is enforced.
    ///
    /// The kernel must [count](crate::kernel::Report::used) nothing. The decision equals that of
    /// [`step`](crate::for_stores::step()), but needs less work. `balance` is the balance after the
    /// charge, `verdict` the policy's verdict before it.
    fn of_one<K: Kernel>(
        limit: &Limit,
        rule: &K,
        balance: &K::Balance,
        cost: u64,
        verdict: Verdict,
    ) -> Self;

    /// Records what the store noticed.
    fn set_warnings(&mut self, warnings: Warnings);

    /// Adds the irregularities that the store noticed.
    fn with_warnings(self, warnings: Warnings) -> Self;

    /// Sets the source. For layers, which are stores around stores.
    fn with_source(self, source: Source) -> Self;

    /// Adds a receipt for giving the units back.
    fn with_receipt(self, receipt: Receipt) -> Self;

    /// Records whether a reset found a state. For stores that see other states than those they
    /// step.
    fn set_forgotten(&mut self, forgotten: bool);

    /// Denies the request because the store has no free slot for its key, regardless of the
    /// policies' verdicts.
    ///
    /// The outcomes are unchanged. `retry_after` is the time until a stored state expires, if the
    /// store knows one. For bounded stores.
    fn turn_away_for_room(&mut self, retry_after: Option<Span>);

    /// Takes the receipt out.
    #[must_use]
    fn take_receipt(&mut self) -> Option<Receipt>;

    /// Returns the units leased to the caller.
    ///
    /// Only an allowed check that [requested](crate::for_stores::Leasing::want) a lease has one,
    /// and only if the store could grant it.
    #[must_use]
    fn lease(&self) -> Option<Lease>;

    /// Takes the slices out.
    #[must_use]
    fn take_slices(&mut self) -> Option<SliceCounts>;

    /// Repeats this denial `after` later, without calling the store again.
    ///
    /// Waiting times are shorter by `after`. The remaining units and the reset times are as the
    /// store reported them. For layers that remember denials.
    fn repeated(&self, after: Span) -> Self;

    /// Removes the lease. For layers that keep it themselves.
    fn without_lease(self) -> Self;

    /// Returns the lease holder's decision on a request with these costs per policy.
    ///
    /// This decision granted the lease at `taken_at`. The new one is allowed. It reports the
    /// remainder that the store reported, plus the units that each policy's lease still holds. For
    /// layers that take leases.
    fn leased(&self, taken_at: Timestamp, costs: &[u64], held: impl Fn(usize) -> u64) -> Self;

    /// Adds a lease for the caller.
    fn with_lease(self, lease: Lease) -> Self;

    /// Records that the denied request has a ticket with `ahead` others before it.
    fn waits(self, ticket: &Ticket, ahead: u64) -> Self;

    /// Adds what happened to a request that wanted to wait.
    fn with_queued(self, queued: Queued) -> Self;

    /// Adds the request's hold.
    fn with_hold(self, hold: Hold) -> Self;

    /// Returns the decision on a request that settles or renews a hold, based on a peek at no cost.
    ///
    /// `found` is what happened to the hold. `given` lists the units that each policy gave back,
    /// `None` for a policy that had none to give back.
    fn of_hold(self, found: HoldFound, given: impl Iterator<Item = Option<u64>>) -> Self;

    /// Returns the peek that a decision on a hold is based on.
    fn into_peeked(self) -> Self;

    /// Returns the decision on a request that a ban, a pause or both refuse.
    fn refused(limit: &Limit, ban: Option<Banned>, pause: Option<Paused>, restamped: bool) -> Self;

    /// Returns the decision on a request that is only known to have been allowed before.
    ///
    /// `granted` is the number of units for a request that takes up to its cost. Each policy
    /// reports what it would for a fresh key.
    fn of_known(
        limit: &Limit,
        request: &Request<'_>,
        taken_at: Timestamp,
        granted: Option<u64>,
    ) -> Self;

    /// Marks the decision as the answer to a repeated request.
    fn again(self) -> Self;

    /// Removes that mark, for a caller that knows nothing of the id. For layers that retry.
    fn without_repeat(self) -> Self;

    /// Joins the decisions on the parts of a request into the one that deciding them together would
    /// give.
    ///
    /// The parts may have been decided at the same time or in sequence. The result is allowed if
    /// each share is. The remainder is the one after all shares. The shares must cover each policy
    /// of the limit once. For stores that can't decide about all parts together.
    ///
    /// ```
    /// # use sluicegate_core::for_stores::{DecisionForStores as _, Now, Share, step};
    /// # use sluicegate_core::{Decision, Limit, Request};
    /// let limit = |name: &str, spec: &str| -> Result<Limit, Box<dyn std::error::Error>> {
    ///     Ok(Limit::new(name, vec![spec])?)
    /// };
    /// let both = Limit::together([limit("a", "gcra 1/s")?, limit("b", "gcra 2/s")?])?;
    /// let also: &[&[u8]] = &[b"y"];
    /// let request = Request::check(b"x").also(also);
    /// let now = Now { micros: 0, max_clock_back: None };
    /// let apart = [b"x", b"y"].map(|subject| {
    ///     let part = usize::from(subject == b"y");
    ///     step(&both.only(&[part]), &Request::check(subject), now, &mut [None]).unwrap().decision
    /// });
    /// let shares = [0, 1].map(|part| {
    ///     let (decision, members) = (&apart[part], [&[0], &[1]][part]);
    ///     Share { decision, members, afterwards: None }
    /// });
    /// let joint = Decision::joint(&both, &request, &shares);
    /// let together = step(&both, &request, now, &mut [None, None])?.decision;
    /// assert_eq!(joint, together);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn joint(limit: &Limit, request: &Request<'_>, shares: &[Share<'_>]) -> Self;

    /// Builds the decision that another process made on a request to `limit`, from its report.
    ///
    /// The result doesn't know [when the units were taken](Decision::taken_at). For stores that
    /// call a service.
    ///
    /// ```
    /// # use sluicegate_core::for_stores::{DecisionForStores as _, Told, ToldOutcome};
    /// # use sluicegate_core::{Decision, Limit, Warnings, Request, RetryAfter, Source, Span};
    /// let limit = Limit::new("api", vec!["gcra 1/s burst 9"])?;
    /// let outcome = ToldOutcome {
    ///     retry_after: RetryAfter::NotRefused,
    ///     remaining: Some(8),
    ///     reset_after: Some(Span::SECOND),
    ///     wait: Span::ZERO,
    ///     given_back: None,
    ///     used: 0,
    ///     current_slice: 0,
    ///     violated: 0,
    /// };
    /// let told = Told {
    ///     allowed: true,
    ///     source: Source::Store,
    ///     retry_after: RetryAfter::NotRefused,
    ///     binding: None,
    ///     granted: None,
    ///     forgotten: None,
    ///     ban: None,
    ///     pause: None,
    ///     is_repeat: false,
    ///     warnings: Warnings::default(),
    ///     policies: &[outcome],
    /// };
    /// let decision = Decision::told(&limit, &Request::check(b"alice"), &told);
    /// assert_eq!((decision.remaining(), decision.granted()), (Some(8), 1));
    /// assert_eq!(decision.policy(0).unwrap().reset_after(), Some(Span::SECOND.into()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn told(limit: &Limit, request: &Request<'_>, told: &Told<'_>) -> Self;
}

impl DecisionForStores for Decision {
    fn fallback(limit: &Limit, allowed: bool) -> Self {
        Self { limit: Some(limit.clone()), ..Self::without_policies(Source::Fallback, allowed) }
    }

    fn bypass(allowed: bool) -> Self {
        Self::without_policies(Source::Bypass, allowed)
    }

    fn cancelled(limit: &Limit, given_back: bool) -> Self {
        Self { limit: Some(limit.clone()), ..Self::without_policies(Source::Store, given_back) }
    }

    #[inline]
    fn of_one<K: Kernel>(
        limit: &Limit,
        rule: &K,
        balance: &K::Balance,
        cost: u64,
        verdict: Verdict,
    ) -> Self {
        let report = rule.report(balance);
        let (said, amount) = Said::of(verdict);
        let admitted = said == Said::Passes;
        let mut policies = SmallVec::new();
        policies.push(Numbers {
            remaining: report.remaining,
            reset: report.reset,
            amount,
            said,
            ..Numbers::NOTHING
        });
        let (granted, binding) = if admitted { (cost, None) } else { (0, Some(0)) };
        let evaluated = report.evaluated_at;
        let instant = if admitted { evaluated } else { amount };
        Self::new(limit.clone(), policies, admitted, granted, instant, binding)
            .evaluated_at_micros(evaluated)
    }

    fn set_warnings(&mut self, warnings: Warnings) {
        self.warnings = warnings;
    }

    fn with_warnings(mut self, warnings: Warnings) -> Self {
        self.warnings = warnings;
        self
    }

    fn with_source(mut self, source: Source) -> Self {
        self.source = source;
        self
    }

    fn with_receipt(mut self, receipt: Receipt) -> Self {
        self.extras_mut().receipt = Some(receipt);
        self
    }

    fn set_forgotten(&mut self, forgotten: bool) {
        self.forgotten = Some(forgotten);
    }

    fn turn_away_for_room(&mut self, retry_after: Option<Span>) {
        self.allowed = false;
        self.warnings.full = true;
        self.binding = None;
        self.granted = 0;
        self.instant = retry_after.map_or(NEVER, |span| span.as_micros().max(1));
        self.forget_extras();
    }

    fn take_receipt(&mut self) -> Option<Receipt> {
        self.extras.as_mut()?.receipt.take()
    }

    fn lease(&self) -> Option<Lease> {
        self.extras.as_ref()?.lease
    }

    fn take_slices(&mut self) -> Option<SliceCounts> {
        self.extras.as_mut()?.slices.take()
    }

    fn repeated(&self, after: Span) -> Self {
        let after = after.as_micros();
        let mut repeated = self.clone().with_source(Source::DenyCache);
        for numbers in &mut repeated.policies {
            if numbers.said == Said::Refuses && numbers.amount != NEVER {
                numbers.amount = numbers.amount.saturating_sub(after);
                if numbers.amount == 0 {
                    numbers.said = Said::Passes;
                }
            }
        }
        if !repeated.allowed && repeated.instant != NEVER {
            repeated.instant = repeated.instant.saturating_sub(after).max(1);
        }
        repeated
    }

    fn without_lease(mut self) -> Self {
        self.forget(|extras| extras.lease = None);
        self
    }

    fn leased(&self, taken_at: Timestamp, costs: &[u64], held: impl Fn(usize) -> u64) -> Self {
        let mut leased = self.clone().with_source(Source::Lease);
        let members = self.limit.as_ref().map_or(&[][..], Limit::members);
        for (index, (numbers, member)) in leased.policies.iter_mut().zip(members).enumerate() {
            let ticks = member.policy().rule().profile().ticks_of(held(index));
            numbers.remaining = numbers.remaining.saturating_add(ticks);
            numbers.used = numbers.used.saturating_sub(held(index));
        }
        leased.instant = taken_at.as_micros();
        leased.granted = costs.iter().copied().max().unwrap_or(0);
        leased.warnings = Warnings::default();
        leased
    }

    fn with_lease(mut self, lease: Lease) -> Self {
        self.extras_mut().lease = Some(lease);
        self
    }

    fn waits(self, ticket: &Ticket, ahead: u64) -> Self {
        let queued = self.where_it_waits(ticket, ahead);
        self.with_queued(queued)
    }

    fn with_queued(mut self, queued: Queued) -> Self {
        self.extras_mut().queued = Some(queued);
        self
    }

    #[inline]
    fn with_hold(mut self, hold: Hold) -> Self {
        self.set_hold(hold);
        self
    }

    #[inline]
    fn of_hold(mut self, found: HoldFound, given: impl Iterator<Item = Option<u64>>) -> Self {
        for (numbers, given) in self.policies.iter_mut().zip(given) {
            if let Some(units) = given {
                (numbers.said, numbers.amount) = (Said::GaveBack, units);
            }
        }
        self.allowed = found != HoldFound::Unknown;
        self.granted = 0;
        self.instant = NEVER;
        self.hold_found = Some(found);
        self
    }

    fn into_peeked(mut self) -> Self {
        for numbers in &mut self.policies {
            (numbers.said, numbers.amount) = (Said::Passes, 0);
        }
        self.allowed = true;
        self.forget_extras();
        self
    }

    fn refused(limit: &Limit, ban: Option<Banned>, pause: Option<Paused>, restamped: bool) -> Self {
        refused::refused(limit, ban, pause, restamped)
    }

    fn of_known(
        limit: &Limit,
        request: &Request<'_>,
        taken_at: Timestamp,
        granted: Option<u64>,
    ) -> Self {
        known(limit, request, taken_at, granted)
    }

    fn again(self) -> Self {
        repeat(self)
    }

    fn without_repeat(mut self) -> Self {
        self.forget(|extras| extras.repeat = false);
        self
    }

    fn joint(limit: &Limit, request: &Request<'_>, shares: &[Share<'_>]) -> Self {
        joint(limit, request, shares)
    }

    fn told(limit: &Limit, request: &Request<'_>, told: &Told<'_>) -> Self {
        told::told(limit, request, told)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::decision::RetryAfter;

    #[test]
    fn a_repeated_denial_has_less_to_wait_for() {
        let policies = ["gcra 1/s as second", "gcra 1/min as minute", "gcra 0/h as never"];
        let limit = Limit::new("l", policies).unwrap();
        let now = crate::for_stores::Now { micros: 0, max_clock_back: None };
        let mut held = [None, None, None];
        let charge =
            Request::new(crate::Operation::Charge, b"k").costs(crate::Costs::Each(&[1, 1, 0]));
        let _ = crate::for_stores::step(&limit, &charge, now, &mut held).unwrap();
        let check = Request::check(b"k").costs(crate::Costs::Each(&[1, 1, 0]));
        let denial = crate::for_stores::step(&limit, &check, now, &mut held).unwrap().decision;
        let ms = Duration::from_millis;
        let retries = |decision: &Decision| {
            decision.policies().map(|policy| policy.retry_after()).collect::<Vec<_>>()
        };
        let (after, not) = (RetryAfter::After, RetryAfter::NotRefused);
        assert_eq!(retries(&denial), [after(ms(1_000)), after(ms(60_000)), not]);
        let later = denial.repeated(ms(400).into());
        assert_eq!(later.retry_after(), after(ms(59_600)));
        assert_eq!(retries(&later), [after(ms(600)), after(ms(59_600)), not]);
        let later = denial.repeated(Span::SECOND);
        assert_eq!(retries(&later), [not, after(ms(59_000)), not]);
        assert_eq!((later.source(), later.is_denied()), (Source::DenyCache, true));
        assert_eq!(later.binding().unwrap().name().as_str(), "minute");
    }
}
