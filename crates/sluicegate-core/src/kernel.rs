//! The kernels: pure functions from a state, a time and a cost to an answer and a new state.
//!
//! No kernel reads a clock, allocates on the way to an answer (a log's entries apart), or uses
//! a float. The Lua modules of the Redis store are their twins, and `docs/semantics.md` defines
//! what both must answer.

use std::fmt;

use crate::error::PolicyError;
use crate::policy::Algorithm;

pub mod bucket;
pub mod counter;
pub mod log;
pub mod warm_up;
pub mod window;

/// A policy's algorithm made ready to decide: reduced numbers, no more checks to make.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Rule {
    /// Token bucket, GCRA, leaky bucket, shaper, smooth bursty.
    Bucket(bucket::Bucket),
    /// Two-cell sliding counter.
    Counter(counter::Counter),
    /// Sliding log, and the ring of slices.
    Log(log::Log),
    /// Smooth warm-up.
    WarmUp(warm_up::WarmUp),
    /// Fixed window.
    Window(window::FixedWindow),
}

impl Rule {
    pub(crate) fn new(algorithm: &Algorithm) -> Result<Self, PolicyError> {
        Ok(match algorithm {
            Algorithm::TokenBucket { rate, burst } | Algorithm::Gcra { rate, burst } => {
                Self::Bucket(bucket::Bucket::meter(*rate, *burst, "burst")?)
            }
            Algorithm::LeakyBucket { rate, capacity } => {
                Self::Bucket(bucket::Bucket::meter(*rate, *capacity, "capacity")?)
            }
            Algorithm::Shaper { rate, queue } => {
                Self::Bucket(bucket::Bucket::shaper(*rate, *queue)?)
            }
            Algorithm::Smooth { rate, burst, start } => {
                Self::Bucket(bucket::Bucket::smooth(*rate, *burst, *start)?)
            }
            Algorithm::WarmUp { rate, over } => Self::WarmUp(warm_up::WarmUp::new(*rate, *over)?),
            Algorithm::FixedWindow { limit, window } => {
                Self::Window(window::FixedWindow::new(*limit, window)?)
            }
            Algorithm::SlidingWindow { limit, window, slices } => {
                Self::Log(log::Log::ring(*limit, *window, *slices)?)
            }
            Algorithm::SlidingCounter { limit, window } => {
                Self::Counter(counter::Counter::new(*limit, *window)?)
            }
            Algorithm::SlidingLog { strategies } => Self::Log(log::Log::exact(strategies)?),
        })
    }

    /// The largest cost a fresh key admits, in units; `u64::MAX` when unbounded.
    #[must_use]
    pub fn limit(&self) -> u64 {
        match self {
            Self::Bucket(bucket) => bucket.limit(),
            Self::Counter(counter) => counter.limit(),
            Self::Log(log) => log.limit(),
            Self::WarmUp(warm_up) if warm_up.refill() == 0 => 0,
            Self::WarmUp(_) => u64::MAX,
            Self::Window(window) => window.limit(),
        }
    }

    /// Whether units can be taken ahead of time: the bucket family.
    #[must_use]
    pub const fn can_reserve(&self) -> bool {
        matches!(self, Self::Bucket(_) | Self::WarmUp(_))
    }
}

/// The time a request is judged by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Times {
    /// The store's now, in microseconds since the epoch.
    pub now: u64,
    /// How far ahead of now a state's newest time may lie before it is restamped, in µs; `None`
    /// under injected time, which may step back as far as it likes.
    pub max_clock_back: Option<u64>,
}

impl Times {
    #[inline]
    const fn is_too_far_ahead(self, newest: u64) -> bool {
        match self.max_clock_back {
            Some(bound) => newest > self.now.saturating_add(bound),
            None => false,
        }
    }
}

/// What one policy says to a cost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ask {
    /// It passes, and may act in `wait` µs.
    Pass {
        /// µs from the time of judgement; 0 but for reservations and shapers.
        wait: u64,
    },
    /// It is refused.
    Refuse {
        /// The least wait after which it would pass, in µs, at least 1; `None` is never.
        retry: Option<u64>,
    },
}

impl Ask {
    /// A request that could act in `wait` µs and whose caller accepts `within`.
    #[inline]
    const fn within(wait: u64, within: u64) -> Self {
        if wait <= within {
            Self::Pass { wait }
        } else {
            Self::Refuse { retry: Some(wait - within) }
        }
    }
}

/// A cost, debt or count beyond what a state can hold (2^53 − 1).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Overflow;

impl fmt::Display for Overflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the cost or debt is beyond what a policy's state can hold (2^53 − 1)")
    }
}

impl std::error::Error for Overflow {}
