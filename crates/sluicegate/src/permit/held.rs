//! The hold of a permit, until it is dropped.

use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::for_stores::Driver;
use sluicegate_core::{Decision, Error, HoldToken, Span};
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::keeper::Keeper;
use super::kept::Kept;
use super::moment::Moment;
use super::renewer::Renewer;
use crate::background::spawn;
use crate::jitter::nearly;
use crate::store_health::log_unseen;
use crate::usage::Usage;

/// The hold of a permit, if any. Dropping it releases it.
#[derive(Default)]
pub(crate) struct Held(Option<Renewed>);

/// A hold and its renewer.
struct Renewed {
    kept: Arc<Kept>,
    renewer: Option<Arc<Renewer>>,
}

impl Held {
    pub(crate) const fn nothing() -> Self {
        Self(None)
    }

    /// Makes the hold that the token names. It was requested at `sent`, lasts for `lasts`, and is renewed for
    /// `max_life`.
    pub(crate) fn new(
        keeper: Arc<dyn Keeper>,
        token: HoldToken,
        sent: Moment,
        lasts: Span,
        max_life: Span,
    ) -> Self {
        let renewer = Renewer::here();
        let number = renewer.as_ref().map_or(0, |renewer| renewer.number());
        let kept = Arc::new(Kept::new(keeper, token, sent, lasts, max_life, number));
        if let Some(renewer) = &renewer {
            renewer.keep(number, &kept);
        }
        Self(Some(Renewed { kept, renewer }))
    }

    pub(crate) fn watch(&self) -> Option<Watch> {
        self.0.as_ref().map(|held| Watch(Arc::clone(&held.kept)))
    }

    pub(crate) fn token(&self) -> Option<&HoldToken> {
        self.0.as_ref().map(|held| &held.kept.token)
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.0.as_ref().is_some_and(|held| held.kept.is_lost())
    }

    pub(crate) async fn lost(&self) {
        match &self.0 {
            Some(held) => held.kept.lost().await,
            None => std::future::pending().await,
        }
    }

    pub(crate) fn into_token(mut self) -> Option<HoldToken> {
        let held = self.0.take()?;
        held.forget();
        Some(held.kept.token.clone())
    }

    pub(crate) async fn settle(mut self, usage: Usage<'_>) -> Result<Option<Decision>, Error> {
        let Some(Renewed { kept, .. }) = &self.0 else { return Ok(None) };
        let settled = kept.keeper.settle_held(&kept.token, &usage).await?;
        // A drop before this point releases it.
        if let Some(held) = self.0.take() {
            held.forget();
        }
        Ok(Some(settled))
    }

    /// Settles without waiting for the store.
    pub(crate) fn settle_in_background(mut self, usage: Usage<'static>) {
        if let Some(held) = self.0.take() {
            held.release(usage);
        }
    }
}

/// Observes whether a hold is lost, without holding it.
pub(crate) struct Watch(Arc<Kept>);

impl Watch {
    pub(crate) async fn lost(self) {
        self.0.lost().await;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(held) = self.0.take() {
            held.release(Usage::as_charged());
        }
    }
}

impl Renewed {
    /// Stops its renewal.
    fn forget(&self) {
        if let Some(renewer) = &self.renewer {
            renewer.forget(self.kept.number());
        }
    }

    fn release(&self, usage: Usage<'static>) {
        self.forget();
        let renewing = self.renewer.as_ref().map(|renewer| renewer.runtime().clone());
        // The caller may block the only thread of a runtime next, to take another permit.
        let runtime = Driver::home_of(renewing).ok();
        let Kept { keeper, token, .. } = &*self.kept;
        let ends = self.kept.life().ends;
        settle_in_background(Arc::clone(keeper), token.clone(), usage, ends, runtime);
    }
}

/// Settles immediately if the store can. Otherwise a task of the runtime does, and retries until the hold expires.
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
            "no thread could be started to release a permit: its units return when its hold expires"
        ),
    }
}

/// Returns whether the settlement failed because of the usage. It is then settled as charged, because the units in
/// flight must be released.
fn is_mistaken(error: &Error, usage: &mut Usage<'static>) -> bool {
    if error.is_store_failure() {
        return false;
    }
    tracing::error!(%error, "a hold can't be settled with the given usage: correct the usage");
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
