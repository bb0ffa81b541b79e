//! The rule of a policy and the state of a key, of any kernel.

use std::fmt;

use super::{Kernel, Leases, Now, Profile, Quota, SpecFormat};
use crate::algorithm::Algorithm;
use crate::spec::Grammar;
use crate::{for_each_kernel, match_kernel};

macro_rules! rule_and_state {
    (() $($(#[$doc:meta])* $name:ident: $kernel:ty,)*) => {
        /// The rule by which a policy decides: its algorithm with checked and reduced numbers.
        ///
        /// Exhaustive, so that a store with a table or a script per kernel doesn't compile until it
        /// has one for a new kernel, too.
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
            /// Returns the grammars of all algorithms.
            pub(crate) fn grammars() -> impl Iterator<Item = &'static Grammar> {
                [$(<$kernel>::GRAMMARS,)*].into_iter().flatten()
            }

            /// Reads the state stored as these numbers; `None` if they aren't a valid state.
            #[must_use]
            pub fn read(&self, numbers: &[u64]) -> Option<State> {
                match self {
                    $(Self::$name(_) => <$kernel>::read(numbers).map(State::$name),)*
                }
            }

            /// Returns the units that a state withholds from its key: [`Kernel::used`]. 0 for a
            /// state of another kernel.
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

            /// Returns the newest admitted time, in microseconds since the epoch.
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
    /// Returns the properties of the rule that other code needs.
    #[must_use]
    pub fn profile(&self) -> Profile {
        match_kernel!(Self, self, kernel => kernel.profile())
    }

    /// Returns the largest cost that a fresh key admits, in units; [`NEVER`](super::NEVER) if
    /// unbounded.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.profile().limit
    }

    /// Returns the kind of an entry with a state that has leased units; `None` if units can't be
    /// leased.
    #[must_use]
    pub fn leased_kind(&self) -> Option<u8> {
        match_kernel!(Self, self, kernel => kernel.leases().map(|leases| leases.kind))
    }

    /// Returns the kind of an entry with a state that has held units; `None` if such a state isn't
    /// stored differently.
    #[must_use]
    pub fn held_kind(&self) -> Option<u8> {
        match_kernel!(Self, self, kernel => kernel.leases()?.held)
    }

    /// Returns `true` if used units flow back gradually.
    pub(crate) fn drains(&self) -> bool {
        match_kernel!(Self, self, kernel => kernel.drains())
    }

    /// Returns the number of numbers in a state, if all states have equally many.
    pub(crate) fn numbers(&self) -> usize {
        const fn numbers<K: Kernel>(_: &K) -> usize {
            K::FIXED.numbers
        }
        match_kernel!(Self, self, kernel => numbers(kernel))
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

/// The methods that all kernels share.
pub(super) trait AnyKernel: Kernel {
    /// Returns how units of this rule are leased, if they can be.
    fn leases(&self) -> Option<Leases<Self>> {
        Self::LEASES.filter(|_| self.profile().can_lease)
    }

    /// Returns `true` if used units flow back gradually.
    fn drains(&self) -> bool {
        Self::LEASES.is_some_and(|leases| leases.drains)
    }
}

impl<K: Kernel> AnyKernel for K {}
