//! The request methods of limiters and gates, written once for both.

use std::time::Duration;

use sluicegate_core::{HoldId, HoldToken, Operation, Page, Receipt, Store};

use super::{
    Question, ToCancel, ToDecide, ToEnforce, ToListBans, ToListHolders, ToListKeys, ToPause,
    ToPermit, ToRenew, ToReserve, ToRevoke, ToSettle, WithNumbers,
};
use crate::ask::Ask;
use crate::keyed::Keyed;
use crate::limiter::Limiter;
#[cfg(feature = "config")]
use crate::registry::{Gate, Registry};
use crate::usage::Usage;

/// Writes the methods that take a token or a receipt.
macro_rules! verbs_by_token {
    () => {
        /// Settles a [hold](crate::question::Question::hold) for the real usage.
        ///
        /// If less was used than was charged, the rest goes back as far as it still counts. If more was used, the rest
        /// is charged, into debt if necessary. The decision is that of a peek afterwards, at no cost.
        /// [`Decision::hold_found`](crate::Decision::hold_found) reports the state of the hold, and
        /// [`Outcome::given_back`](crate::Outcome::given_back) the units that each policy gave back. If there is no
        /// hold, because it has expired, was reset, or never existed, nothing changes and the decision is denied.
        ///
        /// A hold is settled once. A repetition finds it [settled](crate::decision::HoldFound::Settled), changes
        /// nothing and reports again the units that were given back. So a settlement that failed may be sent again. A
        /// gate settles with the numbers that its limits have for the key now, whether they are on or not.
        ///
        /// ```
        /// use std::time::Duration;
        /// use sluicegate::{Limiter, MemoryStore, Usage};
        /// use sluicegate::decision::HoldFound;
        ///
        /// let limit = sluicegate::Limit::new("llm", ["fixed_window 9000/h as tokens"])?;
        /// let limiter = Limiter::new(MemoryStore::new(), limit);
        /// let grant = limiter.check("acme").cost(1_000).hold(Duration::from_secs(60)).now()?;
        /// let token = grant.into_token().unwrap();
        /// for expected in [HoldFound::Live, HoldFound::Settled] {
        ///     let settled = limiter.settle(&token, Usage::of("tokens", 412)).now()?;
        ///     assert_eq!(settled.hold_found(), Some(expected));
        ///     assert_eq!(settled.outcome("tokens").unwrap().given_back(), Some(588));
        ///     assert_eq!(settled.remaining(), Some(8_588));
        /// }
        /// let _ = limiter.reset("acme").now()?;
        /// let unknown = limiter.settle(&token, Usage::nothing()).now()?;
        /// assert!(unknown.is_denied() && unknown.hold_found() == Some(HoldFound::Unknown));
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        /// Returns an error if the store failed: `on_store_failure` doesn't apply. Also returns:
        ///
        /// - [`Invalid`](crate::error::RequestErrorKind::Invalid) for a token of other limits, and for a usage that
        ///   names an unknown policy or more than 2^53 − 1 units,
        /// - [`Overflow`](crate::error::RequestErrorKind::Overflow) if a state can't hold the units that were used
        ///   beyond the charge; then nothing is settled,
        /// - [`UnknownLimit`](crate::error::RequestErrorKind::UnknownLimit) if one of the token's limits no longer
        ///   exists.
        pub fn settle<'t, 'u>(
            &self,
            token: &'t HoldToken,
            usage: Usage<'u>,
        ) -> Question<'_, Self, ToSettle<'t, 'u>> {
            Question::new(self, ToSettle { token, usage })
        }

        /// Renews a [hold](crate::question::Question::hold), for `lasts` from now: 1 ms to a day, longer or shorter
        /// than before.
        ///
        /// The decision is like that of [`settle`](Self::settle). A settled hold stays settled.
        ///
        /// ```
        /// use std::sync::Arc;
        /// use std::time::Duration;
        /// use sluicegate::{Limiter, MemoryStore};
        /// use sluicegate::testing::ManualClock;
        ///
        /// let clock = Arc::new(ManualClock::default());
        /// let store = MemoryStore::builder().clock(clock.clone()).build();
        /// let limiter = Limiter::new(store, sluicegate::Limit::new("jobs", ["fixed_window 9/h"])?);
        /// let minute = Duration::from_secs(60);
        /// let token = limiter.check("acme").hold(minute).now()?.into_token().unwrap();
        /// for _ in 0..3 {
        ///     clock.advance(Duration::from_secs(50));
        ///     assert!(limiter.renew(&token, minute).now()?.is_allowed());
        /// }
        /// clock.advance(Duration::from_secs(60));
        /// assert!(limiter.renew(&token, minute).now()?.is_denied(), "it has expired");
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        /// Returns the errors of [`settle`](Self::settle), and `Invalid` if `lasts` is out of range.
        pub fn renew<'t>(
            &self,
            token: &'t HoldToken,
            lasts: Duration,
        ) -> Question<'_, Self, ToRenew<'t>> {
            Question::new(self, ToRenew { token, lasts: lasts.into() })
        }

        /// Cancels a reservation by its receipt, which may come from another process.
        ///
        /// The answer is whether the units were given back. They are not if the key was charged since.
        ///
        /// # Errors
        /// Returns [`Invalid`](crate::error::RequestErrorKind::Invalid) for a receipt from another limit. Also returns
        /// an error if the store fails; then the units count as used.
        pub fn cancel<'r>(&self, receipt: &'r Receipt) -> Question<'_, Self, ToCancel<'r>> {
            Question::new(self, ToCancel(receipt))
        }
    };
}

/// Writes the methods for requests about keys.
macro_rules! verbs {
    () => {
        /// Takes the cost, or is denied. A denial is not an error: look at
        /// [`Decision::is_allowed`](crate::Decision::is_allowed), or use [`enforce`](Self::enforce).
        ///
        /// A limit with a shaper may allow the request with a wait,
        /// [`Decision::wait`](crate::Decision::wait), before it acts.
        ///
        /// ```
        /// use sluicegate::{Limiter, MemoryStore};
        ///
        /// let limiter = Limiter::new(MemoryStore::new(), sluicegate::Limit::new("login", ["gcra 1/min"])?);
        /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
        /// assert!(limiter.check("alice").await?.is_allowed());
        /// assert!(limiter.check("alice").await?.is_denied());
        /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        /// Returns an error if the request is malformed, or if the store failed and `on_store_failure` neither allows
        /// nor denies.
        #[inline]
        pub fn check<'k>(&self, ask: impl Into<Ask<'k>>) -> Question<'_, Self, ToDecide<'k>> {
            self.decide(Operation::Check, ask)
        }

        /// Takes the cost like [`check`](Self::check), for a handler that returns a denial by `?`.
        ///
        /// ```
        /// use sluicegate::{Denied, Limiter, MemoryStore};
        ///
        /// async fn login(limiter: &Limiter<MemoryStore>, account: &str) -> Result<&'static str, Denied> {
        ///     limiter.enforce(account).await?;
        ///     Ok("welcome")
        /// }
        ///
        /// let limiter = Limiter::new(MemoryStore::new(), sluicegate::Limit::new("login", ["gcra 1/min"])?);
        /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
        /// assert!(login(&limiter, "alice").await.is_ok());
        /// let denied = login(&limiter, "alice").await.unwrap_err();
        /// assert_eq!(denied.to_string(), "limit `login` is exhausted: retry in 1 min");
        /// assert_eq!(denied.problem().status(), 429);
        /// # });
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        /// Returns the denial, or the failure to decide, as the response that middleware would send.
        #[inline]
        pub fn enforce<'k>(&self, ask: impl Into<Ask<'k>>) -> Question<'_, Self, ToEnforce<'k>> {
            Question::new(self, ToEnforce::new(ask.into()))
        }

        /// Answers like [`check`](Self::check), but charges and writes nothing.
        ///
        /// # Errors
        /// Returns the errors of [`check`](Self::check).
        #[inline]
        pub fn peek<'k>(&self, ask: impl Into<Ask<'k>>) -> Question<'_, Self, ToDecide<'k>> {
            self.decide(Operation::Peek, ask)
        }

        /// Takes as many units as every policy admits, up to the cost: [`Decision::granted`](crate::Decision::granted)
        /// units.
        ///
        /// If the store failed and the limit allows everything then, or if no limit was asked, nothing was counted. In
        /// this case `granted` is 0, and an allowed request may take its whole cost.
        ///
        /// ```
        /// use sluicegate::{Limiter, MemoryStore};
        ///
        /// let limiter = Limiter::new(MemoryStore::new(), sluicegate::Limit::new("mail", ["fixed_window 100/d"])?);
        /// assert_eq!(limiter.take("alice").cost(120).now()?.granted(), 100);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        /// Returns the errors of [`check`](Self::check).
        #[inline]
        pub fn take<'k>(&self, ask: impl Into<Ask<'k>>) -> Question<'_, Self, ToDecide<'k>> {
            self.decide(Operation::Take, ask)
        }

        /// Charges the cost unconditionally, into debt if necessary. Use it for units that were already used.
        ///
        /// A gate charges a key that was blocked since, but not one on the allow list.
        ///
        /// # Errors
        /// Returns an error if the request is malformed or the store failed. `on_store_failure` doesn't apply, since
        /// there is nothing to allow or deny.
        #[inline]
        pub fn charge<'k>(&self, ask: impl Into<Ask<'k>>) -> Question<'_, Self, ToDecide<'k>> {
            self.decide(Operation::Charge, ask)
        }

        /// Gives the cost back, at most up to a fresh key's state. A gate does nothing for a key on the allow list.
        ///
        /// [`taken_by`](crate::question::Question::taken_by) gives back only the remaining units of one request.
        ///
        /// # Errors
        /// Returns the errors of [`charge`](Self::charge).
        #[inline]
        pub fn refund<'k>(&self, ask: impl Into<Ask<'k>>) -> Question<'_, Self, ToDecide<'k>> {
            self.decide(Operation::Refund, ask)
        }

        /// Forgets the key's state, even if the key is on a list or the limit is off.
        ///
        /// # Errors
        /// Returns the errors of [`charge`](Self::charge).
        #[inline]
        pub fn reset<'k>(&self, ask: impl Into<Ask<'k>>) -> Question<'_, Self, ToDecide<'k>> {
            self.decide(Operation::Reset, ask)
        }

        /// Bans the key for `lasts` from now (1 s to 30 d), regardless of its denials. A banned key takes no units
        /// under this limit, even if it is on a list.
        ///
        /// An existing ban that ends later stays, and the answer names its end. Only [`unban`](Self::unban) shortens
        /// it.
        ///
        /// # Errors
        /// Returns the errors of [`charge`](Self::charge), and
        /// [`Unsupported`](crate::error::RequestErrorKind::Unsupported) for a limit without a
        /// [`Ban`](crate::policy::Ban).
        pub fn ban<'k>(
            &self,
            ask: impl Into<Ask<'k>>,
            lasts: Duration,
        ) -> Question<'_, Self, ToDecide<'k>> {
            self.decide(Operation::Ban { lasts: lasts.into() }, ask)
        }

        /// Lifts the key's ban, and forgets its denials and earlier bans.
        /// [`Decision::forgotten`](crate::Decision::forgotten) tells whether it was banned.
        ///
        /// # Errors
        /// Returns the errors of [`ban`](Self::ban).
        pub fn unban<'k>(&self, ask: impl Into<Ask<'k>>) -> Question<'_, Self, ToDecide<'k>> {
            self.decide(Operation::Unban, ask)
        }

        /// Pauses the key for `lasts` from now (1 ms or more), for an upstream that answers 429 with `Retry-After`.
        ///
        /// Until then every check, peek, reservation, permit and [`take`](Self::take) for the key is denied. This holds in
        /// every process, even if the key is on a list. Charges, refunds and settlements are answered as usual. A pause that
        /// ends later stays, and [`Decision::pause`](crate::Decision::pause) names its end. Only
        /// [`resume`](Self::resume) and [`reset`](Self::reset) shorten it. A request that waits `within` a time waits
        /// for the end of the pause.
        ///
        /// ```
        /// use std::time::Duration;
        /// use sluicegate::{Limiter, MemoryStore};
        ///
        /// let limiter = Limiter::new(MemoryStore::new(), sluicegate::Limit::new("upstream", ["gcra 9/s"])?);
        /// let paused = limiter.pause("acme", Duration::from_secs(30)).now()?;
        /// assert!(paused.pause().is_some_and(|pause| pause.ends_in.as_secs() == 30));
        /// let denied = limiter.check("acme").now()?;
        /// assert!(denied.is_denied() && denied.pause().is_some());
        /// assert!(limiter.check("beta").now()?.is_allowed());
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        /// Returns the errors of [`charge`](Self::charge). Returns
        /// [`Invalid`](crate::error::RequestErrorKind::Invalid) if `lasts` is less than 1 ms, and
        /// [`Unsupported`](crate::error::RequestErrorKind::Unsupported) for several limits together.
        pub fn pause<'k>(
            &self,
            ask: impl Into<Ask<'k>>,
            lasts: Duration,
        ) -> Question<'_, Self, ToPause<'k>> {
            Question::new(self, ToPause::new(ask.into(), Some(lasts.into())))
        }

        /// Ends the key's pauses. [`Decision::forgotten`](crate::Decision::forgotten) tells whether it was paused.
        ///
        /// ```
        /// use std::time::Duration;
        /// use sluicegate::{Limiter, MemoryStore};
        ///
        /// let limiter = Limiter::new(MemoryStore::new(), sluicegate::Limit::new("upstream", ["gcra 9/s"])?);
        /// let _ = limiter.pause("acme", Duration::from_secs(30)).now()?;
        /// assert_eq!(limiter.resume("acme").now()?.forgotten(), Some(true));
        /// assert!(limiter.check("acme").now()?.is_allowed());
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        /// Returns the errors of [`pause`](Self::pause).
        pub fn resume<'k>(&self, ask: impl Into<Ask<'k>>) -> Question<'_, Self, ToPause<'k>> {
            Question::new(self, ToPause::new(ask.into(), None))
        }

        /// Sends the given operation, for a service whose callers choose it.
        ///
        /// # Errors
        /// Returns the errors of the operation.
        #[inline]
        pub fn decide<'k>(
            &self,
            operation: Operation<'static>,
            ask: impl Into<Ask<'k>>,
        ) -> Question<'_, Self, ToDecide<'k>> {
            Question::new(self, ToDecide::new(operation, ask.into()))
        }

        /// Takes the cost now. The caller acts after [`Decision::wait`](crate::Decision::wait).
        ///
        /// The request is denied if that is longer than `within`. Only limits whose policies are all of the bucket
        /// family can reserve ([`Limit::can_reserve`](crate::Limit::can_reserve)). The reservation can be
        /// [cancelled](crate::Reservation::cancel). If no limit was asked, nothing is reserved and there is no wait.
        ///
        /// # Errors
        /// Returns the errors of [`check`](Self::check), and
        /// [`Unsupported`](crate::error::RequestErrorKind::Unsupported) if the limit can't reserve.
        pub fn reserve<'k>(
            &self,
            ask: impl Into<Ask<'k>>,
            within: Duration,
        ) -> Question<'_, Self, ToReserve<'k>> {
            Question::new(self, ToReserve { ask: ask.into(), within: within.into() })
        }

        /// Takes the cost or is denied, and holds the units until the [`Permit`](crate::Permit) is dropped.
        ///
        /// A policy [`concurrency`](crate::Policy::concurrency) admits requests in this way. Other limits hold the
        /// units that they charged, to be [settled](crate::Permit::settle). If the store failed and the limit allows
        /// everything then, or if no limit was asked, the permit is allowed and holds nothing. A request without an
        /// answer, and one whose future is dropped, is cancelled in the background.
        ///
        /// ```
        /// use std::time::Duration;
        /// use sluicegate::{Limiter, MemoryStore};
        ///
        /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
        /// let limit = sluicegate::Limit::new("export", ["concurrency 2 hold 30s"])?;
        /// let limiter = Limiter::new(MemoryStore::new(), limit);
        /// let permit = limiter.permit("acme").within(Duration::from_secs(1)).await?;
        /// if permit.is_denied() {
        ///     return Err(format!("two exports are running: try again in {:?}", permit.retry_after()).into());
        /// }
        /// assert_eq!(permit.remaining(), Some(1));
        /// // The export runs, and then:
        /// drop(permit);
        /// assert_eq!(limiter.peek("acme").await?.remaining(), Some(2));
        /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        /// Returns the errors of a [`check`](Self::check) that [holds](crate::question::Question::hold).
        pub fn permit<'k>(&self, ask: impl Into<Ask<'k>>) -> Question<'_, Self, ToPermit<'k>> {
            Question::new(self, ToPermit::new(ask.into()))
        }

        /// Lists the holds in flight of a key, a page at a time, ordered by their expiry.
        ///
        /// Only a limit with a `concurrency` policy has such a list. It is for operators: no request needs it. Allow
        /// lists, block lists and switches don't matter.
        ///
        /// ```
        /// use sluicegate::{Limiter, MemoryStore};
        /// use sluicegate::admin::Page;
        ///
        /// let limiter = Limiter::new(MemoryStore::new(), sluicegate::Limit::new("jobs", ["concurrency 9 hold 30s"])?);
        /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        /// let permits = [limiter.permit("acme").await?, limiter.permit("acme").await?];
        /// let first = limiter.holders("acme", Page::of(1)?).await?;
        /// let next = first.next().expect("there is one more");
        /// let rest = limiter.holders("acme", Page::of(1)?.after(next)).await?;
        /// assert_eq!(first.entries()[0].units_of("concurrency"), 1);
        /// assert_eq!((rest.entries().len(), rest.next()), (1, None));
        /// # drop(permits);
        /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        /// Returns an error if the store failed: `on_store_failure` doesn't apply. Also returns:
        ///
        /// - [`Unsupported`](crate::error::RequestErrorKind::Unsupported) for a limit that counts nothing in flight,
        ///   for several limits together, and for a store without such a list,
        /// - `Invalid` for a page that begins where no page of such a list ended,
        /// - [`UnknownLimit`](crate::error::RequestErrorKind::UnknownLimit) if a gate's limit is unknown.
        pub fn holders<'k, 'p>(
            &self,
            ask: impl Into<Ask<'k>>,
            page: Page<'p>,
        ) -> Question<'_, Self, ToListHolders<'k, 'p>> {
            Question::new(self, ToListHolders { ask: ask.into(), page })
        }

        /// Lists the keys that the limit bans, a page at a time. [`unban`](Self::unban) lifts a ban.
        ///
        /// A server looks through a part of its keys for each page, so a page may be short or empty. The last page is
        /// the one without a [next](crate::admin::Listing::next). A store knows only a hash of a key of more than 64
        /// bytes: [`ListedKey::is`](crate::admin::ListedKey::is) compares a key with it.
        ///
        /// ```
        /// use std::time::Duration;
        /// use sluicegate::{Limiter, MemoryStore};
        /// use sluicegate::admin::Page;
        /// use sluicegate::policy::Ban;
        ///
        /// let ban: Ban = "5/min for 15min".parse()?;
        /// let limit = sluicegate::Limit::new("login", ["gcra 1/s"])?.banning(ban);
        /// let limiter = Limiter::new(MemoryStore::new(), limit);
        /// let _ = limiter.ban("mallory", Duration::from_secs(3_600)).now()?;
        /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
        /// let mut banned = Vec::new();
        /// let mut page = limiter.bans(Page::first()).await?;
        /// loop {
        ///     banned.extend(page.entries().iter().map(|banned| banned.key().to_string()));
        ///     let Some(next) = page.next() else { break };
        ///     page = limiter.bans(Page::first().after(next)).await?;
        /// }
        /// assert_eq!(banned, ["mallory"]);
        /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        /// Returns an error if the store failed: `on_store_failure` doesn't apply. Also returns:
        ///
        /// - [`Unsupported`](crate::error::RequestErrorKind::Unsupported) for a limit without a
        ///   [`Ban`](crate::policy::Ban), for several limits that are decided together, and for a store that has no
        ///   such list,
        /// - `Invalid` for a page that begins where no page of such a list ended.
        pub fn bans<'p>(&self, page: Page<'p>) -> Question<'_, Self, ToListBans<'p>> {
            Question::new(self, ToListBans(page))
        }

        /// Lists the keys that have a stored state under the limit and begin with `prefix`, a page at a time.
        ///
        /// Pages are like those of [`bans`](Self::bans). A long key is listed as a hash, with the empty prefix alone. Only
        /// Redis and Valkey have such a list: the embedded store keeps fingerprints of keys.
        ///
        /// ```
        /// use sluicegate::{Limiter, MemoryStore};
        /// use sluicegate::admin::Page;
        ///
        /// let limiter = Limiter::new(MemoryStore::new(), sluicegate::Limit::new("login", ["gcra 1/s"])?);
        /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
        /// let error = limiter.stored_keys("tenant:", Page::first()).await.unwrap_err();
        /// assert_eq!(error.to_string(), "limit `login` is in a store without lists of keys");
        /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        /// Returns an error if the store failed: `on_store_failure` doesn't apply. Also returns:
        ///
        /// - [`Unsupported`](crate::error::RequestErrorKind::Unsupported) for several limits that are decided together,
        ///   and for a store that has no such list,
        /// - `Invalid` for a page that begins where no page of such a list ended.
        pub fn stored_keys<'k, 'p>(
            &self,
            prefix: &'k (impl AsRef<[u8]> + ?Sized),
            page: Page<'p>,
        ) -> Question<'_, Self, ToListKeys<'k, 'p>> {
            Question::new(self, ToListKeys { prefix: prefix.as_ref(), page })
        }

        /// Revokes a hold of a key by the id that [`holders`](Self::holders) shows. It is for operators, who don't have
        /// the hold's token.
        ///
        /// Its units are no longer in flight. Units that its other policies charged stay charged. The holder's next
        /// renewal or settlement finds no hold. The decision is like that of [`settle`](Self::settle), and is denied if
        /// there is no hold with that id. Allow lists, block lists and switches don't matter.
        ///
        /// ```
        /// use sluicegate::{Limiter, MemoryStore};
        /// use sluicegate::admin::Page;
        /// use sluicegate::decision::HoldFound;
        ///
        /// let limiter = Limiter::new(MemoryStore::new(), sluicegate::Limit::new("jobs", ["concurrency 1 hold 30s"])?);
        /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        /// let stuck = limiter.permit("acme").await?;
        /// assert!(limiter.permit("acme").await?.is_denied());
        /// let id = limiter.holders("acme", Page::first()).await?.entries()[0].id();
        /// let revoked = limiter.revoke("acme", id).await?;
        /// assert_eq!(revoked.hold_found(), Some(HoldFound::Live));
        /// assert!(limiter.permit("acme").await?.is_allowed());
        /// # drop(stuck);
        /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        /// Returns [`Invalid`](crate::error::RequestErrorKind::Invalid) if there isn't one key per limit. Also returns
        /// an error if the store failed: `on_store_failure` doesn't apply.
        pub fn revoke<'k>(
            &self,
            ask: impl Into<Ask<'k>>,
            id: HoldId,
        ) -> Question<'_, Self, ToRevoke<'k>> {
            Question::new(self, ToRevoke { ask: ask.into(), id })
        }
    };
}

impl<S: Store> Limiter<S> {
    verbs!();
    verbs_by_token!();
}

impl<T: WithNumbers> Keyed<T> {
    verbs!();
    verbs_by_token!();
}

#[cfg(feature = "config")]
impl Gate {
    verbs!();
    verbs_by_token!();
}

/// A registry accepts tokens and receipts of all its limits, regardless of the gate that gave them.
///
/// The registry has to know the limits by name. A hold of [`Registry::keyed`] is settled by the [`Keyed`] that gave it,
/// because the registry doesn't have the numbers.
///
/// ```
/// use std::time::Duration;
/// use sluicegate::{Config, Registry, Usage};
/// use sluicegate::error::RequestErrorKind;
///
/// let of = |text: &str| Config::parse(text, "limits.yaml");
/// let registry = Registry::open(&of("limits: {llm: {policies: [token_bucket 9000/h as tokens]}}")?)?;
/// let llm = registry.gate("llm");
/// let minute = Duration::from_secs(60);
/// let first = llm.check("acme").cost(1_000).hold(minute).now()?.into_token().unwrap();
/// let second = llm.check("acme").cost(1_000).hold(minute).now()?.into_token().unwrap();
/// assert!(registry.settle(&first, Usage::of("tokens", 412)).now()?.is_allowed());
/// assert!(registry.renew(&second, 2 * minute).now()?.is_allowed());
///
/// let reservation = llm.reserve("beta", minute).now()?;
/// let receipt = reservation.receipt().unwrap();
/// assert!(registry.cancel(receipt).now()?);
/// assert!(!registry.cancel(receipt).now()?, "it is cancelled");
///
/// registry.replace(&of("limits: {search: {policies: [gcra 9/s]}}")?)?;
/// let gone = registry.settle(&second, Usage::nothing()).now().unwrap_err();
/// assert_eq!(gone.as_request().map(|error| error.kind()), Some(RequestErrorKind::UnknownLimit));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "config")]
impl Registry {
    verbs_by_token!();
}
