//! Random requests with an id, and their repetitions.

use std::time::Duration;

use sluicegate_core::{Hold, Idempotency, RequestId};

use super::Dice;
use crate::reference::{Answer, Operation, Refusal};
use crate::times::micros;

/// The requests with an id so far.
#[derive(Default)]
pub(super) struct Askers(Vec<Asker>);

/// One request with an id.
#[derive(Clone)]
struct Asker {
    key: Vec<u8>,
    operation: Operation,
    lasts: Option<Duration>,
    once: Idempotency,
    until: u64,
}

/// The content of a request, first or repeated.
pub(super) struct Ask {
    pub(super) key: Vec<u8>,
    pub(super) operation: Operation,
    pub(super) hold: Option<Hold>,
    pub(super) once: Option<Idempotency>,
}

impl Askers {
    /// Returns the end of a remembered answer or 1 µs before it, in 1 of 12 cases.
    pub(super) fn end(&self, dice: &mut Dice) -> Option<u64> {
        if self.0.is_empty() || !dice.one_in(12) {
            return None;
        }
        let asker = &self.0[dice.below_len(self.0.len())];
        Some(asker.until - dice.below(2))
    }

    /// Gives a request an id if it can have one, or replaces it with the repetition of an earlier
    /// one, usually unchanged. A repeated hold lasts at most `longest`.
    pub(super) fn ask(&self, dice: &mut Dice, mut ask: Ask, longest: Option<Duration>) -> Ask {
        use Operation::{Charge, Check, Take};
        let can_have = matches!(ask.operation, Check { .. } | Charge { .. } | Take { .. });
        if !can_have || !dice.one_in(3) {
            return ask;
        }
        if self.0.is_empty() || dice.one_in(2) {
            // Only 40 ids, so that some are used twice.
            let id = RequestId::from_bytes([u8::try_from(dice.below(40)).unwrap_or(0); 16]);
            ask.once = Some(Idempotency { id, lasts: random_life(dice) });
            return ask;
        }
        let late = self.0.len() - 1 - dice.below_len(self.0.len().min(4));
        let Asker { key, operation, lasts, once, .. } = self.0[late].clone();
        let once = Some(Idempotency { lasts: random_life(dice), ..once });
        if dice.one_in(6) {
            return Ask { key, once, ..ask };
        }
        let (one, two) = (dice.next(), dice.next());
        let bytes = (u128::from(one) << 64 | u128::from(two)).to_be_bytes();
        let id = sluicegate_core::HoldId::from_bytes(bytes);
        let longest = longest.unwrap_or(Hold::MAX_LASTS);
        let hold = lasts.map(|lasts| Hold { id, lasts: lasts.min(longest) });
        Ask { key, operation, hold, once }
    }

    pub(super) fn learn(&mut self, now_us: u64, ask: &Ask, answer: &Result<Answer, Refusal>) {
        let Some(once) = ask.once else { return };
        if answer.is_ok() {
            self.0.push(Asker {
                key: ask.key.clone(),
                operation: ask.operation.clone(),
                lasts: ask.hold.map(|hold| hold.lasts),
                once,
                until: now_us + micros(once.lasts),
            });
        }
    }
}

fn random_life(dice: &mut Dice) -> Duration {
    dice.pick(&[
        Idempotency::MIN_LASTS,
        Duration::from_secs(60),
        Duration::from_secs(60),
        Duration::from_secs(3_600),
        Idempotency::MAX_LASTS,
    ])
}
