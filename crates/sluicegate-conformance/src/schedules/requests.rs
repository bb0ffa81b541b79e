//! Random requests against a limit.

use std::collections::VecDeque;

use sluicegate_core::{Algorithm, MAX_EXACT, Policy, Timestamp, Window};

use super::Plan;
use super::pauses::random_pause;
use crate::algorithms::in_other_zone;
use crate::dice::Dice;
use crate::reference::{Answer, Costs, Operation, Refusal, Retry};
use crate::times::micros;

/// A client's requests over time.
pub(super) struct Walk {
    now: u64,
    steps_back: bool,
    all_operations: bool,
    bans: bool,
    pauses: bool,
    is_bookable: bool,
    /// The time at which a refused request would pass.
    opens: Option<u64>,
    /// The times of the latest requests.
    latest: VecDeque<u64>,
}

const SECOND: u64 = 1_000_000;
const YEAR: u64 = 365 * 86_400 * SECOND;

impl Walk {
    pub(super) fn new(plan: &Plan, dice: &mut Dice, policies: &[Policy]) -> Self {
        let start = 1_699_920_000 * SECOND;
        Self {
            now: if dice.one_in(3) { start } else { start + dice.below(YEAR) },
            steps_back: plan.may_step_back,
            all_operations: plan.all_operations,
            bans: plan.bans,
            pauses: plan.pauses,
            is_bookable: policies.iter().all(|policy| {
                !policy.algorithm().keyword().contains("window")
                    && !policy.algorithm().keyword().starts_with("sliding")
            }),
            opens: None,
            latest: VecDeque::new(),
        }
    }

    /// Returns the next request, at `end` if that is the end of something.
    pub(super) fn next(
        &mut self,
        dice: &mut Dice,
        policies: &[Policy],
        end: Option<u64>,
    ) -> (u64, Vec<u8>, Operation) {
        let earliest = if self.steps_back { 1 } else { self.now };
        let instant = end.unwrap_or_else(|| self.instant(dice, policies));
        self.now = instant.clamp(1, MAX_EXACT - YEAR).max(earliest);
        let key = match dice.below(6) {
            0 => b"{b}\0".to_vec(),
            1 => b"".to_vec(),
            _ => b"a".to_vec(),
        };
        self.latest.push_front(self.now);
        self.latest.truncate(6);
        (self.now, key, self.operation(dice, policies))
    }

    pub(super) fn learn(&mut self, answer: &Result<Answer, Refusal>) {
        if let Ok(Answer { retry: Retry::After(after), .. }) = answer {
            self.opens = Some(self.now.saturating_add(*after));
        }
    }

    fn instant(&mut self, dice: &mut Dice, policies: &[Policy]) -> u64 {
        let now = self.now;
        match dice.below(40) {
            0..10 => now,
            10..13 => now + 1,
            13..15 => now + 1_000,
            15..19 => now + dice.below(SECOND),
            19..21 => now + dice.below(100 * SECOND),
            21..27 => {
                let policy = dice.pick(policies);
                edge(dice, &policy, now) + dice.below(3) - 1
            }
            27..34 => match self.opens.take() {
                // The retry-after is sufficient, and 1 µs less isn't.
                Some(opens) => opens.min(MAX_EXACT).max(now) - dice.below(2),
                None => now + dice.below(10),
            },
            34 => now + dice.below(10 * YEAR),
            35 => now + dice.below(86_400 * SECOND),
            36 | 37 if self.steps_back => now.saturating_sub(dice.below(5 * SECOND + 1)),
            38 if self.steps_back => {
                now.saturating_sub(dice.pick(&[1, 5 * SECOND, 5 * SECOND + 1]))
            }
            39 if self.steps_back => {
                now.saturating_sub(dice.pick(&[60, 3_600, 86_400 * 40]) * SECOND)
            }
            _ => now,
        }
    }

    fn operation(&self, dice: &mut Dice, policies: &[Policy]) -> Operation {
        if self.bans && self.all_operations && dice.one_in(40) {
            let lasts_us = dice.pick(&[1_000_000, 59_000_000, 40 * 60_000_000]);
            return if dice.one_in(2) { Operation::Unban } else { Operation::Ban { lasts_us } };
        }
        if self.pauses && self.all_operations && dice.one_in(12) {
            return random_pause(dice, policies.len());
        }
        let costs = costs(dice, policies);
        let kinds = if self.all_operations { 22 } else { 14 };
        match dice.below(kinds) {
            0..8 => Operation::Check { costs },
            8 => Operation::Peek { costs },
            9..14 if self.is_bookable => {
                let within_us = match dice.below(6) {
                    0 => 0,
                    1 => MAX_EXACT,
                    2 => {
                        self.opens.map_or(0, |opens| opens.saturating_sub(self.now).min(MAX_EXACT))
                    }
                    _ => dice.below(3 * SECOND),
                };
                Operation::Reserve { costs, within_us }
            }
            9 if dice.one_in(4) => Operation::Reserve { costs, within_us: 0 },
            14 | 15 => Operation::Take { costs },
            16 | 17 => Operation::Charge { costs },
            18 => Operation::Refund { costs },
            19 | 20 => {
                let made = self.latest[dice.below_len(self.latest.len())];
                let taken_at_us = if dice.one_in(8) { made + 1 } else { made };
                Operation::GiveBack { costs, taken_at_us }
            }
            21 if dice.one_in(3) => Operation::Reset,
            _ => Operation::Check { costs },
        }
    }
}

fn costs(dice: &mut Dice, policies: &[Policy]) -> Costs {
    match dice.below(10) {
        0..2 => Costs::Unsaid,
        2 => Costs::Each(
            policies
                .iter()
                .map(|policy| if dice.one_in(3) { 0 } else { cost(dice, policy) })
                .collect(),
        ),
        _ => {
            let policy = dice.pick(policies);
            Costs::All(cost(dice, &policy))
        }
    }
}

/// Returns a random cost: usually 1 to 4 units, also the limit, 1 more or any number.
fn cost(dice: &mut Dice, policy: &Policy) -> u64 {
    let limit = match policy.algorithm() {
        Algorithm::TokenBucket { burst, .. } | Algorithm::Gcra { burst, .. } => *burst,
        Algorithm::LeakyBucket { capacity, .. } => *capacity,
        Algorithm::Shaper { queue, .. } => queue + 1,
        Algorithm::FixedWindow { limit, .. }
        | Algorithm::SlidingWindow { limit, .. }
        | Algorithm::SlidingCounter { limit, .. } => *limit,
        Algorithm::SlidingLog { tiers } => tiers.iter().map(|tier| tier.limit).min().unwrap_or(1),
        _ => 3,
    };
    let cost = match dice.below(16) {
        0..7 => 1,
        7..11 => dice.between(1, 4),
        11 => limit,
        12 => limit.saturating_add(1),
        13 => limit / 2,
        14 => dice.between(1, limit.max(1)),
        _ if dice.one_in(6) => {
            dice.pick(&[MAX_EXACT, MAX_EXACT / 2, 1 << 40, dice.clone().below(MAX_EXACT)])
        }
        _ => 2,
    };
    cost.clamp(1, MAX_EXACT)
}

/// Returns an instant soon after `now` at which the policy's answer may change.
fn edge(dice: &mut Dice, policy: &Policy, now: u64) -> u64 {
    let next_multiple = |length: u64| (now / length + 1) * length;
    match policy.algorithm() {
        Algorithm::TokenBucket { rate, .. }
        | Algorithm::Gcra { rate, .. }
        | Algorithm::LeakyBucket { rate, .. }
        | Algorithm::Shaper { rate, .. }
        | Algorithm::Smooth { rate, .. }
        | Algorithm::WarmUp { rate, .. } => {
            now + micros(rate.period()).div_ceil(rate.count().max(1))
        }
        Algorithm::FixedWindow { window: Window::Calendar(calendar), .. } => {
            let calendar = in_other_zone(dice, calendar);
            calendar.window_at(Timestamp::from_micros_clamped(now)).1.as_micros()
        }
        Algorithm::FixedWindow { window: Window::Aligned(window), .. }
        | Algorithm::SlidingCounter { window, .. } => next_multiple(micros(*window)),
        Algorithm::FixedWindow { window: Window::FirstAdmitted(window), .. } => {
            now + micros(*window)
        }
        Algorithm::SlidingWindow { window, slices, .. } => next_multiple(micros(*window) / slices),
        Algorithm::SlidingLog { tiers } => now + micros(dice.pick(tiers).window),
        _ => now,
    }
}
