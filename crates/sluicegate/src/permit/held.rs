//! What a permit holds, until it is dropped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sluicegate_core::{Decision, Error, HoldFound, HoldToken, Span};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout_at};

use super::jitter::{nearly, up_to};
use super::keeper::Keeper;
use super::moment::Moment;
use super::renewer::Renewer;
use crate::background::spawn;
use crate::store_health::log_unseen;
use crate::usage::Usage;

/// What a permit holds, if anything. Dropped, it is released.
#[derive(Default)]
pub(crate) struct Held(Option<Arc<Kept>>);

/// What is held, and who keeps it.
pub(super) struct Kept {
    keeper: Arc<dyn Keeper>,
    token: HoldToken,
    lasts: Span,
    /// When it is no longer renewed.
    life_ends: Moment,
    renewer: Option<Arc<Renewer>>,
    /// Names it to its renewer.
    number: u64,
    life: Mutex<Life>,
    /// Told when it is lost.
    changed: Notify,
}

/// Until when it is held, as far as is known here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    ends: Moment,
    pub(super) is_lost: bool,
    /// From when on it is renewed together with others.
    pub(super) opens: Instant,
    /// When it is to be looked at: to be renewed or because it ends.
    pub(super) next: Instant,
}

impl Held {
    pub(crate) const fn nothing() -> Self {
        Self(None)
    }

    /// What the token names, held for `lasts` since `sent`, to be renewed for `max_life`.
    pub(crate) fn new(
        keeper: Arc<dyn Keeper>,
        token: HoldToken,
        sent: Moment,
        lasts: Span,
        max_life: Span,
    ) -> Self {
        let renewer = Renewer::here();
        let number = renewer.as_ref().map_or(0, |renewer| renewer.number());
        let life_ends = sent.plus(max_life);
        let life = Mutex::new(Life::renewed(sent, lasts, life_ends));
        let changed = Notify::new();
        let kept = Kept { keeper, token, lasts, life_ends, renewer, number, life, changed };
        let kept = Arc::new(kept);
        if let Some(renewer) = &kept.renewer {
            renewer.keep(number, &kept);
        }
        Self(Some(kept))
    }

    pub(crate) fn watch(&self) -> Option<Watch> {
        self.0.clone().map(Watch)
    }

    pub(crate) fn token(&self) -> Option<&HoldToken> {
        self.0.as_ref().map(|kept| &kept.token)
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.0.as_ref().is_some_and(|kept| kept.is_lost())
    }

    pub(crate) async fn lost(&self) {
        match &self.0 {
            Some(kept) => kept.lost().await,
            None => std::future::pending().await,
        }
    }

    pub(crate) fn into_token(mut self) -> Option<HoldToken> {
        let kept = self.0.take()?;
        kept.forget();
        Some(kept.token.clone())
    }

    pub(crate) async fn settle(mut self, usage: Usage<'_>) -> Result<Option<Decision>, Error> {
        let Some(kept) = self.0.clone() else { return Ok(None) };
        let settled = kept.keeper.settle_held(&kept.token, &usage).await?;
        // Until here a drop releases it.
        drop(self.0.take());
        kept.forget();
        Ok(Some(settled))
    }

    /// Settles without waiting for the store.
    pub(crate) fn settle_in_background(mut self, usage: Usage<'static>) {
        if let Some(kept) = self.0.take() {
            kept.release(usage);
        }
    }
}

/// Sees whether what is held is lost, without holding it.
pub(crate) struct Watch(Arc<Kept>);

impl Watch {
    pub(crate) async fn lost(self) {
        self.0.lost().await;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(kept) = self.0.take() {
            kept.release(Usage::as_charged());
        }
    }
}

impl Kept {
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// Not renewed any more.
    fn forget(&self) {
        if let Some(renewer) = &self.renewer {
            renewer.forget(self.number);
        }
    }

    fn release(&self, usage: Usage<'static>) {
        self.forget();
        let runtime = self.renewer.as_ref().map(|renewer| renewer.runtime().clone());
        let runtime = runtime.or_else(|| Handle::try_current().ok());
        let ends = self.life().ends;
        settle_in_background(Arc::clone(&self.keeper), self.token.clone(), usage, ends, runtime);
    }

    fn is_lost(&self) -> bool {
        let mut life = self.life();
        // What was lost stays so: somebody may have been told.
        life.is_lost |= life.ends.has_come();
        life.is_lost
    }

    async fn lost(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.is_lost() {
                return;
            }
            let ends = self.life().ends.instant();
            let _ = timeout_at(ends, changed).await;
        }
    }

    pub(super) fn tell_lost(&self) {
        self.life().is_lost = true;
        self.changed.notify_waiters();
    }

    /// Looks at it, at a time when it is to be looked at or renewed with others.
    pub(super) fn look(&self) -> Life {
        let is_lost = self.is_lost();
        if is_lost {
            self.changed.notify_waiters();
        }
        *self.life()
    }

    /// Notes that it is being renewed; until that is answered it can only end.
    pub(super) fn begin_renewal(&self) {
        let mut life = self.life();
        life.next = life.ends.instant();
        life.opens = life.next;
    }

    /// Renews it, and returns when to look at it next; `None` once it is lost.
    pub(super) async fn renew(&self) -> Option<Instant> {
        let sent = Moment::now();
        let lasts = self.lasts.min(self.life_ends.left());
        let answer = self.keeper.renew_held(&self.token, lasts).await;
        if self.is_lost() {
            return None;
        }
        let mut life = self.life();
        match answer {
            Ok(decision) if decision.hold_found() == Some(HoldFound::Live) => {
                *life = Life::renewed(sent, lasts, self.life_ends);
            }
            Ok(_) => {
                drop(life);
                self.tell_lost();
                return None;
            }
            // The store is away, or the limit is, and may be back before it is too late.
            Err(_) => life.try_again(self.lasts),
        }
        Some(life.next)
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        // Nothing that is done under this lock panics half way.
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Life {
    /// Of what was renewed by a call that was sent then.
    fn renewed(sent: Moment, lasts: Span, life_ends: Moment) -> Self {
        let ends = sent.plus(lasts);
        let part = |of: u32| Duration::from(lasts) / of;
        let next = sent.instant() + part(4) + up_to(part(12));
        let opens = sent.instant() + part(5);
        // The last renewal was up to the end of its life.
        let is_last = ends.instant() >= life_ends.instant();
        let [opens, next] = if is_last { [ends.instant(); 2] } else { [opens, next] };
        Self { ends, is_lost: false, opens, next }
    }

    fn try_again(&mut self, lasts: Span) {
        let pause = Duration::from(lasts) / 12;
        self.opens = Instant::now() + pause / 2;
        let next = Instant::now() + pause / 2 + up_to(pause / 2);
        self.next = next.min(self.ends.instant());
    }
}

/// Settles at once if the store can, and else in a task of the runtime, which tries again until the
/// hold ends by itself.
pub(super) fn settle_in_background(
    keeper: Arc<dyn Keeper>,
    token: HoldToken,
    usage: Usage<'static>,
    ends: Moment,
    runtime: Option<Handle>,
) {
    let mut usage = usage;
    let failed = loop {
        match keeper.settle_held_at_once(&token, &usage) {
            Some(Ok(_)) => return,
            Some(Err(error)) if is_mistaken(&error, &mut usage) => {}
            Some(Err(error)) => break Some(error),
            None => break None,
        }
    };
    match runtime {
        Some(runtime) => spawn(&runtime, settle_until(keeper, token, usage, ends, failed)),
        None => tracing::warn!(
            "what is in flight can't be released without a runtime: it ends when its hold does"
        ),
    }
}

/// Whether what was said to be used is why it failed: then it is settled as charged, because what is in
/// flight is to be released all the same.
fn is_mistaken(error: &Error, usage: &mut Usage<'static>) -> bool {
    if error.is_store_failure() {
        return false;
    }
    tracing::error!(%error, "what a request used can't be settled: correct what the program says");
    !std::mem::replace(usage, Usage::as_charged()).is_as_charged()
}

async fn settle_until(
    keeper: Arc<dyn Keeper>,
    token: HoldToken,
    mut usage: Usage<'static>,
    ends: Moment,
    failed: Option<Error>,
) {
    const LONGEST: Duration = Duration::from_secs(2);
    let mut pause = Duration::from_millis(50);
    let mut failed = failed;
    loop {
        let error = match failed.take() {
            Some(error) => error,
            None => match keeper.settle_held(&token, &usage).await {
                Ok(_) => return,
                Err(error) => error,
            },
        };
        if ends.has_come() {
            log_unseen(None, &error, "a permit could not be released before its hold expired");
            return;
        }
        if is_mistaken(&error, &mut usage) {
            continue;
        }
        if !error.is_store_failure() {
            return;
        }
        sleep(nearly(pause)).await;
        pause = (pause * 2).min(LONGEST);
    }
}
