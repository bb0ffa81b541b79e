//! The kernels: pure functions from a state, a time and a cost to an answer and a new state.
//!
//! A kernel is a room of its own: its file has the numbers of its algorithms, its state, how it
//! judges and charges, how long a state is of use, how it is stored, and the words of its specs.
//! No kernel reads a clock, allocates on the way to an answer (a log's entries apart), or uses
//! a float. The Lua modules of the Redis store are their twins, and `docs/semantics.md` defines
//! what both must answer.
//!
//! To add one, write its room and its Lua twin, and name it in the lists below, which the
//! compiler holds together.

mod account;
pub mod bucket;
pub mod counter;
mod layout;
pub mod log;
mod reading;
pub mod warm_up;
pub mod window;

use std::fmt;

use crate::algorithm::Algorithm;
use crate::error::PolicyError;
use crate::spec::Grammar;
use crate::time::Span;

pub(crate) use account::{Account, Charge};
pub use layout::{Layout, NUMBER_BYTES};
pub use reading::Reading;

/// What stands for "never" where times are counted in µs, and for "unbounded" where units are.
pub const NEVER: u64 = u64::MAX;

/// The rule of one family of algorithms over one kind of state.
pub trait Kernel: Clone + fmt::Debug + Eq + Send + Sync + 'static {
    /// What is kept of a key.
    type State: Clone + Default + fmt::Debug + Eq + Send + Sync + 'static;
    /// A state as of the time of judgement.
    type Balance: Clone + fmt::Debug + Send;

    /// Brings a state to the time of judgement. The flag tells that it was stamped too far ahead
    /// of now and was restamped.
    ///
    /// # Errors
    /// When the state can't be counted in the kernel's present numbers.
    fn balance(
        &self,
        state: Option<Self::State>,
        now: Now,
    ) -> Result<(Self::Balance, bool), Overflow>;

    /// Whether a cost of at least 1 passes when its caller accepts a wait of `within` µs; `None`
    /// is what the policy accepts by itself: no wait, but for a shaper.
    fn judge(&self, balance: &Self::Balance, cost: u64, within: Option<u64>) -> Verdict;

    /// Takes an admitted cost.
    ///
    /// # Errors
    /// When the new state is beyond what can be held. What [`Kernel::can_admit`] allows does not
    /// fail.
    fn admit(&self, balance: &mut Self::Balance, admission: Admission) -> Result<(), Overflow>;

    /// Fails where [`Kernel::admit`] would, without changing anything.
    ///
    /// # Errors
    /// Those of [`Kernel::admit`].
    fn can_admit(&self, balance: &Self::Balance, admission: Admission) -> Result<(), Overflow> {
        self.admit(&mut balance.clone(), admission)
    }

    /// Takes the cost of a denied request: up to the limit, never into debt.
    ///
    /// # Errors
    /// When the new state is beyond what can be held. What [`Kernel::can_charge_denied`] allows
    /// does not fail.
    fn charge_denied(&self, balance: &mut Self::Balance, cost: u64) -> Result<(), Overflow>;

    /// Fails where [`Kernel::charge_denied`] would, without changing anything.
    ///
    /// # Errors
    /// Those of [`Kernel::charge_denied`].
    fn can_charge_denied(&self, balance: &Self::Balance, cost: u64) -> Result<(), Overflow> {
        self.charge_denied(&mut balance.clone(), cost)
    }

    /// Gives units back, to no better than a fresh key's state. The newest time stays: a refund
    /// is not an admission.
    fn refund(&self, balance: &mut Self::Balance, units: u64);

    /// The largest cost that would pass now; [`NEVER`] when unbounded.
    fn remaining(&self, balance: &Self::Balance) -> u64;

    /// The µs from the time of judgement until the state equals a fresh key's; [`NEVER`] when
    /// nothing flows back.
    fn reset_after(&self, balance: &Self::Balance) -> u64;

    /// The µs from the time of judgement for which the state is worth keeping.
    fn lasts(&self, balance: &Self::Balance) -> u64 {
        self.reset_after(balance)
    }

    /// The µs from now until a state may be dropped: 0 is now, [`NEVER`] is never.
    fn expires_in(&self, state: &Self::State, now: Now) -> u64 {
        match self.balance(Some(state.clone()), now) {
            Ok((balance, _)) => {
                let ahead = Self::judged_at(&balance).saturating_sub(now.micros);
                self.lasts(&balance).saturating_add(ahead)
            }
            Err(Overflow) => NEVER,
        }
    }

    /// Of a log or ring: the units that count over its longest window, and those in the current
    /// slice.
    fn counts(&self, _balance: &Self::Balance) -> (u64, u64) {
        (0, 0)
    }

    /// Of a log: the strategies that refuse a cost, as bits in the order given.
    fn violated(&self, _balance: &Self::Balance, _cost: u64) -> u32 {
        0
    }

    /// Whether the key was used before: nothing can be given back to one that was not.
    fn is_known(&self, balance: &Self::Balance) -> bool;

    /// The time of judgement, in µs since the epoch.
    fn judged_at(balance: &Self::Balance) -> u64;

    /// The state to keep; `None` when there is nothing to keep.
    fn state(&self, balance: Self::Balance) -> Option<Self::State>;

    /// The newest admitted time of a state, in µs since the epoch.
    fn newest(state: &Self::State) -> u64;

    /// The reasons for which this rule may keep a state at least as long as another. A store
    /// whose policies change keeps a state for as long as any of its rules does, and asks only
    /// those that no other outlasts for one of the reasons.
    const OUTLASTS: &'static [fn(&Self, &Self) -> bool] = &[|one, other| one == other];

    /// The largest cost a fresh key admits, in units; [`NEVER`] when unbounded.
    fn limit(&self) -> u64;

    /// Whether units can be taken ahead of time.
    fn can_reserve(&self) -> bool {
        false
    }

    /// Whether an admitted request may be told to act later: a shaper.
    fn is_shaper(&self) -> bool {
        false
    }

    /// How a state is stored.
    fn layout(&self) -> Layout;

    /// The numbers of a state in the order of its layout, the newest time first.
    fn write(state: &Self::State, numbers: &mut Vec<u64>);

    /// The state of these numbers; `None` when no state has them.
    fn read(numbers: &[u64]) -> Option<Self::State>;

    /// For how many µs after its newest time a state is of use to a program that doesn't know it.
    fn retention(&self) -> u64;
}

/// How a kernel's policies are written, and what clients are told of them.
pub(crate) trait Worded: Kernel {
    /// One for each algorithm.
    const GRAMMARS: &'static [Grammar];

    /// Writes what follows the algorithm's word in the shortest spec that reads back to it.
    fn write_spec(algorithm: &Algorithm, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// The window as text: together with the policy's name and the algorithm's word it finds a
    /// state again.
    fn window_text(_algorithm: &Algorithm) -> String {
        String::new()
    }

    /// What clients are told of the policy's numbers.
    fn quota(&self, algorithm: &Algorithm) -> Quota;
}

/// Does the same with a rule of whatever kernel.
macro_rules! each_rule {
    ($rule:expr, $kernel:ident => $body:expr) => {
        match $rule {
            Rule::Bucket($kernel) => $body,
            Rule::Window($kernel) => $body,
            Rule::Log($kernel) => $body,
            Rule::Counter($kernel) => $body,
            Rule::WarmUp($kernel) => $body,
        }
    };
}

/// A policy's algorithm made ready to decide: reduced numbers, no more checks to make.
///
/// Exhaustive, so that a store with a table or a script for each kernel does not compile until it
/// has one for a new kernel too.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Rule {
    /// Token bucket, GCRA, leaky bucket, shaper, smooth bursty.
    Bucket(bucket::Bucket),
    /// Fixed window.
    Window(window::FixedWindow),
    /// Sliding log, and the ring of slices.
    Log(log::Log),
    /// Two-cell sliding counter.
    Counter(counter::Counter),
    /// Smooth warm-up.
    WarmUp(warm_up::WarmUp),
}

/// What is kept of a key under one policy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum State {
    /// Of the bucket family.
    Bucket(bucket::State),
    /// Of a fixed window.
    Window(window::State),
    /// Of a log or ring.
    Log(log::State),
    /// Of a two-cell counter.
    Counter(counter::State),
    /// Of a warm-up.
    WarmUp(warm_up::State),
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
        })
    }

    /// The words of all algorithms.
    pub(crate) fn grammars() -> impl Iterator<Item = &'static Grammar> {
        const ALL: [&[Grammar]; 5] = [
            bucket::Bucket::GRAMMARS,
            window::FixedWindow::GRAMMARS,
            log::Log::GRAMMARS,
            counter::Counter::GRAMMARS,
            warm_up::WarmUp::GRAMMARS,
        ];
        ALL.into_iter().flatten()
    }

    /// The state that is stored as these numbers; `None` when no state has them.
    #[must_use]
    pub fn read(&self, numbers: &[u64]) -> Option<State> {
        match self {
            Self::Bucket(_) => bucket::Bucket::read(numbers).map(State::Bucket),
            Self::Window(_) => window::FixedWindow::read(numbers).map(State::Window),
            Self::Log(_) => log::Log::read(numbers).map(State::Log),
            Self::Counter(_) => counter::Counter::read(numbers).map(State::Counter),
            Self::WarmUp(_) => warm_up::WarmUp::read(numbers).map(State::WarmUp),
        }
    }

    /// The largest cost a fresh key admits, in units; [`NEVER`] when unbounded.
    #[must_use]
    pub fn limit(&self) -> u64 {
        each_rule!(self, kernel => kernel.limit())
    }

    /// Whether units can be taken ahead of time: the bucket family.
    #[must_use]
    pub fn can_reserve(&self) -> bool {
        each_rule!(self, kernel => kernel.can_reserve())
    }

    /// Whether an admitted request may be told to act later: a shaper.
    #[must_use]
    pub fn is_shaper(&self) -> bool {
        each_rule!(self, kernel => kernel.is_shaper())
    }

    /// How a state is stored.
    #[must_use]
    pub fn layout(&self) -> Layout {
        each_rule!(self, kernel => kernel.layout())
    }

    /// For how many µs after its newest time a state is of use to a program that doesn't know it.
    #[must_use]
    pub fn retention(&self) -> u64 {
        each_rule!(self, kernel => kernel.retention())
    }

    pub(crate) fn quota(&self, algorithm: &Algorithm) -> Quota {
        each_rule!(self, kernel => kernel.quota(algorithm))
    }

    pub(crate) fn window_text(&self, algorithm: &Algorithm) -> String {
        fn text<K: Worded>(_: &K, algorithm: &Algorithm) -> String {
            K::window_text(algorithm)
        }
        each_rule!(self, kernel => text(kernel, algorithm))
    }

    pub(crate) fn write_spec(
        &self,
        algorithm: &Algorithm,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        fn write<K: Worded>(
            _: &K,
            algorithm: &Algorithm,
            f: &mut fmt::Formatter<'_>,
        ) -> fmt::Result {
            K::write_spec(algorithm, f)
        }
        each_rule!(self, kernel => write(kernel, algorithm, f))
    }
}

impl State {
    /// The numbers of the state as it is stored, the newest time first.
    pub fn write(&self, numbers: &mut Vec<u64>) {
        match self {
            Self::Bucket(state) => bucket::Bucket::write(state, numbers),
            Self::Window(state) => window::FixedWindow::write(state, numbers),
            Self::Log(state) => log::Log::write(state, numbers),
            Self::Counter(state) => counter::Counter::write(state, numbers),
            Self::WarmUp(state) => warm_up::WarmUp::write(state, numbers),
        }
    }

    /// The newest admitted time, in microseconds since the epoch.
    #[must_use]
    pub fn newest(&self) -> u64 {
        match self {
            Self::Bucket(state) => state.newest,
            Self::Window(state) => state.newest,
            Self::Log(state) => state.newest,
            Self::Counter(state) => state.newest,
            Self::WarmUp(state) => state.newest,
        }
    }
}

/// The time a request is judged by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Now {
    /// What the store's clock shows, or what the request says, in microseconds since the epoch.
    pub micros: u64,
    /// How far ahead of that a state's newest time may lie before it is restamped, in µs; `None`
    /// under injected time, which may step back as far as it likes.
    pub max_clock_back: Option<u64>,
}

impl Now {
    /// Whether a state's newest time lies too far ahead to be believed.
    #[inline]
    #[must_use]
    pub const fn is_exceeded_by(self, newest: u64) -> bool {
        match self.max_clock_back {
            Some(bound) => newest > self.micros.saturating_add(bound),
            None => false,
        }
    }
}

/// What one policy answers to a cost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
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

impl Verdict {
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

/// An admitted cost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Admission {
    /// The units taken.
    pub cost: u64,
    /// The wait that this policy's verdict named, in µs.
    pub wait: u64,
    /// When all policies of the limit agree to act, in µs from the time of judgement. Waiting
    /// longer than it asks for, a policy counts as idle until then.
    pub act_in: u64,
}

impl Admission {
    /// A cost that is acted on without a wait.
    #[must_use]
    pub const fn at_once(cost: u64) -> Self {
        Self { cost, wait: 0, act_in: 0 }
    }
}

/// What clients are told of a policy's numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Quota {
    /// The largest cost a fresh key admits; where there is no such cost, the units per period.
    pub units: u64,
    /// How long it takes until as much is there again: for the bucket family the time from empty
    /// to full. `None` when nothing flows back.
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
