//! The algorithms, with their parameters as the user gave them.

use std::time::Duration;

use crate::calendar::CalendarWindow;
use crate::rate::Rate;
use crate::time::Span;

/// The algorithm of a policy, with its parameters as the user gave them.
///
/// The token bucket and the leaky bucket are those of network traffic shaping (J. Turner, "New
/// directions in communications", 1986). GCRA is ITU-T I.371's generic cell rate algorithm. Smooth
/// and warm-up follow the behaviour of Guava's `RateLimiter`.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Algorithm {
    /// A bucket that starts full, refills continuously and admits a request while enough tokens
    /// remain.
    TokenBucket {
        /// The refill.
        rate: Rate,
        /// The maximum number of tokens in the bucket.
        burst: u64,
    },
    /// The generic cell rate algorithm, which gives the same answers as a token bucket with this
    /// rate and burst.
    Gcra {
        /// The sustained rate.
        rate: Rate,
        /// The maximum number of units admitted at one instant.
        burst: u64,
    },
    /// A meter that starts empty, drains continuously and admits a request while its cost still
    /// fits.
    LeakyBucket {
        /// The drain.
        rate: Rate,
        /// The maximum number of units in the bucket.
        capacity: u64,
    },
    /// A leaky bucket as a queue: it schedules each request, one unit every 1/rate.
    Shaper {
        /// The pace at which units leave.
        rate: Rate,
        /// The maximum number of waiting units; one more is being processed.
        queue: u64,
    },
    /// A limiter that grants a request of any size once the debt of earlier ones is paid. The next
    /// request pays for it. Idle time is saved up, at most `burst` of it.
    Smooth {
        /// The sustained rate.
        rate: Rate,
        /// The maximum idle time that is saved up.
        burst: Duration,
        /// The idle time that a fresh key starts with.
        start: Start,
    },
    /// A limiter like [`Algorithm::Smooth`] that grants more slowly after idling. Over the warm-up
    /// period the pace rises from a third of the rate to the whole rate.
    WarmUp {
        /// The rate once warm.
        rate: Rate,
        /// Time that a fresh or idle key takes to warm up.
        over: Duration,
    },
    /// A counter that restarts with each window.
    FixedWindow {
        /// The maximum number of units per window.
        limit: u64,
        /// The boundaries of the windows.
        window: Window,
    },
    /// A ring of slices: the current slice and the earlier ones within the window count in full,
    /// and a slice expires as a whole.
    SlidingWindow {
        /// The maximum number of units in the window.
        limit: u64,
        /// The length of the window.
        window: Duration,
        /// The number of slices in the window.
        slices: u64,
    },
    /// Two counters aligned to the epoch; the previous one counts in proportion to how much of it
    /// still overlaps the window.
    SlidingCounter {
        /// The maximum number of units in the window, as the counter estimates it.
        limit: u64,
        /// The length of the window.
        window: Duration,
    },
    /// A limit of the units in flight. Each request's units have a hold id until they are released
    /// or expire.
    Concurrency {
        /// The maximum number of units in flight, at most 65,536.
        permits: u64,
        /// The maximum time that a permit is held without renewal: 1 ms to a day.
        hold: Duration,
        /// The queue for requests that find too few free units; `None` for no queue.
        queue: Option<Queue>,
    },
    /// An exact log: every admitted request counts for exactly the window. Several tiers share one
    /// log.
    SlidingLog {
        /// The tiers, in the order given; all of them must admit the request.
        tiers: Vec<LogTier>,
    },
}

impl Algorithm {
    /// Returns the algorithm's keyword in a spec: `token_bucket`, `fixed_window` ….
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

    /// Rounds the lengths of time up to whole microseconds, in which kernels count.
    pub(crate) fn rounded(mut self) -> Self {
        let round = |time: &mut Duration| *time = Span::from(*time).into();
        match &mut self {
            Self::Smooth { burst: time, .. }
            | Self::WarmUp { over: time, .. }
            | Self::FixedWindow {
                window: Window::FirstAdmitted(time) | Window::Aligned(time),
                ..
            }
            | Self::SlidingWindow { window: time, .. }
            | Self::SlidingCounter { window: time, .. }
            | Self::Concurrency { hold: time, .. } => round(time),
            Self::SlidingLog { tiers } => tiers.iter_mut().for_each(|tier| round(&mut tier.window)),
            Self::TokenBucket { .. }
            | Self::Gcra { .. }
            | Self::LeakyBucket { .. }
            | Self::Shaper { .. }
            | Self::FixedWindow { window: Window::Calendar(_), .. } => {}
        }
        self
    }

    /// Returns the numbers that set how much is admitted, for modification.
    ///
    /// These are the rate, if there is one, and each number of units with its name. Durations and
    /// windows aren't included.
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

impl LogTier {
    /// Returns the length of the window in µs.
    pub(crate) fn micros(&self) -> u64 {
        Span::from(self.window).as_micros()
    }
}

/// A queue in front of permits. The waiter with the highest priority goes first; waiters of equal
/// priority go in order of arrival.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Queue {
    /// The maximum number of waiters: 1 to 65,536.
    pub length: u64,
    /// The number of priorities: 1 to 16. Priority 0 is the highest.
    pub priorities: u64,
}

impl Queue {
    /// The longest queue.
    pub const MAX_LENGTH: u64 = 65_536;
    /// The largest number of priorities.
    pub const MAX_PRIORITIES: u64 = 16;
}

/// The idle time that a fresh smooth bucket starts with.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Start {
    /// Nothing: the second request waits for the first. Guava's choice.
    #[default]
    Empty,
    /// The whole burst.
    Full,
}

/// The boundaries of a fixed window.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Window {
    /// A window that opens at the first admitted request after the previous window closed.
    FirstAdmitted(Duration),
    /// Windows that begin at whole multiples of their length since the Unix epoch.
    Aligned(Duration),
    /// A day, week, month or year in a named time zone.
    Calendar(CalendarWindow),
}

/// One limit over one window of a log: at most `limit` units in any `window`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct LogTier {
    /// The maximum number of units in the window, at most 65,536.
    pub limit: u64,
    /// The length of the window.
    pub window: Duration,
}
