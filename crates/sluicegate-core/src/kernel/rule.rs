//! The rule of a policy and the state of a key, of any kernel.

use std::fmt;

use super::{Kernel, Layout, NEVER, Now, Quota, SpecFormat};
use crate::algorithm::Algorithm;
use crate::spec::Grammar;
use crate::{for_each_kernel, match_kernel};

macro_rules! rule_and_state {
    (() $($(#[$doc:meta])* $name:ident: $kernel:ty,)*) => {
        /// The rule by which a policy decides: its algorithm with checked and reduced numbers.
        ///
        /// Exhaustive, so that a store with a table or a script per kernel fails to compile until
        /// it has one for a new kernel too.
        #[derive(Clone, Debug, Eq, Hash, PartialEq)]
        pub enum Rule {
            $($(#[$doc])* $name($kernel),)*
        }

        /// The state of a key under one policy.
        #[derive(Clone, Debug, Eq, PartialEq)]
        pub enum State {
            $($(#[$doc])* $name(<$kernel as Kernel>::State),)*
        }

        impl Rule {
            /// The grammars of all algorithms.
            pub(crate) fn grammars() -> impl Iterator<Item = &'static Grammar> {
                [$(<$kernel>::GRAMMARS,)*].into_iter().flatten()
            }

            /// The state stored as these numbers; `None` if they are not a valid state.
            #[must_use]
            pub fn read(&self, numbers: &[u64]) -> Option<State> {
                match self {
                    $(Self::$name(_) => <$kernel>::read(numbers).map(State::$name),)*
                }
            }

            /// The units of which a state deprives its key: [`Kernel::used`]. 0 for a state of another
            /// kernel.
            #[must_use]
            pub fn used(&self, state: &State, now: Now) -> u64 {
                match (self, state) {
                    $((Self::$name(rule), State::$name(state)) => rule.used(state, now),)*
                    _ => 0,
                }
            }
        }

        impl State {
            /// Appends the numbers of the state as stored, the newest time first.
            pub fn write(&self, numbers: &mut Vec<u64>) {
                match self {
                    $(Self::$name(state) => <$kernel>::write(state, numbers),)*
                }
            }

            /// The newest admitted time, in microseconds since the epoch.
            #[must_use]
            pub fn newest(&self) -> u64 {
                match self {
                    $(Self::$name(state) => <$kernel>::newest(state),)*
                }
            }
        }
    };
}

for_each_kernel!([rule_and_state]);

impl Rule {
    /// The largest cost that a fresh key admits, in units; [`NEVER`] if unbounded.
    #[must_use]
    pub fn limit(&self) -> u64 {
        match_kernel!(Self, self, kernel => kernel.limit())
    }

    /// The units that [`Kernel::remaining_ticks`] come to.
    pub(crate) fn whole_units(&self, ticks: u64) -> u64 {
        whole_units(ticks, match_kernel!(Self, self, kernel => kernel.ticks_per_unit()))
    }

    /// What units come to in [`Kernel::remaining_ticks`].
    pub(crate) fn ticks_of(&self, units: u64) -> u64 {
        units.saturating_mul(match_kernel!(Self, self, kernel => kernel.ticks_per_unit()))
    }

    /// The µs that [`Kernel::reset_ticks`] come to.
    pub(crate) fn whole_micros(&self, ticks: u64) -> u64 {
        whole_micros(ticks, match_kernel!(Self, self, kernel => kernel.ticks_per_micro()))
    }

    /// The ticks that µs come to in [`Kernel::reset_ticks`].
    pub(crate) fn ticks_of_micros(&self, micros: u64) -> u64 {
        micros.saturating_mul(match_kernel!(Self, self, kernel => kernel.ticks_per_micro()))
    }

    /// Whether the rule supports reservations: the bucket family and warm-up.
    #[must_use]
    pub fn can_reserve(&self) -> bool {
        match_kernel!(Self, self, kernel => kernel.can_reserve())
    }

    /// Whether an admitted request may have to wait before it acts: a shaper.
    #[must_use]
    pub fn is_shaper(&self) -> bool {
        match_kernel!(Self, self, kernel => kernel.is_shaper())
    }

    /// Whether units can be leased: of a token bucket, GCRA, a leaky bucket, or a fixed window.
    #[must_use]
    pub fn can_lease(&self) -> bool {
        match_kernel!(Self, self, kernel => kernel.can_lease())
    }

    /// The kind of an entry with a state of which units are leased; `None` if units can't be.
    #[must_use]
    pub fn leased_kind(&self) -> Option<u8> {
        fn kind<K: Kernel>(kernel: &K) -> Option<u8> {
            K::LEASED.filter(|_| kernel.can_lease())
        }
        match_kernel!(Self, self, kernel => kind(kernel))
    }

    /// The kind of an entry with a state of which units are held; `None` if such a state is like any
    /// other.
    #[must_use]
    pub fn held_kind(&self) -> Option<u8> {
        fn kind<K: Kernel>(kernel: &K) -> Option<u8> {
            K::HELD.filter(|_| kernel.can_lease())
        }
        match_kernel!(Self, self, kernel => kind(kernel))
    }

    /// Whether what is used flows back as time passes.
    pub(crate) fn drains(&self) -> bool {
        const fn drains<K: Kernel>(_: &K) -> bool {
            K::DRAINS
        }
        match_kernel!(Self, self, kernel => drains(kernel))
    }

    /// How many numbers a state has, where all have the same number.
    pub(crate) fn numbers(&self) -> usize {
        const fn numbers<K: Kernel>(_: &K) -> usize {
            K::FIXED.numbers
        }
        match_kernel!(Self, self, kernel => numbers(kernel))
    }

    /// How a state is stored.
    #[must_use]
    pub fn layout(&self) -> Layout {
        match_kernel!(Self, self, kernel => kernel.layout())
    }

    /// For how many µs after its newest time a program that doesn't know the policy should preserve
    /// the state.
    #[must_use]
    pub fn retention(&self) -> u64 {
        match_kernel!(Self, self, kernel => kernel.retention())
    }

    pub(crate) fn quota(&self, algorithm: &Algorithm) -> Quota {
        match_kernel!(Self, self, kernel => kernel.quota(algorithm))
    }

    pub(crate) fn window_text(&self, algorithm: &Algorithm) -> String {
        fn text<K: SpecFormat>(_: &K, algorithm: &Algorithm) -> String {
            K::window_text(algorithm)
        }
        match_kernel!(Self, self, kernel => text(kernel, algorithm))
    }

    pub(crate) fn write_spec(
        &self,
        algorithm: &Algorithm,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        fn write<K: SpecFormat>(
            _: &K,
            algorithm: &Algorithm,
            f: &mut fmt::Formatter<'_>,
        ) -> fmt::Result {
            K::write_spec(algorithm, f)
        }
        match_kernel!(Self, self, kernel => write(kernel, algorithm, f))
    }
}

/// A part of a unit does not remain.
pub(crate) const fn whole_units(ticks: u64, per_unit: u64) -> u64 {
    if ticks == NEVER { NEVER } else { ticks / per_unit }
}

/// A part of a µs has to be waited for.
pub(crate) const fn whole_micros(ticks: u64, per_micro: u64) -> u64 {
    if ticks == NEVER { NEVER } else { ticks.div_ceil(per_micro) }
}
