//! The algorithms: random policies of each, and the model that evaluates it.
//!
//! To add an algorithm, write its model next to the others and add its arms here.

mod account;
mod bucket;
mod calendar;
mod flow;
mod ledger;
mod permits;
mod random;
mod refusal;
mod slots;
mod two_cells;
mod warm_up;

use std::time::Duration;

use sluicegate_core::{Algorithm, LogTier, Policy, PolicyError, Queue, Start, Window};

use crate::dice::Dice;

pub use account::Retry;
use account::unknown;
pub(crate) use account::{Account, Patience, Report, Unused, Verdict};
pub(crate) use permits::Permits;
pub(crate) use random::in_other_zone;
use random::{calendar, largest, length, rate, units};
pub use refusal::Refusal;
pub(crate) use slots::{Place, Slots};

/// The algorithms.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Kind {
    /// `token_bucket`
    TokenBucket,
    /// `gcra`
    Gcra,
    /// `leaky_bucket`
    LeakyBucket,
    /// `shaper`
    Shaper,
    /// `smooth`
    Smooth,
    /// `warmup`
    WarmUp,
    /// `fixed_window`, with all three windows
    FixedWindow,
    /// `sliding_window`
    SlidingWindow,
    /// `sliding_counter`
    SlidingCounter,
    /// `sliding_log`, with one tier or several
    SlidingLog,
    /// `concurrency`
    Concurrency,
}

impl Kind {
    /// Every algorithm that a request without a hold can use.
    pub const ALL: [Self; 10] = [
        Self::TokenBucket,
        Self::Gcra,
        Self::LeakyBucket,
        Self::Shaper,
        Self::Smooth,
        Self::WarmUp,
        Self::FixedWindow,
        Self::SlidingWindow,
        Self::SlidingCounter,
        Self::SlidingLog,
    ];

    /// Policies whose requests wait for permits, alone and next to other policies.
    pub const QUEUED: [Self; 5] = [
        Self::Concurrency,
        Self::Concurrency,
        Self::Concurrency,
        Self::TokenBucket,
        Self::FixedWindow,
    ];

    /// Algorithms that can be reserved ahead.
    pub const RESERVABLE: [Self; 6] = [
        Self::TokenBucket,
        Self::Gcra,
        Self::LeakyBucket,
        Self::Shaper,
        Self::Smooth,
        Self::WarmUp,
    ];

    /// Every algorithm.
    pub const HELD: [Self; Self::ALL.len() + 1] = {
        let mut all = [Self::Concurrency; Self::ALL.len() + 1];
        let mut index = 0;
        while index < Self::ALL.len() {
            all[index] = Self::ALL[index];
            index += 1;
        }
        all
    };

    /// Returns `true` if a lease holder can take units ahead and spend them without a request.
    #[must_use]
    pub const fn is_leasable(self) -> bool {
        matches!(self, Self::TokenBucket | Self::Gcra | Self::LeakyBucket | Self::FixedWindow)
    }

    /// Returns the algorithm's name in a configuration.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::TokenBucket => "token_bucket",
            Self::Gcra => "gcra",
            Self::LeakyBucket => "leaky_bucket",
            Self::Shaper => "shaper",
            Self::Smooth => "smooth",
            Self::WarmUp => "warmup",
            Self::FixedWindow => "fixed_window",
            Self::SlidingWindow => "sliding_window",
            Self::SlidingCounter => "sliding_counter",
            Self::SlidingLog => "sliding_log",
            Self::Concurrency => "concurrency",
        }
    }
}

/// The size of a policy's numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Numbers {
    /// Numbers small enough that a short schedule reaches the limit.
    Small,
    /// The largest accepted number, or slightly less.
    Largest,
}

impl Kind {
    /// Returns a random policy that enforces and costs 1.
    pub(crate) fn random(self, dice: &mut Dice, numbers: Numbers) -> Result<Policy, PolicyError> {
        let small = units(dice);
        // The main number, as large as the other parameters permit.
        let number =
            |dice: &mut Dice, make: &dyn Fn(u64) -> Result<Policy, PolicyError>| match numbers {
                Numbers::Small => make(small),
                Numbers::Largest => largest(dice, make),
            };
        match self {
            Self::TokenBucket => {
                let rate = rate(dice);
                number(dice, &|burst| Policy::token_bucket(rate, burst))
            }
            Self::Gcra => {
                let rate = rate(dice);
                number(dice, &|burst| Policy::gcra(rate, burst))
            }
            Self::LeakyBucket => {
                let rate = rate(dice);
                number(dice, &|capacity| Policy::leaky_bucket(rate, capacity))
            }
            Self::Shaper => {
                let rate = rate(dice);
                number(dice, &|queue| Policy::shaper(rate, queue))
            }
            Self::Smooth => {
                let (rate, burst) = (rate(dice), length(dice));
                let start = dice.pick(&[Start::Empty, Start::Full]);
                match numbers {
                    Numbers::Small => Policy::smooth(rate, burst, start),
                    Numbers::Largest => number(dice, &|burst| {
                        Policy::smooth(rate, Duration::from_micros(burst), start)
                    }),
                }
            }
            Self::WarmUp => {
                let (rate, over) = (rate(dice), length(dice));
                match numbers {
                    Numbers::Small => Policy::warm_up(rate, over),
                    // Even, and at least 2.
                    Numbers::Largest => number(dice, &|half| {
                        Policy::warm_up(rate, Duration::from_micros((half + 1) * 2))
                    }),
                }
            }
            Self::FixedWindow => {
                let window = match dice.below(4) {
                    0 => Window::Aligned(length(dice)),
                    1 | 2 => Window::FirstAdmitted(length(dice)),
                    _ => Window::Calendar(calendar(dice)?),
                };
                number(dice, &|limit| Policy::fixed_window(limit, window.clone()))
            }
            Self::SlidingWindow => {
                let slices = dice.pick(&[1, 2, 3, 4, 10, 60, 64, 65, 100]);
                let slice = dice.pick(&[1_000, 7_000, 100_000, 1_000_000, 60_000_000]);
                number(dice, &|limit| {
                    Policy::sliding_window(limit, Duration::from_micros(slice * slices), slices)
                })
            }
            Self::SlidingCounter => {
                let window = length(dice);
                number(dice, &|limit| Policy::sliding_counter(limit, window))
            }
            Self::Concurrency => {
                let hold =
                    Duration::from_micros(dice.pick(&[1_000, 50_000, 1_000_000, 90_000_000]));
                let queue = queue(dice);
                number(dice, &|permits| {
                    Policy::new(Algorithm::Concurrency { permits, hold, queue })
                })
            }
            Self::SlidingLog => {
                let count = dice.pick(&[1, 1, 2, 3]);
                let tiers: Vec<LogTier> = (0..count)
                    .map(|_| LogTier { limit: units(dice), window: length(dice) })
                    .collect();
                number(dice, &|limit| {
                    let mut tiers = tiers.clone();
                    tiers[0].limit = limit;
                    Policy::sliding_log(tiers)
                })
            }
        }
    }
}

/// Returns a queue in 3 of 4 cases.
fn queue(dice: &mut Dice) -> Option<Queue> {
    let length = dice.pick(&[1, 2, 3, 100, Queue::MAX_LENGTH]);
    let priorities = dice.pick(&[1, 2, 3, Queue::MAX_PRIORITIES]);
    (!dice.one_in(4)).then_some(Queue { length, priorities })
}

/// Returns an algorithm of the given kind and window with other numbers. A calendar across zones gets another zone.
pub(crate) fn renumber(dice: &mut Dice, algorithm: &Algorithm) -> Algorithm {
    match algorithm {
        Algorithm::TokenBucket { .. } => {
            Algorithm::TokenBucket { rate: rate(dice), burst: units(dice) }
        }
        Algorithm::Gcra { .. } => Algorithm::Gcra { rate: rate(dice), burst: units(dice) },
        Algorithm::LeakyBucket { .. } => {
            Algorithm::LeakyBucket { rate: rate(dice), capacity: units(dice) }
        }
        Algorithm::Shaper { .. } => Algorithm::Shaper { rate: rate(dice), queue: units(dice) },
        Algorithm::Smooth { start, .. } => {
            Algorithm::Smooth { rate: rate(dice), burst: length(dice), start: *start }
        }
        Algorithm::WarmUp { .. } => Algorithm::WarmUp { rate: rate(dice), over: length(dice) },
        Algorithm::FixedWindow { window, .. } => {
            let window = match window {
                Window::Calendar(calendar) => Window::Calendar(in_other_zone(dice, calendar)),
                window => window.clone(),
            };
            Algorithm::FixedWindow { limit: units(dice), window }
        }
        Algorithm::SlidingWindow { window, slices, .. } => {
            Algorithm::SlidingWindow { limit: units(dice), window: *window, slices: *slices }
        }
        Algorithm::SlidingCounter { window, .. } => {
            Algorithm::SlidingCounter { limit: units(dice), window: *window }
        }
        Algorithm::SlidingLog { tiers } => Algorithm::SlidingLog {
            tiers: tiers
                .iter()
                .map(|tier| LogTier { limit: units(dice), window: tier.window })
                .collect(),
        },
        Algorithm::Concurrency { .. } => Algorithm::Concurrency {
            permits: units(dice).min(65_536),
            hold: Duration::from_micros(dice.pick(&[1_000, 50_000, 1_000_000, 90_000_000])),
            queue: queue(dice),
        },
        _ => unknown(algorithm),
    }
}

/// Returns a random calendar window across zones.
pub(crate) fn across_zones(dice: &mut Dice) -> Result<Algorithm, PolicyError> {
    let calendar = calendar(dice)?.across_zones();
    Ok(Algorithm::FixedWindow { limit: units(dice), window: Window::Calendar(calendar) })
}

/// Returns the state of an unused key.
pub(crate) fn fresh(algorithm: &Algorithm) -> Box<dyn Account> {
    match algorithm {
        Algorithm::TokenBucket { .. }
        | Algorithm::Gcra { .. }
        | Algorithm::LeakyBucket { .. }
        | Algorithm::Shaper { .. }
        | Algorithm::Smooth { .. } => Box::new(bucket::Bucket::default()),
        Algorithm::WarmUp { .. } => Box::new(warm_up::WarmUp::default()),
        Algorithm::FixedWindow { .. }
        | Algorithm::SlidingWindow { .. }
        | Algorithm::SlidingLog { .. } => Box::new(ledger::Ledger::default()),
        Algorithm::SlidingCounter { .. } => Box::new(two_cells::TwoCells::default()),
        Algorithm::Concurrency { .. } => Box::new(Permits::default()),
        _ => unknown(algorithm),
    }
}

/// Returns `true` if a lease holder can take units ahead and spend them without a request.
pub(crate) const fn is_leasable(algorithm: &Algorithm) -> bool {
    matches!(
        algorithm,
        Algorithm::TokenBucket { .. }
            | Algorithm::Gcra { .. }
            | Algorithm::LeakyBucket { .. }
            | Algorithm::FixedWindow { .. }
    )
}

/// Returns `true` if units can be reserved ahead.
pub(crate) const fn is_bookable(algorithm: &Algorithm) -> bool {
    !matches!(
        algorithm,
        Algorithm::FixedWindow { .. }
            | Algorithm::SlidingWindow { .. }
            | Algorithm::SlidingLog { .. }
            | Algorithm::SlidingCounter { .. }
            | Algorithm::Concurrency { .. }
    )
}

/// Returns `true` if state made under one algorithm is valid under the other. Numbers may differ;
/// the algorithm and the window must match.
pub(crate) fn same_kind(old: &Algorithm, new: &Algorithm) -> bool {
    use Algorithm::{FixedWindow, SlidingCounter, SlidingLog, SlidingWindow};
    match (old, new) {
        (
            FixedWindow { window: Window::Calendar(old), .. },
            FixedWindow { window: Window::Calendar(new), .. },
        ) => old == new || calendar::are_across_zones(old, new),
        (FixedWindow { window: old, .. }, FixedWindow { window: new, .. }) => old == new,
        (
            SlidingWindow { window: a, slices: b, .. },
            SlidingWindow { window: c, slices: d, .. },
        ) => (a, b) == (c, d),
        (SlidingCounter { window: old, .. }, SlidingCounter { window: new, .. }) => old == new,
        (SlidingLog { tiers: old }, SlidingLog { tiers: new }) => {
            old.iter().map(|tier| tier.window).eq(new.iter().map(|tier| tier.window))
        }
        _ => old.keyword() == new.keyword(),
    }
}
