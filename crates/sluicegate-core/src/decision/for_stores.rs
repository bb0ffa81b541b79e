//! Decisions as authors of stores and layers make them.

use super::{Banned, Decision, Extras, Notes, Share, Source, Told};
use crate::hold::{Hold, HoldFound};
use crate::kernel::{Kernel, NEVER, Verdict};
use crate::lease::Lease;
use crate::limit::Limit;
use crate::receipt::Receipt;
use crate::request::Request;
use crate::slices::SliceCounts;
use crate::ticket::{Queued, Ticket};
use crate::time::{Span, Timestamp};

/// What only authors of stores and layers do with a [`Decision`].
pub trait DecisionForStores: Sized {
    /// The decision of `limit`'s `on_store_failure` after its store failed.
    fn fallback(limit: &Limit, allowed: bool) -> Self;

    /// A decision made without asking any limit.
    fn bypass(allowed: bool) -> Self;

    /// The decision on a cancellation: allowed if the units were given back.
    fn cancelled(limit: &Limit, given_back: bool) -> Self;

    /// The decision on a check of a limit whose only policy is enforced, and of a kernel that
    /// [counts](crate::kernel::Report::total) nothing: the same as [`step`](crate::for_stores::step()) returns, without its general
    /// machinery.
    ///
    /// `balance` is the balance after the charge, `verdict` the policy's verdict before it.
    fn of_one<K: Kernel>(
        limit: &Limit,
        rule: &K,
        balance: &K::Balance,
        cost: u64,
        verdict: Verdict,
    ) -> Self;

    /// Records what the store noticed.
    fn set_notes(&mut self, notes: Notes);

    /// The same decision with what the store noticed.
    fn with_notes(self, notes: Notes) -> Self;

    /// The same decision from another source. For layers, stores around stores.
    fn with_source(self, source: Source) -> Self;

    /// The same decision with a receipt, for giving the units back.
    fn with_receipt(self, receipt: Receipt) -> Self;

    /// Records whether a reset found a state. For stores that see more than the states they step.
    fn set_forgotten(&mut self, forgotten: bool);

    /// Denies the request because the store has no room for its key, regardless of the policies' verdicts.
    /// Their outcomes stay as they are. `retry_after` is the time until a stored state expires, if the store
    /// knows one. For bounded stores.
    fn turn_away_for_room(&mut self, retry_after: Option<Span>);

    /// Takes the receipt out.
    #[must_use]
    fn take_receipt(&mut self) -> Option<Receipt>;

    /// The units that were taken ahead for who asked, if this is an allowed check that
    /// [wanted](crate::for_stores::Leasing::want) that and the store could.
    #[must_use]
    fn lease(&self) -> Option<Lease>;

    /// Takes the slices out.
    #[must_use]
    fn take_slices(&mut self) -> Option<SliceCounts>;

    /// The same denial, given so long afterwards without asking the store again: what was to be waited
    /// for is nearer by that. What remains, and when states are fresh, is as the store said it. For
    /// layers that remember denials.
    fn repeated(&self, after: Span) -> Self;

    /// The same decision without the lease that came with it. For layers that keep it.
    fn without_lease(self) -> Self;

    /// The decision on a request of these costs per policy by who holds units of a lease that this
    /// decision granted at `taken_at`: allowed, with what the store said was left, and of each policy
    /// what is still held. For layers that take leases.
    fn leased(&self, taken_at: Timestamp, costs: &[u64], held: impl Fn(usize) -> u64) -> Self;

    /// The same decision with a lease for who asked.
    fn with_lease(self, lease: Lease) -> Self;

    /// The same decision on a denied request that has a ticket, behind so many others.
    fn waits(self, ticket: &Ticket, ahead: u64) -> Self;

    /// The same decision with what became of a request that was to wait.
    fn with_queued(self, queued: Queued) -> Self;

    /// The same decision with what the request holds now.
    fn with_hold(self, hold: Hold) -> Self;

    /// The decision on a request that settles or renews a hold, from that of a peek at no cost: with what
    /// was found, and the units that each policy gave back, `None` for those that were not to.
    fn of_hold(self, found: HoldFound, given: impl Iterator<Item = Option<u64>>) -> Self;

    /// The decision of the peek that one on a hold is made from.
    fn into_peeked(self) -> Self;

    /// The decision on a request that a ban refuses.
    fn banned(limit: &Limit, ban: Banned, restamped: bool) -> Self;

    /// The decision on a request that was allowed before, of which no more is known than that, when, and of
    /// one that took up to a number how many units: each policy says what it does of a fresh key.
    fn of_known(
        limit: &Limit,
        request: &Request<'_>,
        taken_at: Timestamp,
        granted: Option<u64>,
    ) -> Self;

    /// The same decision as the answer to a request that was asked again.
    fn again(self) -> Self;

    /// The same decision as if it were the first one, for who never knew of an id. For layers that ask again.
    fn without_repeat(self) -> Self;

    /// The decision on a request whose parts were decided apart, at the same time or one after the
    /// other: as if they had been decided together. It is allowed if every share is. What remains
    /// is what remained afterwards. The shares have to cover every policy of the limit once. For stores
    /// that can't decide about all parts together.
    ///
    /// ```
    /// # use sluicegate_core::for_stores::{DecisionForStores as _, Now, Share, step};
    /// # use sluicegate_core::{Decision, Limit, Request};
    /// let limit = |name: &str, spec: &str| -> Result<Limit, Box<dyn std::error::Error>> {
    ///     Ok(Limit::new(name.parse()?, vec![spec.parse()?])?)
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

    /// The decision on a request to `limit` that another process made, from what it said. It doesn't know
    /// [when the units were taken](Decision::taken_at). For stores that ask a service.
    ///
    /// ```
    /// # use sluicegate_core::for_stores::{DecisionForStores as _, Told, ToldOutcome};
    /// # use sluicegate_core::{Decision, Limit, Notes, Request, RetryAfter, Source, Span};
    /// let limit = Limit::new("api".parse()?, vec!["gcra 1/s burst 9".parse()?])?;
    /// let outcome = ToldOutcome {
    ///     retry_after: RetryAfter::NotRefused,
    ///     remaining: Some(8),
    ///     reset_after: Some(Span::SECOND),
    ///     wait: Span::ZERO,
    ///     given_back: None,
    ///     window_total: 0,
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
    ///     is_repeat: false,
    ///     notes: Notes::default(),
    ///     policies: &[outcome],
    /// };
    /// let decision = Decision::told(&limit, &Request::check(b"alice"), &told);
    /// assert_eq!((decision.remaining(), decision.granted()), (Some(8), 1));
    /// assert_eq!(decision.policy(0).unwrap().reset_after(), Some(Span::SECOND));
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
        Self::of_one(limit, rule, balance, cost, verdict)
    }

    fn set_notes(&mut self, notes: Notes) {
        self.notes = notes;
    }

    fn with_notes(mut self, notes: Notes) -> Self {
        self.notes = notes;
        self
    }

    fn with_source(mut self, source: Source) -> Self {
        self.source = source;
        self
    }

    fn with_receipt(mut self, receipt: Receipt) -> Self {
        self.extras.get_or_insert_default().receipt = Some(receipt);
        self
    }

    fn set_forgotten(&mut self, forgotten: bool) {
        self.forgotten = Some(forgotten);
    }

    fn turn_away_for_room(&mut self, retry_after: Option<Span>) {
        self.allowed = false;
        self.notes.full = true;
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
        Self::repeated(self, after)
    }

    fn without_lease(mut self) -> Self {
        if let Some(extras) = &mut self.extras {
            extras.lease = None;
            if **extras == Extras::default() {
                self.extras = None;
            }
        }
        self
    }

    fn leased(&self, taken_at: Timestamp, costs: &[u64], held: impl Fn(usize) -> u64) -> Self {
        Self::leased(self, taken_at, costs, held)
    }

    fn with_lease(mut self, lease: Lease) -> Self {
        self.extras.get_or_insert_default().lease = Some(lease);
        self
    }

    fn waits(self, ticket: &Ticket, ahead: u64) -> Self {
        Self::waits(self, ticket, ahead)
    }

    fn with_queued(mut self, queued: Queued) -> Self {
        self.extras.get_or_insert_default().queued = Some(queued);
        self
    }

    #[inline]
    fn with_hold(mut self, hold: Hold) -> Self {
        self.set_hold(hold);
        self
    }

    #[inline]
    fn of_hold(self, found: HoldFound, given: impl Iterator<Item = Option<u64>>) -> Self {
        Self::of_hold(self, found, given)
    }

    fn into_peeked(self) -> Self {
        Self::into_peeked(self)
    }

    fn banned(limit: &Limit, ban: Banned, restamped: bool) -> Self {
        Self::banned(limit, ban, restamped)
    }

    fn of_known(
        limit: &Limit,
        request: &Request<'_>,
        taken_at: Timestamp,
        granted: Option<u64>,
    ) -> Self {
        Self::of_known(limit, request, taken_at, granted)
    }

    fn again(mut self) -> Self {
        self.extras.get_or_insert_default().repeat = true;
        self
    }

    fn without_repeat(mut self) -> Self {
        if let Some(extras) = &mut self.extras {
            extras.repeat = false;
            if **extras == Extras::default() {
                self.extras = None;
            }
        }
        self
    }

    fn joint(limit: &Limit, request: &Request<'_>, shares: &[Share<'_>]) -> Self {
        Self::joint(limit, request, shares)
    }

    fn told(limit: &Limit, request: &Request<'_>, told: &Told<'_>) -> Self {
        Self::told(limit, request, told)
    }
}
