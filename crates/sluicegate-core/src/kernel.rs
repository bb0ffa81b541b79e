//! The kernels: pure functions from a state, a time and a cost to an answer and a new state.
//!
//! One file has everything about a kernel: the numbers of its algorithms, its state, how it judges
//! and charges, how long a state is useful, how it is stored, and the grammar of its specs. No
//! kernel reads a clock, uses a float, or allocates to reach an answer (except for the entries of a
//! log). Each has a counterpart among the Lua modules of the Redis store, and `docs/semantics.md`
//! defines what both must answer.
//!
//! CONTRIBUTING.md has the recipe for a new one. Here it is named in `for_each_kernel`, from
//! which everything follows that exists once per kernel, and in `Rule::new`.

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

use crate::algorithm::Algorithm;
use crate::error::PolicyError;
use crate::spec::Grammar;
use crate::time::Span;

pub(crate) use account::{Account, Charge};
pub use bound::Bound;
pub use layout::{
    FIXED_KINDS, FixedKind, HEAD_BYTES, ID_BYTES, LISTED_FROM, Layout, NUMBER_BYTES, WHOLE_FROM,
    retention,
};
pub use leased::Leased;
pub use reading::Reading;
pub use rule::{Rule, State};
pub(crate) use rule::{whole_micros, whole_units};
pub(crate) use second::Second;
pub use slot::Slot;

/// Means "never" where a number is a time in µs, and "unbounded" where it is a number of units.
pub const NEVER: u64 = u64::MAX;

/// The rule of one family of algorithms over one kind of state.
pub trait Kernel: Clone + fmt::Debug + Eq + Hash + Send + Sync + 'static {
    /// Its states where they have a fixed length; of a log, the head of its entries.
    const FIXED: FixedKind;

    /// The state of a key.
    type State: Clone + Default + fmt::Debug + Eq + Send + Sync + 'static;
    /// A state as of the time of judgement.
    type Balance: Clone + fmt::Debug + Send;

    /// Brings a state to the time of judgement. The flag is set if the state was stamped too far
    /// ahead of now and was restamped.
    ///
    /// # Errors
    /// If the state can't be converted to the kernel's current numbers.
    fn balance(
        &self,
        state: Option<Self::State>,
        now: Now,
    ) -> Result<(Self::Balance, bool), Overflow>;

    /// Whether a cost of at least 1 passes if the caller accepts a wait of `within` µs. `None`
    /// means what the policy accepts on its own: no wait, except for a shaper.
    fn judge(&self, balance: &Self::Balance, cost: u64, within: Option<u64>) -> Verdict;

    /// Takes an admitted cost.
    ///
    /// # Errors
    /// If the new state is beyond what can be held; never after [`Kernel::can_admit`] succeeded.
    fn admit(&self, balance: &mut Self::Balance, admission: Admission) -> Result<(), Overflow>;

    /// Fails if [`Kernel::admit`] would, without changing anything.
    ///
    /// # Errors
    /// Those of [`Kernel::admit`].
    fn can_admit(&self, balance: &Self::Balance, admission: Admission) -> Result<(), Overflow> {
        self.admit(&mut balance.clone(), admission)
    }

    /// Takes the cost of a denied request: up to the limit, never into debt.
    ///
    /// # Errors
    /// If the new state is beyond what can be held; never after [`Kernel::can_charge_denied`]
    /// succeeded.
    fn charge_denied(&self, balance: &mut Self::Balance, cost: u64) -> Result<(), Overflow>;

    /// Fails if [`Kernel::charge_denied`] would, without changing anything.
    ///
    /// # Errors
    /// Those of [`Kernel::charge_denied`].
    fn can_charge_denied(&self, balance: &Self::Balance, cost: u64) -> Result<(), Overflow> {
        self.charge_denied(&mut balance.clone(), cost)
    }

    /// Gives units back, at most up to a fresh key's state, and returns how many: a unit of which a
    /// part has flowed back already counts in full. The newest time stays: a refund is not an
    /// admission.
    fn refund(&self, balance: &mut Self::Balance, units: u64) -> u64;

    /// Gives back what is left of units that were taken: never more than what they still withhold from
    /// others, and nothing if the kernel can't tell. The newest time stays. Returns how many, like a
    /// refund; `None` if the balance didn't change.
    ///
    /// A kernel that tells callers when to act gives nothing back like this: somebody may have been
    /// told an instant that counts on the units.
    fn give_back(&self, _balance: &mut Self::Balance, _taken: Taken) -> Option<u64> {
        None
    }

    /// What a unit comes to in ticks, and how many of them flow back in a µs: for kernels to which it
    /// matters, when units are given back, at which rate they were taken.
    fn flow(&self) -> Option<(u64, u64)> {
        None
    }

    /// The largest cost that would pass now; [`NEVER`] if unbounded.
    fn remaining(&self, balance: &Self::Balance) -> u64;

    /// The µs from the time of judgement until the state equals a fresh key's; [`NEVER`] if nothing
    /// flows back.
    fn reset_after(&self, balance: &Self::Balance) -> u64;

    /// [`Kernel::remaining`] before it is divided by the [ticks of a unit](Kernel::ticks_per_unit):
    /// a decision leaves that to its reader, because a division takes a tenth of its time.
    fn remaining_ticks(&self, balance: &Self::Balance) -> u64 {
        self.remaining(balance)
    }

    /// [`Kernel::reset_after`] before it is divided by the [ticks of a
    /// µs](Kernel::ticks_per_micro).
    fn reset_ticks(&self, balance: &Self::Balance) -> u64 {
        self.reset_after(balance)
    }

    /// How many [remaining ticks](Kernel::remaining_ticks) make a unit, at least 1.
    fn ticks_per_unit(&self) -> u64 {
        1
    }

    /// How many [ticks until a reset](Kernel::reset_ticks) make a µs, at least 1.
    fn ticks_per_micro(&self) -> u64 {
        1
    }

    /// The µs from the time of judgement for which the state is worth keeping.
    fn keep_for(&self, balance: &Self::Balance) -> u64 {
        self.reset_after(balance)
    }

    /// The µs from now until a state may be dropped: 0 for now, [`NEVER`] for never.
    fn expires_in(&self, state: &Self::State, now: Now) -> u64 {
        match self.balance(Some(state.clone()), now) {
            Ok((balance, _)) => {
                let ahead = Self::judged_at(&balance).saturating_sub(now.micros);
                self.keep_for(&balance).saturating_add(ahead)
            }
            Err(Overflow) => NEVER,
        }
    }

    /// The units that forgetting a state would hand out again: what it counts of the quota at a
    /// time, debts included, rounded up. Of a log, the units in its longest window. 0 for a state
    /// that equals a fresh key's or is better, [`NEVER`] for one that can't be judged.
    fn used(&self, state: &Self::State, now: Now) -> u64;

    /// The units that count within the longest window of a log or ring, and those in the current
    /// slice; 0 for other kernels.
    fn counts(&self, _balance: &Self::Balance) -> (u64, u64) {
        (0, 0)
    }

    /// The strategies of a log that refuse a cost, as bits in the order given.
    fn violated(&self, _balance: &Self::Balance, _cost: u64) -> u32 {
        0
    }

    /// Whether the key was used before; otherwise nothing can be given back to it.
    fn is_known(&self, balance: &Self::Balance) -> bool;

    /// The time of judgement, in µs since the epoch.
    fn judged_at(balance: &Self::Balance) -> u64;

    /// The state to keep; `None` if there is nothing to keep.
    fn state(&self, balance: Self::Balance) -> Option<Self::State>;

    /// The newest admitted time of a state, in µs since the epoch.
    fn newest(state: &Self::State) -> u64;

    /// Conditions, each of which makes this rule keep every state at least as long as another rule.
    /// A store whose policies change keeps a state as long as any of its rules would, and needs to
    /// ask only the rules that no other one outlasts.
    const OUTLASTS: &'static [fn(&Self, &Self) -> bool] = &[|one, other| one == other];

    /// The largest cost that a fresh key admits, in units; [`NEVER`] if unbounded.
    fn limit(&self) -> u64;

    /// Whether the kernel supports reservations.
    fn can_reserve(&self) -> bool {
        false
    }

    /// Whether an admitted request may have to wait before it acts: a shaper.
    fn is_shaper(&self) -> bool {
        false
    }

    /// The kind of an entry with a state of which units are leased; `None` if units can't be.
    const LEASED: Option<u8> = None;

    /// The kind of an entry with a state of which units are held, which keeps a second bound of what
    /// is used; `None` if there is no use for one. Only of a kernel whose units can be leased.
    const HELD: Option<u8> = None;

    /// Whether what is used flows back as time passes, and not at once: then it matters how much
    /// is outstanding at each time in between.
    const DRAINS: bool = false;

    /// Whether units can be leased.
    fn can_lease(&self) -> bool {
        false
    }

    /// Counts at least so many units as used, as of the time of judgement, which becomes the newest
    /// time. For kernels of which units can be leased.
    fn pin(&self, _balance: &mut Self::Balance, _units: u64) {}

    /// Counts no more as used than another balance does, which is of the same rule and time. For kernels
    /// with a [second bound](Kernel::HELD).
    fn lower_to(&self, _balance: &mut Self::Balance, _other: &Self::Balance) {}

    /// The units that count as used beyond a number of them, rounded up. For kernels of which units
    /// can be leased.
    fn used_beyond(&self, _balance: &Self::Balance, _units: u64) -> u64 {
        0
    }

    /// When every lease is over, in µs since the epoch; [`NEVER`] if it need not be.
    fn leases_end(&self, _balance: &Self::Balance) -> u64 {
        NEVER
    }

    /// How a state is stored.
    fn layout(&self) -> Layout {
        Layout::Fixed(Self::FIXED)
    }

    /// The numbers of a state in the order of its layout, the newest time first.
    fn write(state: &Self::State, numbers: &mut Vec<u64>);

    /// The state with these numbers; `None` if they are not a valid state.
    fn read(numbers: &[u64]) -> Option<Self::State>;

    /// For how many µs after its newest time a program that doesn't know the policy should preserve
    /// the state.
    fn retention(&self) -> u64;
}

/// The text forms of a kernel's policies: specs, and quotas for clients.
pub(crate) trait SpecFormat: Kernel {
    /// One per algorithm.
    const GRAMMARS: &'static [Grammar];

    /// Writes what follows the keyword in the shortest spec that parses to the algorithm.
    fn write_spec(algorithm: &Algorithm, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// The window as text: with the policy's name and the algorithm's keyword it identifies a
    /// state.
    fn window_text(_algorithm: &Algorithm) -> String {
        String::new()
    }

    /// The policy's numbers as reported to clients.
    fn quota(&self, algorithm: &Algorithm) -> Quota;
}

/// Calls a macro with the list of all kernels: the name of each in enums, and its type.
///
/// Enums with a variant per kernel are made from it, here and in stores, and so are matches on
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

/// `match_kernel!(Enum, value, inner => expression; other arms)`: the same expression for what an
/// enum has in the variant of each kernel.
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
            Algorithm::SlidingLog { strategies } => Self::Log(log::Log::exact(strategies)?),
            Algorithm::SlidingWindow { limit, window, slices } => {
                Self::Log(log::Log::ring(*limit, *window, *slices)?)
            }
            Algorithm::SlidingCounter { limit, window } => {
                Self::Counter(counter::Counter::new(*limit, *window)?)
            }
            Algorithm::WarmUp { rate, over } => Self::WarmUp(warm_up::WarmUp::new(*rate, *over)?),
            Algorithm::Concurrency { permits, hold, queue } => {
                Self::Permits(permits::Permits::new(*permits, *hold, *queue)?)
            }
        })
    }
}

/// The time a request is judged by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Now {
    /// The time of the store's clock, or of the request, in µs since the epoch.
    pub micros: u64,
    /// How far ahead of that a state's newest time may be before the state is restamped, in µs.
    /// `None` under injected time, which may step back arbitrarily far.
    pub max_clock_back: Option<u64>,
}

impl Now {
    /// Whether a state's newest time is too far ahead to be plausible.
    #[inline]
    #[must_use]
    pub const fn is_exceeded_by(self, newest: u64) -> bool {
        match self.max_clock_back {
            Some(bound) => newest > self.micros.saturating_add(bound),
            None => false,
        }
    }
}

/// What one policy says about a cost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// The cost passes, and the caller may act in `wait` µs.
    Pass {
        /// µs from the time of judgement; 0 except for reservations and shapers.
        wait: u64,
    },
    /// The cost is refused.
    Refuse {
        /// The shortest wait after which it would pass, in µs, at least 1; `None` for never.
        retry: Option<u64>,
    },
}

impl Verdict {
    /// The verdict on a request that could act in `wait` µs, if its caller accepts `within` µs.
    #[inline]
    const fn within(wait: u64, within: u64) -> Self {
        if wait <= within {
            Self::Pass { wait }
        } else {
            Self::Refuse { retry: Some(wait - within) }
        }
    }
}

/// An admitted cost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Admission {
    /// The units taken.
    pub cost: u64,
    /// When the caller may act by all policies of the limit, in µs from the time of judgement: the
    /// policy counts as idle until then.
    pub act_in: u64,
}

impl Admission {
    /// A cost without a wait.
    #[must_use]
    pub const fn at_once(cost: u64) -> Self {
        Self { cost, act_in: 0 }
    }
}

/// Units that were taken, and are to be given back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Taken {
    /// How many.
    pub units: u64,
    /// When, in µs since the epoch.
    pub at: u64,
    /// The kernel's [flow](Kernel::flow) then, if it is known.
    pub flow: Option<(u64, u64)>,
    /// Nothing has been charged since, nor given back.
    pub is_last: bool,
}

impl Taken {
    /// Units of which no more is known.
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
    /// How long it takes until as much is available again: for the bucket family the time from
    /// empty to full. `None` if nothing flows back.
    pub window: Option<Span>,
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
