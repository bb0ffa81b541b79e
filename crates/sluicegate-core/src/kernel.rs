//! The kernels: pure functions from a state, a time and a cost to an answer and a new state.
//!
//! One file has everything about a kernel: the numbers of its algorithms, its state, and how it
//! evaluates and charges. It also says how long a state is useful, how it is stored, and the
//! grammar of its specs. No kernel reads a clock or uses a float. Only a log allocates to reach an
//! answer, for its entries. Each kernel has a counterpart among the Lua modules of the Redis store.
//! `docs/semantics.md` defines what both must answer.
//!
//! CONTRIBUTING.md has the recipe for a new kernel. In this module, the kernel is named in
//! `for_each_kernel`, which generates everything that exists once per kernel, and in `Rule::new`.

mod account;
pub(crate) mod bound;
pub mod bucket;
pub mod counter;
mod layout;
pub(crate) mod leased;
pub mod log;
pub(crate) mod opened;
pub mod permits;
mod reading;
mod rule;
mod second;
pub(crate) mod slot;
pub mod warm_up;
pub mod window;

use std::fmt;
use std::hash::Hash;
use std::time::Duration;

use crate::algorithm::Algorithm;
use crate::error::PolicyError;
use crate::spec::Grammar;
use crate::time::Span;

pub(crate) use account::Account;
pub use bound::Bound;
pub use layout::{
    FIXED_KINDS, FixedKind, HEAD_BYTES, ID_BYTES, LISTED_FROM, Layout, NUMBER_BYTES, WHOLE_FROM,
    retention,
};
pub use leased::Leased;
pub use reading::Reading;
pub use rule::{Rule, State};
pub(crate) use second::Second;
pub use slot::Slot;

/// Means "never" where a number is a time in µs, and "unbounded" where it is a number of units.
pub const NEVER: u64 = u64::MAX;

/// The rule of one family of algorithms over one kind of state.
///
/// `Account` and `Rule` have the parts that all families share: `Account` for a rule and a balance,
/// `Rule` for a rule alone.
pub trait Kernel: Clone + fmt::Debug + Eq + Hash + Send + Sync + 'static {
    /// The kind of its states if they have a fixed length; for a log, the head of its entries.
    const FIXED: FixedKind;

    /// Conditions, each of which makes this rule keep every state at least as long as another rule.
    /// A store whose policies change keeps a state as long as any of its rules would. It only needs
    /// to ask the rules that no other rule outlasts.
    const OUTLASTS: &'static [fn(&Self, &Self) -> bool] = &[|one, other| one == other];

    /// The counting of leased and held units; `None` if units can be neither leased nor held in
    /// slots.
    const LEASES: Option<Leases<Self>>;

    /// The state of a key.
    type State: Clone + Default + fmt::Debug + Eq + Send + Sync + 'static;
    /// A state at the evaluation time.
    type Balance: Clone + fmt::Debug + Send;

    /// Returns the properties of the rule that other code needs.
    fn profile(&self) -> Profile;

    /// Advances a state to the evaluation time. The flag is set if the state was stamped too far
    /// ahead of now and was restamped.
    ///
    /// # Errors
    /// Returns an error if the state can't be converted to the kernel's current numbers.
    fn balance(
        &self,
        state: Option<Self::State>,
        now: Now,
    ) -> Result<(Self::Balance, bool), Overflow>;

    /// Returns the state to keep; `None` if there is nothing to keep.
    fn state(&self, balance: Self::Balance) -> Option<Self::State>;

    /// Evaluates a cost of at least 1 for a caller that accepts a wait of `within` µs.
    ///
    /// `None` means the wait that the policy accepts on its own, which is 0 except for a shaper.
    fn judge(&self, balance: &Self::Balance, cost: u64, within: Option<u64>) -> Verdict;

    /// Returns the tiers of a log that refuse a cost, as bits in the order given.
    fn violated(&self, _balance: &Self::Balance, _cost: u64) -> u32 {
        0
    }

    /// Takes a cost. A denied cost is taken up to the limit, never into debt, unless it is counted.
    ///
    /// # Errors
    /// Returns an error if the new state is beyond what can be held; never after
    /// [`Kernel::can_charge`] succeeded.
    fn charge(&self, balance: &mut Self::Balance, charge: Charge) -> Result<(), Overflow>;

    /// Checks that [`Kernel::charge`] would succeed, without changing anything.
    ///
    /// # Errors
    /// Returns the errors of [`Kernel::charge`].
    fn can_charge(&self, balance: &Self::Balance, charge: Charge) -> Result<(), Overflow> {
        self.charge(&mut balance.clone(), charge)
    }

    /// Gives units back, at most up to a fresh key's state, and returns their number.
    ///
    /// A unit that has partly flowed back counts in full. `None` for a key that was never used. The
    /// newest time is unchanged, because a refund isn't an admission.
    fn refund(&self, balance: &mut Self::Balance, units: u64) -> Option<u64>;

    /// Gives back the units that haven't flowed back since they were taken, and returns their
    /// number.
    ///
    /// The number is never more than the units still withhold from others. It is 0 if the kernel
    /// can't tell. `None` if the balance didn't change. The newest time is unchanged.
    ///
    /// A kernel that schedules callers gives nothing back like this. Another caller may already
    /// have an instant that counts on the units.
    fn give_back(&self, _balance: &mut Self::Balance, _taken: Taken) -> Option<u64> {
        None
    }

    /// Returns a summary of a balance.
    fn report(&self, balance: &Self::Balance) -> Report;

    /// Returns for how many µs from the evaluation time the state is worth keeping.
    ///
    /// By default this is until it equals a fresh key's. A kernel can have a reason to keep it
    /// longer.
    fn keep_for(&self, balance: &Self::Balance) -> u64 {
        self.profile().whole_micros(self.report(balance).reset)
    }

    /// Returns the µs from now until a state can be dropped: 0 for now, [`NEVER`] for never.
    fn expires_in(&self, state: &Self::State, now: Now) -> u64 {
        self.balance(Some(state.clone()), now).map_or(NEVER, |(balance, _)| {
            let ahead = self.report(&balance).evaluated_at.saturating_sub(now.micros);
            self.keep_for(&balance).saturating_add(ahead)
        })
    }

    /// Returns the units that forgetting a state would release: its used quota at a time, rounded
    /// up.
    ///
    /// This includes a debt. For a log, these are the units in its longest window. The result is 0
    /// for a state that equals a fresh key's or is better, and [`NEVER`] for one that can't be
    /// evaluated.
    fn used(&self, state: &Self::State, now: Now) -> u64;

    /// Returns the newest admitted time of a state, in µs since the epoch.
    fn newest(state: &Self::State) -> u64;

    /// Writes the numbers of a state in the order of its layout, the newest time first.
    fn write(state: &Self::State, numbers: &mut Vec<u64>);

    /// Reads the state from its numbers; `None` if they aren't a valid state.
    fn read(numbers: &[u64]) -> Option<Self::State>;
}

/// The properties of a rule that other code needs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Profile {
    /// The largest cost that a fresh key admits, in units; [`NEVER`] if unbounded.
    pub limit: u64,
    /// The time for which a program that doesn't know the policy should preserve a state, in µs
    /// after its newest time.
    pub retention: u64,
    /// The stored form of a state.
    pub layout: Layout,
    /// The ticks of a unit, at least 1, and the ticks that flow back per µs, for a kernel that
    /// reports in ticks. Giving units back depends on the rate at which they were taken.
    pub flow: Option<(u64, u64)>,
    /// Whether the kernel supports reservations.
    pub can_reserve: bool,
    /// Whether an admitted request may have to wait before it acts, as with a shaper.
    pub is_shaper: bool,
    /// Whether units can be leased, according to [`Kernel::LEASES`].
    pub can_lease: bool,
}

impl Profile {
    /// Returns the units in [remaining ticks](Report::remaining), rounded down.
    #[inline]
    #[must_use]
    pub const fn whole_units(&self, ticks: u64) -> u64 {
        match self.flow {
            Some((unit, _)) if ticks != NEVER => ticks / unit,
            _ => ticks,
        }
    }

    /// Returns the µs in [ticks until a reset](Report::reset), rounded up.
    #[inline]
    #[must_use]
    pub const fn whole_micros(&self, ticks: u64) -> u64 {
        if ticks == NEVER { NEVER } else { ticks.div_ceil(self.ticks_of_micros(1)) }
    }

    /// Returns the [remaining ticks](Report::remaining) that units make.
    pub(crate) const fn ticks_of(&self, units: u64) -> u64 {
        match self.flow {
            Some((unit, _)) => units.saturating_mul(unit),
            None => units,
        }
    }

    /// Returns the ticks [until a reset](Report::reset) that µs make.
    pub(crate) const fn ticks_of_micros(&self, micros: u64) -> u64 {
        match self.flow {
            Some((_, refill)) if refill > 1 => micros.saturating_mul(refill),
            _ => micros,
        }
    }
}

/// A summary of a balance, in ticks if the [profile](Profile::flow) has a flow. A decision leaves the
/// division to its reader, because it takes a tenth of the decision's time.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Report {
    /// The evaluation time, in µs since the epoch.
    pub evaluated_at: u64,
    /// The largest cost that would pass now; [`NEVER`] if unbounded.
    pub remaining: u64,
    /// The time until the state equals a fresh key's; [`NEVER`] if nothing flows back.
    pub reset: u64,
    /// The units used in a fixed window, or in the longest window of a log or ring.
    pub used: u64,
    /// The units in the current slice of a ring.
    pub current: u64,
}

/// The way in which a kernel counts outstanding units: leased or held.
#[derive(Clone, Copy, Debug)]
pub struct Leases<K: Kernel> {
    /// The kind of an entry with a state that has leased units.
    pub kind: u8,
    /// The kind of an entry with a state that has held units. Such a state keeps a second bound of
    /// its use. `None` if the kernel needs none.
    pub held: Option<u8>,
    /// Whether used units flow back gradually, not all at the same time. If so, the number of
    /// outstanding units at each time in between matters.
    pub drains: bool,
    /// Counts at least that many units as used at the evaluation time, which becomes the newest
    /// time.
    pub pin: fn(&K, &mut K::Balance, u64),
    /// Returns the units that count as used beyond a number of them, rounded up.
    pub used_beyond: fn(&K, &K::Balance, u64) -> u64,
    /// Returns the time when all leases end, in µs since the epoch; [`NEVER`] if no lease has to
    /// end.
    pub end: fn(&K::Balance) -> u64,
}

/// The text forms of a kernel's policies: specs, and quotas for clients.
pub(crate) trait SpecFormat: Kernel {
    /// The grammars, one per algorithm.
    const GRAMMARS: &'static [Grammar];

    /// Writes the part after the keyword in the shortest spec that parses to the algorithm.
    fn write_spec(algorithm: &Algorithm, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// Returns the window as text. Together with the policy's name and the algorithm's keyword it
    /// identifies a state.
    fn window_text(_algorithm: &Algorithm) -> String {
        String::new()
    }

    /// Returns the policy's numbers as reported to clients.
    fn quota(&self, algorithm: &Algorithm) -> Quota;
}

/// Calls a macro with the list of all kernels: each kernel's name in enums, and its type.
///
/// It generates the enums with a variant per kernel, in this crate and in stores, and matches on
/// them: see [`match_kernel`](crate::match_kernel).
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_kernel {
    ([$($callback:tt)*] $($arguments:tt)*) => {
        $($callback)* ! {
            ($($arguments)*)
            /// Token bucket, GCRA, leaky bucket, shaper, smooth bursty.
            Bucket: $crate::kernel::bucket::Bucket,
            /// Fixed window.
            Window: $crate::kernel::window::FixedWindow,
            /// Sliding log, and the ring of slices.
            Log: $crate::kernel::log::Log,
            /// Two-cell sliding counter.
            Counter: $crate::kernel::counter::Counter,
            /// Smooth warm-up.
            WarmUp: $crate::kernel::warm_up::WarmUp,
            /// Units in flight.
            Permits: $crate::kernel::permits::Permits,
        }
    };
}

/// Evaluates one expression for the content of an enum's variant, for each kernel:
/// `match_kernel!(Enum, value, inner => expression; other arms)`.
#[doc(hidden)]
#[macro_export]
macro_rules! match_kernel {
    ($of:ident, $value:expr, $inner:ident => $body:expr $(; $($others:tt)*)?) => {
        $crate::for_each_kernel!([$crate::__match_kernel] $of, $value, $inner => $body, $($($others)*)?)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __match_kernel {
    (
        ($of:ident, $value:expr, $inner:ident => $body:expr, $($others:tt)*)
        $($(#[$_:meta])* $name:ident: $kernel:ty,)*
    ) => {
        match $value {
            $($of::$name($inner) => $body,)*
            $($others)*
        }
    };
}

impl Rule {
    pub(crate) fn new(algorithm: &Algorithm) -> Result<Self, PolicyError> {
        Ok(match algorithm {
            Algorithm::TokenBucket { .. }
            | Algorithm::Gcra { .. }
            | Algorithm::LeakyBucket { .. }
            | Algorithm::Shaper { .. }
            | Algorithm::Smooth { .. } => Self::Bucket(bucket::Bucket::new(algorithm)?),
            Algorithm::FixedWindow { limit, window } => {
                Self::Window(window::FixedWindow::new(*limit, window)?)
            }
            Algorithm::SlidingLog { tiers } => Self::Log(log::Log::exact(tiers)?),
            Algorithm::SlidingWindow { limit, window, slices } => {
                Self::Log(log::Log::ring(*limit, *window, *slices)?)
            }
            Algorithm::SlidingCounter { limit, window } => {
                Self::Counter(counter::Counter::new(*limit, *window)?)
            }
            Algorithm::WarmUp { rate, over } => {
                Self::WarmUp(warm_up::WarmUp::new(*rate, Span::from(*over))?)
            }
            Algorithm::Concurrency { permits, hold, queue } => {
                Self::Permits(permits::Permits::new(*permits, Span::from(*hold), *queue)?)
            }
        })
    }
}

/// The evaluation time of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Now {
    /// The time of the store's clock, or of the request, in µs since the epoch.
    pub micros: u64,
    /// The maximum time that a state's newest time may be ahead of this one before it is restamped,
    /// in µs. `None` under injected time, which can step back arbitrarily far.
    pub max_clock_back: Option<u64>,
}

impl Now {
    /// Returns the time after a length of time, in µs since the epoch.
    pub(crate) fn after(self, time: impl Into<Span>) -> u64 {
        self.micros.saturating_add(time.into().as_micros())
    }

    /// Returns `true` if a state's newest time is too far ahead to be plausible.
    #[inline]
    #[must_use]
    pub const fn is_exceeded_by(self, newest: u64) -> bool {
        match self.max_clock_back {
            Some(bound) => newest > self.micros.saturating_add(bound),
            None => false,
        }
    }
}

/// The verdict of one policy on a cost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// The cost passes, and the caller may act in `wait` µs.
    Pass {
        /// The wait in µs from the evaluation time; 0 except for reservations and shapers.
        wait: u64,
    },
    /// The cost is refused.
    Refuse {
        /// The shortest wait after which it would pass, in µs, at least 1; `None` for never.
        retry: Option<u64>,
    },
}

impl Verdict {
    /// Returns the verdict on a request that could act in `wait` µs, if its caller accepts `within`
    /// µs.
    #[inline]
    const fn within(wait: u64, within: u64) -> Self {
        if wait <= within {
            Self::Pass { wait }
        } else {
            Self::Refuse { retry: Some(wait - within) }
        }
    }
}

/// The charge of a policy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Charge {
    /// An admitted cost.
    Admitted {
        /// The units taken.
        cost: u64,
        /// The time until the caller can act by all policies of the limit, in µs from the
        /// evaluation time. The policy counts as idle until then.
        act_in: u64,
    },
    /// The cost of a denied request, taken up to the limit.
    Denied {
        /// The units of the request.
        cost: u64,
    },
    /// The cost of a denied request, taken beyond the limit too. Only fixed windows differ from
    /// [`Charge::Denied`].
    Counted {
        /// The units of the request.
        cost: u64,
    },
}

impl Charge {
    /// Returns an admitted cost without a wait.
    #[must_use]
    pub const fn at_once(cost: u64) -> Self {
        Self::Admitted { cost, act_in: 0 }
    }
}

/// Units that were taken and will be given back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Taken {
    /// The number of units.
    pub units: u64,
    /// The time when they were taken, in µs since the epoch.
    pub at: u64,
    /// The [flow](Profile::flow) of the kernel at that time, if it is known.
    pub flow: Option<(u64, u64)>,
    /// Whether nothing has been charged or given back since.
    pub is_last: bool,
}

impl Taken {
    /// Creates units with only a number and a time.
    #[must_use]
    pub const fn at(units: u64, at: u64) -> Self {
        Self { units, at, flow: None, is_last: false }
    }
}

/// A policy's numbers as reported to clients.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Quota {
    /// The largest cost that a fresh key admits; if that is unbounded, the units per period.
    pub units: u64,
    /// The time until that many units are available again. For the bucket family, this is the time
    /// from empty to full. `None` if nothing flows back.
    pub window: Option<Duration>,
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
