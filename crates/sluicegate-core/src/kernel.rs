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
/// What all families do alike is beside it: `Account` has it for a rule and a balance, `Rule` for a rule alone.
pub trait Kernel: Clone + fmt::Debug + Eq + Hash + Send + Sync + 'static {
    /// Its states where they have a fixed length; of a log, the head of its entries.
    const FIXED: FixedKind;

    /// Conditions, each of which makes this rule keep every state at least as long as another rule.
    /// A store whose policies change keeps a state as long as any of its rules would, and needs to
    /// ask only the rules that no other one outlasts.
    const OUTLASTS: &'static [fn(&Self, &Self) -> bool] = &[|one, other| one == other];

    /// How its states count leased and held units; `None` if units can be neither leased nor held in slots.
    const LEASES: Option<Leases<Self>>;

    /// The state of a key.
    type State: Clone + Default + fmt::Debug + Eq + Send + Sync + 'static;
    /// A state as of the time of judgement.
    type Balance: Clone + fmt::Debug + Send;

    /// What other code has to know of the rule.
    fn profile(&self) -> Profile;

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

    /// The state to keep; `None` if there is nothing to keep.
    fn state(&self, balance: Self::Balance) -> Option<Self::State>;

    /// Whether a cost of at least 1 passes if the caller accepts a wait of `within` µs. `None`
    /// means what the policy accepts on its own: no wait, except for a shaper.
    fn judge(&self, balance: &Self::Balance, cost: u64, within: Option<u64>) -> Verdict;

    /// The tiers of a log that refuse a cost, as bits in the order given.
    fn violated(&self, _balance: &Self::Balance, _cost: u64) -> u32 {
        0
    }

    /// Takes a cost. A denied one is taken up to the limit, never into debt.
    ///
    /// # Errors
    /// If the new state is beyond what can be held; never after [`Kernel::can_charge`] succeeded.
    fn charge(&self, balance: &mut Self::Balance, charge: Charge) -> Result<(), Overflow>;

    /// Fails if [`Kernel::charge`] would, without changing anything.
    ///
    /// # Errors
    /// Those of [`Kernel::charge`].
    fn can_charge(&self, balance: &Self::Balance, charge: Charge) -> Result<(), Overflow> {
        self.charge(&mut balance.clone(), charge)
    }

    /// Gives units back, at most up to a fresh key's state, and returns how many: a unit of which a
    /// part has flowed back already counts in full. `None` for a key that was never used. The newest
    /// time stays: a refund is not an admission.
    fn refund(&self, balance: &mut Self::Balance, units: u64) -> Option<u64>;

    /// Gives back what is left of units that were taken: never more than what they still withhold from
    /// others, and nothing if the kernel can't tell. The newest time stays. Returns how many, like a
    /// refund; `None` if the balance didn't change.
    ///
    /// A kernel that tells callers when to act gives nothing back like this: somebody may have been
    /// told an instant that counts on the units.
    fn give_back(&self, _balance: &mut Self::Balance, _taken: Taken) -> Option<u64> {
        None
    }

    /// What a balance comes to.
    fn report(&self, balance: &Self::Balance) -> Report;

    /// The µs from the time of judgement for which the state is worth keeping: until it equals a fresh
    /// key's, unless there is a reason to keep it for longer.
    fn keep_for(&self, balance: &Self::Balance) -> u64 {
        self.profile().whole_micros(self.report(balance).reset)
    }

    /// The µs from now until a state may be dropped: 0 for now, [`NEVER`] for never.
    fn expires_in(&self, state: &Self::State, now: Now) -> u64 {
        self.balance(Some(state.clone()), now).map_or(NEVER, |(balance, _)| {
            let ahead = self.report(&balance).evaluated_at.saturating_sub(now.micros);
            self.keep_for(&balance).saturating_add(ahead)
        })
    }

    /// The units that forgetting a state would hand out again: what it counts of the quota at a
    /// time, debts included, rounded up. Of a log, the units in its longest window. 0 for a state
    /// that equals a fresh key's or is better, [`NEVER`] for one that can't be judged.
    fn used(&self, state: &Self::State, now: Now) -> u64;

    /// The newest admitted time of a state, in µs since the epoch.
    fn newest(state: &Self::State) -> u64;

    /// The numbers of a state in the order of its layout, the newest time first.
    fn write(state: &Self::State, numbers: &mut Vec<u64>);

    /// The state with these numbers; `None` if they are not a valid state.
    fn read(numbers: &[u64]) -> Option<Self::State>;
}

/// What other code has to know of a rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Profile {
    /// The largest cost that a fresh key admits, in units; [`NEVER`] if unbounded.
    pub limit: u64,
    /// For how many µs after its newest time a program that doesn't know the policy should preserve
    /// a state.
    pub retention: u64,
    /// How a state is stored.
    pub layout: Layout,
    /// What a unit comes to in ticks, at least 1, and how many of them flow back in a µs, of a kernel that
    /// reports in ticks. When units are given back, it matters at which rate they were taken.
    pub flow: Option<(u64, u64)>,
    /// Whether the kernel supports reservations.
    pub can_reserve: bool,
    /// Whether an admitted request may have to wait before it acts: a shaper.
    pub is_shaper: bool,
    /// Whether units can be leased, as [`Kernel::LEASES`] says.
    pub can_lease: bool,
}

impl Profile {
    /// The units that [remaining ticks](Report::remaining) come to: a part of a unit does not remain.
    #[inline]
    #[must_use]
    pub const fn whole_units(&self, ticks: u64) -> u64 {
        match self.flow {
            Some((unit, _)) if ticks != NEVER => ticks / unit,
            _ => ticks,
        }
    }

    /// The µs that [ticks until a reset](Report::reset) come to: a part of a µs has to be waited for.
    #[inline]
    #[must_use]
    pub const fn whole_micros(&self, ticks: u64) -> u64 {
        if ticks == NEVER { NEVER } else { ticks.div_ceil(self.ticks_of_micros(1)) }
    }

    /// What units come to in [remaining ticks](Report::remaining).
    pub(crate) const fn ticks_of(&self, units: u64) -> u64 {
        match self.flow {
            Some((unit, _)) => units.saturating_mul(unit),
            None => units,
        }
    }

    /// The ticks that µs come to [until a reset](Report::reset).
    pub(crate) const fn ticks_of_micros(&self, micros: u64) -> u64 {
        match self.flow {
            Some((_, refill)) if refill > 1 => micros.saturating_mul(refill),
            _ => micros,
        }
    }
}

/// What a balance comes to, in ticks where the [profile](Profile::flow) says so: a decision leaves the
/// division to its reader, because that takes a tenth of its time.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Report {
    /// The time of judgement, in µs since the epoch.
    pub evaluated_at: u64,
    /// The largest cost that would pass now; [`NEVER`] if unbounded.
    pub remaining: u64,
    /// The time until the state equals a fresh key's; [`NEVER`] if nothing flows back.
    pub reset: u64,
    /// The units that count within the longest window of a log or ring.
    pub total: u64,
    /// Those in its current slice.
    pub current: u64,
}

/// How a kernel counts units that are outstanding: leased or held.
#[derive(Clone, Copy, Debug)]
pub struct Leases<K: Kernel> {
    /// The kind of an entry with a state of which units are leased.
    pub kind: u8,
    /// The kind of an entry with a state of which units are held, which keeps a second bound of what
    /// is used; `None` if there is no use for one.
    pub held: Option<u8>,
    /// Whether used units flow back as time passes, and not at once: then it matters how many are
    /// outstanding at each time in between.
    pub drains: bool,
    /// Counts at least that many units as used, as of the time of judgement, which becomes the newest
    /// time.
    pub pin: fn(&K, &mut K::Balance, u64),
    /// The units that count as used beyond a number of them, rounded up.
    pub used_beyond: fn(&K, &K::Balance, u64) -> u64,
    /// When every lease ends, in µs since the epoch; [`NEVER`] if it need not.
    pub end: fn(&K::Balance) -> u64,
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
            Algorithm::SlidingLog { tiers } => Self::Log(log::Log::exact(tiers)?),
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

/// What a policy is charged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Charge {
    /// An admitted cost.
    Admitted {
        /// The units taken.
        cost: u64,
        /// When the caller may act by all policies of the limit, in µs from the time of judgement: the
        /// policy counts as idle until then.
        act_in: u64,
    },
    /// The cost of a denied request.
    Denied {
        /// Its units.
        cost: u64,
    },
}

impl Charge {
    /// An admitted cost without a wait.
    #[must_use]
    pub const fn at_once(cost: u64) -> Self {
        Self::Admitted { cost, act_in: 0 }
    }
}

/// Units that were taken, and are to be given back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Taken {
    /// How many.
    pub units: u64,
    /// When, in µs since the epoch.
    pub at: u64,
    /// The [flow](Profile::flow) of the kernel then, if it is known.
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
