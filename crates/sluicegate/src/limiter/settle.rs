//! Settling what is held, and holding it for longer.

use std::future::Future;
use std::time::Duration;

use sluicegate_core::{
    Action, Answer, Decision, Error, HoldToken, OpenedLimit as _, Request, Span, Store,
};
use smallvec::SmallVec;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::Limiter;
use crate::observe::Settled;
use crate::usage::{Usage, UsedUnits};

impl<S: Store> Limiter<S> {
    /// Settles what a request [holds](Limiter::hold) for what was really used: gives back the rest as
    /// far as it still counts, or charges what was used beyond, into debt if necessary.
    ///
    /// The decision is that of a peek afterwards, at no cost. [`Decision::hold_found`] says what there
    /// was to settle, and [`Outcome::given_back`](crate::Outcome::given_back) what each policy gave back. If there is
    /// nothing, because the hold has ended, was reset, or never was, nothing changes and the decision
    /// is denied. A hold is settled once; a repetition finds it [settled](crate::HoldFound::Settled),
    /// changes nothing and says again what was given back. So a settlement that failed may be sent again.
    ///
    /// ```
    /// use sluicegate::{Ask, HoldFound, Limiter, MemoryStore, Span, Usage};
    ///
    /// let limit = sluicegate::limit("llm", ["fixed_window 9000/h as tokens"])?;
    /// let limiter = Limiter::new(MemoryStore::new(), limit);
    /// let token = limiter.hold_now(Ask::new("acme").cost(1_000), Span::MINUTE)?.into_token().unwrap();
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// for expected in [HoldFound::Live, HoldFound::Settled] {
    ///     let settled = limiter.settle(&token, Usage::of("tokens", 412)).await?;
    ///     assert_eq!(settled.hold_found(), Some(expected));
    ///     assert_eq!(settled.outcome("tokens").unwrap().given_back(), Some(588));
    ///     assert_eq!(settled.remaining(), Some(8_588));
    /// }
    /// let _ = limiter.reset("acme").await?;
    /// let unknown = limiter.settle(&token, Usage::nothing()).await?;
    /// assert!(unknown.is_denied() && unknown.hold_found() == Some(HoldFound::Unknown));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`RequestErrorKind::Invalid`](crate::RequestErrorKind::Invalid) for a token of other limits, and for
    /// a usage that names a policy which isn't there or more than 2^53 − 1 units;
    /// [`Overflow`](crate::RequestErrorKind::Overflow) if what was used beyond is more than a state can
    /// hold, and then nothing is settled. Also if the store failed: `on_store_failure` doesn't apply.
    pub async fn settle(&self, token: &HoldToken, usage: Usage<'_>) -> Result<Decision, Error> {
        self.settle_by(token, &usage).await
    }

    pub(crate) async fn settle_by(
        &self,
        token: &HoldToken,
        usage: &Usage<'_>,
    ) -> Result<Decision, Error> {
        token.validate(self.limit())?;
        let (subjects, units) = (subjects(token), self.units(usage)?);
        let request = settlement(token, &subjects, &units).at(usage.time());
        self.go_by_record(request).await
    }

    /// [`Limiter::settle`] without waiting.
    ///
    /// # Errors
    /// Like [`Limiter::settle`] and [`Limiter::check_now`].
    #[expect(clippy::needless_pass_by_value, reason = "as the one that waits")]
    pub fn settle_now(&self, token: &HoldToken, usage: Usage<'_>) -> Result<Decision, Error> {
        token.validate(self.limit())?;
        let (subjects, units) = (subjects(token), self.units(&usage)?);
        let request = settlement(token, &subjects, &units).at(usage.time());
        self.go_by_record_at_once(request).unwrap_or_else(|| Err(self.would_block()))
    }

    /// Lets what a request [holds](Limiter::hold) live on, for `lasts` from now: 1 ms to a day, be it
    /// longer or shorter than before. The decision is like that of [`Limiter::settle`]; what was
    /// settled stays so.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use sluicegate::{Limiter, ManualClock, MemoryStore, Span, Usage};
    ///
    /// let clock = Arc::new(ManualClock::default());
    /// let store = MemoryStore::builder().clock(clock.clone()).build();
    /// let limiter = Limiter::new(store, sluicegate::limit("jobs", ["fixed_window 9/h"])?);
    /// let token = limiter.hold_now("acme", Span::MINUTE)?.into_token().unwrap();
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// for _ in 0..3 {
    ///     clock.advance("50s".parse()?);
    ///     assert!(limiter.renew(&token, Span::MINUTE).await?.is_allowed());
    /// }
    /// clock.advance(Span::MINUTE);
    /// assert!(limiter.renew(&token, Span::MINUTE).await?.is_denied(), "it has ended");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Like [`Limiter::settle`]; `Invalid` for other lives too.
    pub fn renew<'a>(
        &'a self,
        token: &'a HoldToken,
        lasts: impl Into<Span>,
    ) -> impl Future<Output = Result<Decision, Error>> + Send + 'a {
        let lasts = lasts.into();
        async move {
            token.validate(self.limit())?;
            self.go_by_record(renewal(token, &subjects(token), lasts)).await
        }
    }

    /// [`Limiter::renew`] without waiting.
    ///
    /// # Errors
    /// Like [`Limiter::renew`] and [`Limiter::check_now`].
    pub fn renew_now(&self, token: &HoldToken, lasts: impl Into<Span>) -> Result<Decision, Error> {
        token.validate(self.limit())?;
        let answer = self.go_by_record_at_once(renewal(token, &subjects(token), lasts.into()));
        answer.unwrap_or_else(|| Err(self.would_block()))
    }

    pub(super) fn units(&self, usage: &Usage<'_>) -> Result<UsedUnits, Error> {
        usage.units(self.limit(), |_, _| false)
    }

    /// Settles or renews.
    pub(crate) async fn go_by_record(&self, request: Request<'_>) -> Result<Decision, Error> {
        let since = self.inner.observers.start();
        let answer = match self.inner.opened.ask(request) {
            Answer::Now(answer) => answer,
            Answer::Later(later) => {
                let limit = self.limit().name().as_str();
                let operation = word(request.action());
                let span = tracing::debug_span!("sluicegate", limit, operation);
                let answer = later.instrument(span).await;
                if let Ok(decision) = &answer {
                    self.note_answer(decision);
                }
                answer
            }
        };
        self.tell_settled(&request, since, &answer);
        answer
    }

    /// The same if the store can answer immediately; `None` otherwise, and then nothing was asked.
    pub(crate) fn go_by_record_at_once(
        &self,
        request: Request<'_>,
    ) -> Option<Result<Decision, Error>> {
        let since = self.inner.observers.start();
        let answer = self.inner.opened.ask_now(request)?;
        self.tell_settled(&request, since, &answer);
        Some(answer)
    }

    /// Tells observers, and the log of a failure.
    fn tell_settled(
        &self,
        request: &Request<'_>,
        since: Option<Instant>,
        answer: &Result<Decision, Error>,
    ) {
        let failure = answer.as_ref().err().and_then(Error::as_store);
        if let Some(error) = failure {
            self.note_failure(error);
        }
        let Some(since) = since else { return };
        let rest = request.further_subjects().iter().copied();
        let keys: SmallVec<[&[u8]; 2]> = std::iter::once(request.key()).chain(rest).collect();
        self.inner.observers.tell_settled(
            since,
            &Settled {
                limit: self.limit(),
                keys: &keys,
                action: request.action(),
                outcome: answer.as_ref(),
                failure,
                took: Duration::ZERO,
            },
        );
    }
}

/// The subjects of a token, in its order.
pub(super) fn subjects(token: &HoldToken) -> SmallVec<[&[u8]; 2]> {
    (0..token.limits().len()).map(|part| token.subject(part)).collect()
}

/// The request that settles what is held of these subjects.
pub(crate) fn settlement<'r>(
    token: &HoldToken,
    subjects: &'r [&'r [u8]],
    units: &'r UsedUnits,
) -> Request<'r> {
    let (key, also) = first_and_rest(subjects);
    Request::settle(key, token.id(), units.as_used()).also(also)
}

/// The request that lets what is held of these subjects live on.
pub(crate) fn renewal<'r>(token: &HoldToken, subjects: &'r [&'r [u8]], lasts: Span) -> Request<'r> {
    let (key, also) = first_and_rest(subjects);
    Request::renew(key, token.id(), lasts).also(also)
}

fn first_and_rest<'r>(subjects: &'r [&'r [u8]]) -> (&'r [u8], &'r [&'r [u8]]) {
    subjects.split_first().map_or((&[], &[]), |(key, also)| (*key, also))
}

const fn word(action: Action<'_>) -> &'static str {
    if let Action::Renew { .. } = action { "Renew" } else { "Settle" }
}
