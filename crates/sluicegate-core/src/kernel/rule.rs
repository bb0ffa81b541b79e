//! The rule of a policy and the state of a key, of any kernel.

use std::fmt;

use super::{Kernel, Layout, NEVER, Quota, SpecFormat};
use crate::algorithm::Algorithm;
use crate::spec::Grammar;
use crate::{for_each_kernel, match_kernel};

macro_rules! rule_and_state {
    (() $($(#[$doc:meta])* $name:ident: $kernel:ty,)*) => {
        /// The rule by which a policy decides: its algorithm with checked and reduced numbers.
        ///
        /// Exhaustive, so that a store with a table or a script per kernel fails to compile until
        /// it has one for a new kernel too.
        #[derive(Clone, Debug, Eq, PartialEq)]
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

    /// The µs that [`Kernel::reset_ticks`] come to.
    pub(crate) fn whole_micros(&self, ticks: u64) -> u64 {
        whole_micros(ticks, match_kernel!(Self, self, kernel => kernel.ticks_per_micro()))
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
