//! Random policies.

use sluicegate_core::{
    Algorithm, CalendarUnit, CalendarWindow, Cost, DeniedCharge, Enforcement, MAX_EXACT, Policy,
    PolicyError, Rate, Span, Start, Strategy, Window,
};

use super::dice::Dice;

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
    /// `sliding_log`, with one strategy or several
    SlidingLog,
}

impl Kind {
    /// All of them.
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

    /// The algorithm's word.
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
        }
    }
}

/// How large the numbers of a policy are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Numbers {
    /// So small that a few requests meet the limit.
    Small,
    /// As large as is accepted, or a little less.
    Largest,
}

/// So many policies of these kinds, without names, so that repeats are told apart by order.
pub fn random_policies(dice: &mut Dice, kinds: &[Kind], count: usize) -> Vec<Policy> {
    (0..count)
        .map(|_| {
            let kind = dice.pick(kinds);
            let numbers = if dice.one_in(8) { Numbers::Largest } else { Numbers::Small };
            let mut policy = random_policy(dice, kind, numbers);
            if count > 1 && dice.one_in(5) {
                policy = policy.shadow();
            }
            if dice.one_in(5) {
                policy = policy.charge_denied();
            }
            if dice.one_in(5)
                && let Ok(cost) = Cost::new(dice.between(1, 3))
            {
                policy = policy.with_cost(cost);
            }
            policy
        })
        .collect()
}

/// One policy that enforces and costs 1.
pub fn random_policy(dice: &mut Dice, kind: Kind, numbers: Numbers) -> Policy {
    loop {
        if let Ok(policy) = try_policy(dice, kind, numbers) {
            return policy;
        }
    }
}

/// The same policy with other numbers, but its name, algorithm and window.
pub fn renumber(dice: &mut Dice, policy: &Policy) -> Policy {
    if dice.one_in(3) {
        return policy.clone();
    }
    loop {
        let algorithm = match policy.algorithm() {
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
                Algorithm::FixedWindow { limit: units(dice), window: window.clone() }
            }
            Algorithm::SlidingWindow { window, slices, .. } => {
                Algorithm::SlidingWindow { limit: units(dice), window: *window, slices: *slices }
            }
            Algorithm::SlidingCounter { window, .. } => {
                Algorithm::SlidingCounter { limit: units(dice), window: *window }
            }
            Algorithm::SlidingLog { strategies } => Algorithm::SlidingLog {
                strategies: strategies
                    .iter()
                    .map(|strategy| Strategy { limit: units(dice), window: strategy.window })
                    .collect(),
            },
            _ => return policy.clone(),
        };
        let Ok(mut changed) = Policy::new(algorithm) else { continue };
        changed = changed.with_cost(policy.cost());
        if let Some(name) = policy.name() {
            changed = changed.named(name.clone());
        }
        if policy.enforcement() == Enforcement::Shadow {
            changed = changed.shadow();
        }
        if policy.denied_charge() == DeniedCharge::Charged {
            changed = changed.charge_denied();
        }
        return changed;
    }
}

fn try_policy(dice: &mut Dice, kind: Kind, numbers: Numbers) -> Result<Policy, PolicyError> {
    let small = units(dice);
    // The number that counts, as large as the rest lets it be.
    let number = |dice: &mut Dice, make: &dyn Fn(u64) -> Result<Policy, PolicyError>| match numbers
    {
        Numbers::Small => make(small),
        Numbers::Largest => {
            let (mut accepted, mut refused) = (0, MAX_EXACT + 1);
            make(accepted)?;
            while refused - accepted > 1 {
                let middle = accepted + (refused - accepted) / 2;
                if make(middle).is_ok() { accepted = middle } else { refused = middle }
            }
            make(accepted.saturating_sub(dice.pick(&[0, 0, 1, 2]))).or_else(|_| make(accepted))
        }
    };
    match kind {
        Kind::TokenBucket => {
            let rate = rate(dice);
            number(dice, &|burst| Policy::token_bucket(rate, burst))
        }
        Kind::Gcra => {
            let rate = rate(dice);
            number(dice, &|burst| Policy::gcra(rate, burst))
        }
        Kind::LeakyBucket => {
            let rate = rate(dice);
            number(dice, &|capacity| Policy::leaky_bucket(rate, capacity))
        }
        Kind::Shaper => {
            let rate = rate(dice);
            number(dice, &|queue| Policy::shaper(rate, queue))
        }
        Kind::Smooth => {
            let (rate, burst) = (rate(dice), length(dice));
            let start = dice.pick(&[Start::Empty, Start::Full]);
            match numbers {
                Numbers::Small => Policy::smooth(rate, burst, start),
                Numbers::Largest => {
                    number(dice, &|burst| Policy::smooth(rate, micros(burst), start))
                }
            }
        }
        Kind::WarmUp => {
            let (rate, over) = (rate(dice), length(dice));
            match numbers {
                Numbers::Small => Policy::warm_up(rate, over),
                // Even, and at least 2.
                Numbers::Largest => {
                    number(dice, &|half| Policy::warm_up(rate, micros((half + 1) * 2)))
                }
            }
        }
        Kind::FixedWindow => {
            let window = match dice.below(4) {
                0 => Window::Aligned(length(dice)),
                1 | 2 => Window::FirstAdmitted(length(dice)),
                _ => Window::Calendar(calendar(dice)?),
            };
            number(dice, &|limit| Policy::fixed_window(limit, window.clone()))
        }
        Kind::SlidingWindow => {
            let slices = dice.pick(&[1, 2, 3, 4, 10, 60, 64, 65, 100]);
            let slice = dice.pick(&[1_000, 7_000, 100_000, 1_000_000, 60_000_000]);
            number(dice, &|limit| Policy::sliding_window(limit, micros(slice * slices), slices))
        }
        Kind::SlidingCounter => {
            let window = length(dice);
            number(dice, &|limit| Policy::sliding_counter(limit, window))
        }
        Kind::SlidingLog => {
            let count = dice.pick(&[1, 1, 2, 3]);
            let strategies: Vec<Strategy> =
                (0..count).map(|_| Strategy { limit: units(dice), window: length(dice) }).collect();
            number(dice, &|limit| {
                let mut strategies = strategies.clone();
                strategies[0].limit = limit;
                Policy::sliding_log(strategies)
            })
        }
    }
}

fn units(dice: &mut Dice) -> u64 {
    match dice.below(12) {
        0 => 0,
        1 => dice.between(10, 100),
        _ => dice.between(1, 6),
    }
}

/// Windows and periods: round ones, odd ones, and now and then very short or long ones.
fn length(dice: &mut Dice) -> Span {
    micros(match dice.below(8) {
        0 => dice.between(1, 20),
        1 => dice.between(1, 5_000_000),
        2 => dice.pick(&[3_600_000_000, 86_400_000_000, 30 * 86_400_000_000, 365 * 86_400_000_000]),
        _ => dice.pick(&[1_000, 10_000, 100_000, 250_000, 1_000_000, 3_000_000, 60_000_000]),
    })
}

fn rate(dice: &mut Dice) -> Rate {
    loop {
        let count = match dice.below(16) {
            0 => 0,
            1 => dice.between(100, 2_000_000),
            _ => dice.between(1, 12),
        };
        if let Ok(rate) = Rate::new(count, length(dice)) {
            return rate;
        }
    }
}

fn calendar(dice: &mut Dice) -> Result<CalendarWindow, PolicyError> {
    let unit = dice.pick(&[
        CalendarUnit::Day,
        CalendarUnit::Week,
        CalendarUnit::Month,
        CalendarUnit::Year,
    ]);
    // Daylight saving at night and at midnight, a skipped day, and none of it.
    let zone =
        dice.pick(&["Europe/Berlin", "America/Sao_Paulo", "Pacific/Apia", "Asia/Tokyo", "UTC"]);
    CalendarWindow::new(unit, zone)
}

fn micros(micros: u64) -> Span {
    Span::from_micros(micros).unwrap_or(Span::MAX)
}
