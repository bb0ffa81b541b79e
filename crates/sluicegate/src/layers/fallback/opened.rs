//! A limit that is decided by the store or by its local share.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use sluicegate_core::for_stores::{DecisionForStores as _, Driver};
use sluicegate_core::{
    Answer, BoxFuture, Decision, Enforcement, Error, Limit, LimitName, NodeId, OpenedLimit,
    Operation, Request, RetryAfter, Source, StoreError,
};
use tokio::runtime::Handle;

use super::asking::Asking;
use super::debts::Claim;
use super::local::{self, Local};
use super::settle::settle;
use super::shared::Shared;

/// A limit that a [`Fallback`](super::Fallback) has opened.
pub struct FallbackLimit<L> {
    pub(super) opened: Arc<L>,
    /// One opened limit for each part, to charge pending units. For a limit with one part, the limit itself.
    pub(super) parts: Box<[Arc<L>]>,
    pub(super) shared: Arc<Shared<L>>,
    /// `None` if the limit has no share.
    pub(super) local: Option<Local>,
}

impl<L: OpenedLimit> OpenedLimit for FallbackLimit<L> {
    fn inner(&self) -> Option<&dyn OpenedLimit> {
        Some(&*self.opened)
    }

    fn limit(&self) -> &Limit {
        self.opened.limit()
    }

    fn ask<'a>(
        &'a self,
        request: Request<'a>,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
        if let Some(local) = &self.local
            && self.owes(&request)
        {
            return match self.ask_after_charging(local, request) {
                Answer::Now(answer) => Answer::Now(answer),
                Answer::Later(boxed) => Answer::Later(Asking::AfterCharging { boxed }),
            };
        }
        let answer = self.opened.ask(request).map(move |answer| self.answered(request, answer));
        match answer {
            Answer::Now(answer) => Answer::Now(answer),
            Answer::Later(plain) => Answer::Later(Asking::Plain { plain }),
        }
    }
}

impl<L: OpenedLimit> FallbackLimit<L> {
    /// Returns whether a subject of the request may have a pending charge.
    fn owes(&self, request: &Request<'_>) -> bool {
        let debts = &self.shared.debts;
        debts.count() > 0 && {
            let now = self.shared.local_now();
            self.subjects(request)
                .any(|(name, subject)| debts.has(debts.subject(name.as_str(), subject), now))
        }
    }

    fn subjects<'r>(
        &'r self,
        request: &'r Request<'_>,
    ) -> impl Iterator<Item = (&'r LimitName, &'r [u8])> {
        let parts = self.opened.limit().parts().iter().enumerate();
        parts.map(|(part, name)| (name, request.subject(part)))
    }

    /// Returns the caller's answer: the store's, or the local share's if the store failed.
    fn answered(
        &self,
        request: Request<'_>,
        answer: Result<Decision, Error>,
    ) -> Result<Decision, Error> {
        let Some(local) = &self.local else { return answer };
        if let Some(census) = &self.shared.census {
            census.keep();
        }
        match answer {
            Err(Error::Store(error)) => self.decide_here(local, request, error),
            Ok(decision) => {
                self.shared.heard(|| self.opened.nodes(&request), &decision);
                match request.operation() {
                    Operation::Reset => self.forget(local, &request),
                    Operation::Unban => self.repeat(local, &request),
                    _ => {}
                }
                Ok(decision)
            }
            error => error,
        }
    }

    /// Sends the pending charges of a request's subjects before the request.
    fn ask_after_charging<'a>(
        &'a self,
        local: &'a Local,
        request: Request<'a>,
    ) -> Answer<BoxFuture<'a, Result<Decision, Error>>> {
        // A peek writes nothing, and isn't sent before it is awaited.
        match self.opened.ask(request.as_peek()) {
            Answer::Now(Err(Error::Store(error))) => {
                Answer::Now(self.decide_here(local, request, error))
            }
            Answer::Now(Err(error)) => Answer::Now(Err(error)),
            Answer::Now(Ok(_)) => {
                let mut all: BoxFuture<'a, _> = Box::pin(self.charge_and_ask(local, request, None));
                match all.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(answer) => Answer::Now(answer),
                    Poll::Pending => Answer::Later(all),
                }
            }
            Answer::Later(_) => Answer::Later(Box::pin(async move {
                // In a runtime that a caller of the same subject doesn't stop by blocking its thread.
                let runtime = Handle::try_current().ok().and_then(|_| Driver::home().ok());
                self.charge_and_ask(local, request, runtime).await
            })),
        }
    }

    /// Charges and then sends the request. With a runtime, the charge is sent even if the caller stops waiting for it.
    async fn charge_and_ask(
        &self,
        local: &Local,
        request: Request<'_>,
        runtime: Option<Handle>,
    ) -> Result<Decision, Error> {
        for part in 0..self.parts.len() {
            if let Err(error) = self.charge(local, part, request.subject(part), &runtime).await {
                return self.decide_here(local, request, error);
            }
        }
        self.answered(request, self.opened.ask(request).wait().await)
    }

    /// Sends the pending charge of a subject, or waits until another caller has.
    async fn charge(
        &self,
        local: &Local,
        part: usize,
        subject: &[u8],
        runtime: &Option<Handle>,
    ) -> Result<(), StoreError> {
        let debts = &self.shared.debts;
        let Some(shares) = self.shared.processes().and_then(|number| local.shares(number)) else {
            return Ok(());
        };
        let fingerprint = debts.subject(self.opened.limit().parts()[part].as_str(), subject);
        let claim = debts.claim(fingerprint, self.shared.local_now(), |admitted| {
            shares.owed(part, subject, admitted)
        });
        let mut told = match claim {
            Claim::Nothing => return Ok(()),
            Claim::Wait(told) => told,
            Claim::Charge(settlement) => {
                let told = settlement.hears();
                let opened = Arc::clone(&self.parts[part]);
                let charging = settle(Arc::clone(&self.shared), opened, subject.into(), settlement);
                match runtime {
                    Some(runtime) => drop(runtime.spawn(charging)),
                    None => charging.await,
                }
                told
            }
        };
        // The charging caller reports the outcome, or was dropped before it began.
        match told.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(Err(error))) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Decides a request by the share of this process.
    fn decide_here(
        &self,
        local: &Local,
        request: Request<'_>,
        error: StoreError,
    ) -> Result<Decision, Error> {
        let operation = request.operation();
        if !matches!(
            operation,
            Operation::Check | Operation::Peek | Operation::Take | Operation::Reserve { .. }
        ) {
            return Err(error.into());
        }
        let shared = &self.shared;
        let Some(processes) = shared.processes() else {
            return Err(also(&error, "the store was never there to count the processes that share the limits, so none of them decides here").into());
        };
        let Some(shares) = local.shares(processes) else {
            return Err(also(&error, "a limit with permits has no share").into());
        };
        let takes = operation != Operation::Peek;
        let now = shared.local_now();
        let debts = &shared.debts;
        let has_room = |(name, subject): (&LimitName, &[u8])| {
            debts.has_room(debts.subject(name.as_str(), subject), now)
        };
        if takes && !self.subjects(&request).all(has_room) {
            return Err(
                also(&error, "as many keys as can be owe it something, so none is added").into()
            );
        }
        // A local hold couldn't be settled with the store, and the store wouldn't recognize a local id.
        let here = request.without_receipt().without_hold().without_once();
        let decision = shares.whole().decide(here)?;
        if takes {
            for (part, (name, subject)) in self.subjects(&request).enumerate() {
                let (units, until) = local::admitted(part, &request, &decision);
                let until = now.saturating_add(until);
                debts.add(debts.subject(name.as_str(), subject), units, until, now);
            }
        }
        if decision.retry_after() == RetryAfter::Never && self.would_admit(&request) {
            return Err(
                also(&error, "the request costs more than the share of this process").into()
            );
        }
        let counter =
            if decision.is_allowed() { &shared.counts.allowed } else { &shared.counts.denied };
        counter.fetch_add(1, Ordering::Relaxed);
        let node = error.node().or_else(|| only(&self.opened.nodes(&request)));
        shared.failed(node, processes, &error);
        Ok(decision.with_source(Source::Fallback))
    }

    /// Returns whether the limit admits the costs of a request at some time.
    fn would_admit(&self, request: &Request<'_>) -> bool {
        let limit = self.opened.limit();
        let mut enforced = limit
            .members()
            .iter()
            .enumerate()
            .filter(|(_, member)| member.policy().enforcement() == Enforcement::Enforced);
        enforced
            .all(|(index, member)| request.cost_of(limit, index) <= member.policy().rule().limit())
    }

    /// Forgets the local state of a subject that was reset in the store.
    #[cold]
    fn forget(&self, local: &Local, request: &Request<'_>) {
        let shared = &self.shared;
        let now = shared.local_now();
        for (name, subject) in self.subjects(request) {
            shared.debts.forget(shared.debts.subject(name.as_str(), subject), now);
        }
        self.repeat(local, request);
    }

    /// Repeats locally what the store has done.
    fn repeat(&self, local: &Local, request: &Request<'_>) {
        let shared = &self.shared;
        if let Some(shares) = shared.processes().and_then(|number| local.shares(number)) {
            // The store has answered this request, so it is valid here as well.
            let _ = shares.whole().decide(*request);
        }
    }
}

/// Returns the node if there is only one: with several, it is unknown which failed.
const fn only(nodes: &[NodeId]) -> Option<NodeId> {
    if let [node] = nodes { Some(*node) } else { None }
}

#[cold]
fn also(error: &StoreError, why: &str) -> StoreError {
    StoreError::new(error.kind(), format!("{error}; {why}"))
}
