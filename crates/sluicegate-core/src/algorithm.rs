//! The algorithms, with their parameters as the user gave them.

use crate::calendar::CalendarWindow;
use crate::rate::Rate;
use crate::time::Span;

/// Which algorithm a policy uses, with its parameters as the user gave them.
///
/// Where they come from: the token bucket and the leaky bucket are those of network traffic
/// shaping (J. Turner, "New directions in communications", 1986); GCRA is ITU-T I.371's generic
/// cell rate algorithm; smooth and warm-up follow the behaviour of Guava's `RateLimiter`.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Algorithm {
    /// Starts full, refills continuously, admits while enough tokens are left.
    TokenBucket {
        /// The refill.
        rate: Rate,
        /// The most tokens the bucket holds.
        burst: u64,
    },
    /// The generic cell rate algorithm: gives the same answers as a token bucket with the same
    /// rate and burst.
    Gcra {
        /// The sustained rate.
        rate: Rate,
        /// The most units admitted at one instant.
        burst: u64,
    },
    /// A meter: starts empty, drains continuously, admits while there is room for the cost.
    LeakyBucket {
        /// The drain.
        rate: Rate,
        /// The most units the bucket holds.
        capacity: u64,
    },
    /// A leaky bucket as a queue: it tells each request when to act, one unit every 1/rate.
    Shaper {
        /// The pace at which units leave.
        rate: Rate,
        /// The most units that wait; one more is being acted on.
        queue: u64,
    },
    /// A request of any size is granted once the debt of earlier ones is paid; the next one pays
    /// for it. Idle time is saved up, at most `burst` of it.
    Smooth {
        /// The sustained rate.
        rate: Rate,
        /// The most idle time that is saved up.
        burst: Span,
        /// What a fresh key has saved up.
        start: Start,
    },
    /// Like [`Algorithm::Smooth`], but after idling it grants slowly at first: from a third of
    /// the rate up to the whole rate over the warm-up period.
    WarmUp {
        /// The rate once warm.
        rate: Rate,
        /// How long a fresh or idle key takes to get warm.
        over: Span,
    },
    /// A counter that restarts with each window.
    FixedWindow {
        /// The most units per window.
        limit: u64,
        /// Where windows begin and end.
        window: Window,
    },
    /// A ring of slices: the current slice and the earlier ones within the window count in full,
    /// and a slice expires as a whole.
    SlidingWindow {
        /// The most units in the window.
        limit: u64,
        /// The length of the window.
        window: Span,
        /// How many slices the window has.
        slices: u64,
    },
    /// Two counters aligned to the epoch; the previous one counts in proportion to how much of it
    /// still overlaps the window.
    SlidingCounter {
        /// The most units in the window, as the counter estimates it.
        limit: u64,
        /// The length of the window.
        window: Span,
    },
    /// At most so many units in flight at once, each under the id of a hold that ends, is released or
    /// expires.
    Concurrency {
        /// The most units in flight, at most 65,536.
        permits: u64,
        /// For how long a permit is held at most, unless it is renewed: 1 ms to a day.
        hold: Span,
        /// Where those wait who find too few units; `None` for no queue.
        queue: Option<Queue>,
    },
    /// Every admitted request counts for exactly the window; several tiers share one log.
    SlidingLog {
        /// The tiers, in the order given; all of them must admit the request.
        tiers: Vec<LogTier>,
    },
}

impl Algorithm {
    /// The keyword of the algorithm in a spec: `token_bucket`, `fixed_window` ….
    #[must_use]
    pub const fn keyword(&self) -> &'static str {
        match self {
            Self::TokenBucket { .. } => "token_bucket",
            Self::Gcra { .. } => "gcra",
            Self::LeakyBucket { .. } => "leaky_bucket",
            Self::Shaper { .. } => "shaper",
            Self::Smooth { .. } => "smooth",
            Self::WarmUp { .. } => "warmup",
            Self::FixedWindow { .. } => "fixed_window",
            Self::SlidingWindow { .. } => "sliding_window",
            Self::SlidingCounter { .. } => "sliding_counter",
            Self::SlidingLog { .. } => "sliding_log",
            Self::Concurrency { .. } => "concurrency",
        }
    }

    /// Returns the numbers that say how much is admitted, to be changed: the rate, if there is one, and every number of
    /// units with its name. Durations and windows are none of them.
    ///
    /// ```
    /// use sluicegate_core::Policy;
    ///
    /// let policy: Policy = "concurrency 10 hold 30s queue 20".parse()?;
    /// let mut algorithm = policy.algorithm().clone();
    /// let (rate, units) = algorithm.numbers_mut();
    /// assert!(rate.is_none());
    /// assert_eq!(units, [("permits", &mut 10), ("queue", &mut 20)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn numbers_mut(&mut self) -> (Option<&mut Rate>, Vec<(&'static str, &mut u64)>) {
        match self {
            Self::TokenBucket { rate, burst } | Self::Gcra { rate, burst } => {
                (Some(rate), vec![("burst", burst)])
            }
            Self::LeakyBucket { rate, capacity } => (Some(rate), vec![("capacity", capacity)]),
            Self::Shaper { rate, queue } => (Some(rate), vec![("queue", queue)]),
            Self::Smooth { rate, burst: _, start: _ } | Self::WarmUp { rate, over: _ } => {
                (Some(rate), Vec::new())
            }
            Self::FixedWindow { limit, window: _ }
            | Self::SlidingWindow { limit, window: _, slices: _ }
            | Self::SlidingCounter { limit, window: _ } => (None, vec![("limit", limit)]),
            Self::SlidingLog { tiers } => {
                let limits = tiers.iter_mut().map(|tier| ("limit", &mut tier.limit));
                (None, limits.collect())
            }
            Self::Concurrency { permits, hold: _, queue } => {
                let queue = queue.as_mut().map(|queue| ("queue", &mut queue.length));
                (None, [("permits", permits)].into_iter().chain(queue).collect())
            }
        }
    }
}

/// A queue in front of permits: of those who wait, whoever has the highest priority comes first, and of
/// equals whoever came first.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Queue {
    /// The most that wait: 1 to 65,536.
    pub length: u64,
    /// How many priorities there are: 1 to 16. They count from 0, which is the highest.
    pub priorities: u64,
}

impl Queue {
    /// The longest queue.
    pub const MAX_LENGTH: u64 = 65_536;
    /// The most priorities.
    pub const MAX_PRIORITIES: u64 = 16;
}

/// What a fresh smooth bucket has saved up.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Start {
    /// Nothing: the second request waits for the first. Guava's choice.
    #[default]
    Empty,
    /// The whole burst.
    Full,
}

/// Where a fixed window begins and ends.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Window {
    /// Opens at the first admitted request after the previous window closed.
    FirstAdmitted(Span),
    /// Begins at whole multiples of its length since the Unix epoch.
    Aligned(Span),
    /// A day, week, month or year in a named time zone.
    Calendar(CalendarWindow),
}

/// One limit over one window of a log: at most `limit` units in any `window`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct LogTier {
    /// The most units in the window, at most 65,536.
    pub limit: u64,
    /// The length of the window.
    pub window: Span,
}
