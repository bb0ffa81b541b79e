//! The policies and entries of all kernels.

use sluicegate_core::kernel::{Rule, State};
use sluicegate_core::{Limit, Member, TimeSource, for_each_kernel, match_kernel};

use crate::cell::{BucketCell, LogCell, PlainCell};
use crate::entry::Entry;
use crate::fingerprint::Fingerprint;
use crate::opened_policy::OpenedPolicy;
use crate::registry::{Full, Registry, Tables};

/// How a kernel's states are kept: as they are, unless there is something better.
macro_rules! cell {
    (Bucket: $kernel:ty) => { BucketCell };
    (Log: $kernel:ty) => { LogCell };
    ($other:ident: $kernel:ty) => { PlainCell<$kernel> };
}

macro_rules! any_policy_and_entry {
    (() $($(#[$_:meta])* $name:ident: $kernel:ty,)*) => {
        /// A policy of an opened limit, of any kernel.
        pub(crate) enum AnyPolicy {
            $($name(OpenedPolicy<cell!($name: $kernel)>),)*
        }

        /// An entry of any kernel's table.
        pub(crate) enum AnyEntry<'s> {
            $($name(Entry<'s, cell!($name: $kernel)>),)*
        }

        impl AnyPolicy {
            fn open(tables: &Tables<'_>, limit: &Limit, member: &Member) -> Self {
                let (part, policy) = (limit.parts()[member.part()].as_str(), member.policy());
                let (identity, cost) = (member.identity(), policy.cost());
                match policy.rule() {
                    $(Rule::$name(rule) => {
                        Self::$name(OpenedPolicy::open(tables, part, identity, rule, cost))
                    })*
                }
            }

            /// Locks the shard of a fingerprint.
            pub(crate) fn lock(&self, fingerprint: Fingerprint) -> AnyEntry<'_> {
                match self {
                    $(Self::$name(policy) => AnyEntry::$name(Entry::lock(policy, fingerprint)),)*
                }
            }
        }

        impl AnyEntry<'_> {
            /// Takes the state that is kept, to be [put](AnyEntry::put_back) back or
            /// [kept](AnyEntry::keep) anew.
            pub(crate) fn take(&mut self) -> Option<State> {
                match self {
                    $(Self::$name(entry) => entry.take().map(State::$name),)*
                }
            }

            /// Keeps a state, or nothing; gives whether it is one more than before.
            pub(crate) fn keep(&mut self, state: Option<State>, now: u64) -> bool {
                match (self, state) {
                    $((Self::$name(entry), Some(State::$name(state))) => entry.keep(state, now),)*
                    (entry, _) => {
                        entry.forget();
                        false
                    }
                }
            }
        }
    };
}

for_each_kernel!([any_policy_and_entry]);

impl AnyPolicy {
    /// The policies of a limit, each with the table that is there or a new one.
    pub(crate) fn open_all(registry: &Registry, limit: &Limit, time: &TimeSource) -> Box<[Self]> {
        let tables = registry.open(time);
        let open = |member| Self::open(&tables, limit, member);
        limit.members().iter().map(open).collect()
    }

    pub(crate) fn table_id(&self) -> u64 {
        match_kernel!(Self, self, policy => policy.table.id())
    }
}

impl AnyEntry<'_> {
    pub(crate) fn is_found(&self) -> bool {
        match_kernel!(Self, self, entry => entry.is_found())
    }

    /// Puts back what was taken, which did not change. Only what is large was really taken.
    pub(crate) fn put_back(&mut self, state: Option<State>) {
        if let (Self::Log(entry), Some(State::Log(state))) = (self, state)
            && entry.is_found()
        {
            entry.keep(state, 0);
        }
    }

    pub(crate) fn forget(&mut self) {
        match_kernel!(Self, self, entry => entry.forget());
    }

    /// Makes room for one more state in this entry's table.
    pub(crate) fn make_room(&mut self, registry: &Registry, now: u64) -> Result<(), Full> {
        match_kernel!(Self, self, entry => entry.make_room(registry, now))
    }
}
