//! One hold of a permit: its end and its renewal.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sluicegate_core::{HoldFound, HoldToken, Span};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::keeper::Keeper;
use super::moment::Moment;
use crate::jitter::up_to;
use crate::timer::timeout_at;

/// A hold and its keeper.
pub(super) struct Kept {
    pub(super) keeper: Arc<dyn Keeper>,
    pub(super) token: HoldToken,
    lasts: Span,
    /// When it is no longer renewed.
    life_ends: Moment,
    /// Its name in the renewer.
    number: u64,
    life: Mutex<Life>,
    /// Notified when the hold is lost.
    changed: Notify,
}

/// The end of a hold, as far as this process knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    pub(super) ends: Moment,
    pub(super) is_lost: bool,
    /// From when on it may be renewed together with others.
    pub(super) opens: Instant,
    /// When to check it next: to renew it, or because it ends.
    pub(super) next: Instant,
}

impl Kept {
    /// Makes the hold that the token names. It was requested at `sent`, lasts for `lasts`, and is renewed for
    /// `max_life`.
    pub(super) fn new(
        keeper: Arc<dyn Keeper>,
        token: HoldToken,
        sent: Moment,
        lasts: Span,
        max_life: Span,
        number: u64,
    ) -> Self {
        let life_ends = sent.plus(max_life);
        let life = Mutex::new(Life::renewed(sent, lasts, life_ends));
        Self { keeper, token, lasts, life_ends, number, life, changed: Notify::new() }
    }

    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn is_lost(&self) -> bool {
        let mut life = self.life();
        // A lost hold stays lost: a caller may have been notified.
        life.is_lost |= life.ends.has_come();
        life.is_lost
    }

    pub(super) async fn lost(&self) {
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

    /// Checks it when it is due, or when it is renewed with others.
    pub(super) fn look(&self) -> Life {
        let is_lost = self.is_lost();
        if is_lost {
            self.changed.notify_waiters();
        }
        *self.life()
    }

    /// Notes that a renewal is being sent. Until its answer the hold can only end.
    pub(super) fn begin_renewal(&self) {
        let mut life = self.life();
        life.next = life.ends.instant();
        life.opens = life.next;
    }

    /// Renews it, and returns when to check it next; `None` once it is lost.
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
            // The store is unreachable, or the limit was removed. Either may be restored in time.
            Err(_) => life.try_again(self.lasts),
        }
        Some(life.next)
    }

    pub(super) fn life(&self) -> MutexGuard<'_, Life> {
        // Nothing that is done under this lock panics half way.
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Life {
    /// Returns the state of a hold that was renewed by a call sent at `sent`.
    fn renewed(sent: Moment, lasts: Span, life_ends: Moment) -> Self {
        let ends = sent.plus(lasts);
        let part = |of: u32| Duration::from(lasts) / of;
        let next = sent.instant() + part(4) + up_to(part(12));
        let opens = sent.instant() + part(5);
        // This was the last renewal if the hold now lasts until its maximum life ends.
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
