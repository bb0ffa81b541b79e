//! The policies and entries of all kernels.

use sluicegate_core::kernel::{Rule, State};
use sluicegate_core::{Limit, Member, TimeSource, for_each_kernel, match_kernel};

use crate::budget::{Load, Room};
use crate::cell::{BookCell, BucketCell, LogCell, PlainCell};
use crate::entry::Entry;
use crate::fingerprint::Fingerprint;
use crate::held_records::HeldRecords;
use crate::opened_policy::OpenedPolicy;
use crate::registry::{Full, Registry, Tables};
use crate::share::AnyTable;
use crate::table::Table;

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
            fn open(tables: &mut Tables<'_>, limit: &Limit, member: &Member) -> Self {
                let (part, policy) = (limit.parts()[member.part()].as_str(), member.policy());
                let (identity, cost) = (member.identity(), policy.cost());
                let first = first_load(policy.rule());
                match policy.rule() {
                    $(Rule::$name(rule) => {
                        Self::$name(OpenedPolicy::open(tables, part, identity, rule, cost, first))
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
            /// Whether the state has a second bound.
            pub(crate) fn is_marked(&self) -> bool {
                match self {
                    $(Self::$name(entry) => entry.is_marked(),)*
                }
            }

            /// Takes the state that is kept, to be [put](AnyEntry::put_back) back or
            /// [kept](AnyEntry::keep) anew.
            pub(crate) fn take(&mut self) -> Option<State> {
                match self {
                    $(Self::$name(entry) => entry.take().map(State::$name),)*
                }
            }

            /// The room that a request may need for a subject with the state that was taken.
            pub(crate) fn needs(&self, state: Option<&State>) -> Load {
                match (self, state) {
                    $((Self::$name(entry), Some(State::$name(state))) => entry.needs(Some(state)),)*
                    $((Self::$name(entry), _) => entry.needs(None),)*
                }
            }

            /// The room that is needed to keep a state.
            pub(crate) fn needs_for(&self, state: Option<&State>) -> Load {
                match (self, state) {
                    $((Self::$name(entry), Some(State::$name(state))) => entry.needs_for(state),)*
                    _ => Load::NONE,
                }
            }

            /// Keeps a state, or nothing; gives the room that it took.
            pub(crate) fn keep(
                &mut self,
                state: Option<State>,
                now: u64,
                is_marked: bool,
            ) -> Load {
                match (self, state) {
                    $((Self::$name(entry), Some(State::$name(state))) => {
                        entry.keep(state, now, is_marked)
                    })*
                    (entry, _) => {
                        entry.forget();
                        Load::NONE
                    }
                }
            }
        }
    };
}

for_each_kernel!([any_policy_and_entry]);

macro_rules! state_load {
    (() $($(#[$_:meta])* $name:ident: $kernel:ty,)*) => {
        /// Returns the load of a key's first state.
        const fn state_load(rule: &Rule) -> Load {
            match rule {
                $(Rule::$name(_) => Table::<cell!($name: $kernel)>::FIRST_LOAD,)*
            }
        }
    };
}

for_each_kernel!([state_load]);

/// What one key of a policy takes at least.
pub(crate) fn first_load(rule: &Rule) -> Load {
    match rule {
        // Permits have no state but the records of what is held.
        Rule::Permits(_) => {
            Table::<BookCell>::FIRST_LOAD
                + Load { keys: 0, bytes: HeldRecords::default().heap_bytes() }
        }
        rule => state_load(rule),
    }
}

impl AnyPolicy {
    /// The policies of a limit, each with the table that is there or a new one.
    pub(crate) fn open_all(registry: &Registry, limit: &Limit, time: &TimeSource) -> Box<[Self]> {
        let mut tables = registry.open(time);
        let open = |member| Self::open(&mut tables, limit, member);
        limit.members().iter().map(open).collect()
    }

    /// Counts the limit out of the policy's table. Gives the table if no other limit has it open.
    pub(crate) fn leave(&self) -> Option<&dyn AnyTable> {
        match_kernel!(Self, self, policy => policy.leave())
    }

    pub(crate) fn table_id(&self) -> u64 {
        match_kernel!(Self, self, policy => policy.table.id())
    }
}

impl AnyEntry<'_> {
    /// Puts back what was taken, which did not change; only what is large was really taken. Gives
    /// the room that it takes more than before.
    pub(crate) fn put_back(&mut self, state: Option<State>) -> Load {
        match (self, state) {
            (Self::Log(entry), Some(State::Log(state))) if entry.is_found() => {
                entry.keep(state, 0, false)
            }
            _ => Load::NONE,
        }
    }

    pub(crate) fn forget(&mut self) {
        match_kernel!(Self, self, entry => entry.forget());
    }

    /// Makes room for what this entry needs, besides what the room has been filled with before.
    pub(crate) fn make_room(
        &mut self,
        registry: &Registry,
        now: u64,
        room: &mut Room<'_>,
        needed: Load,
    ) -> Result<(), Full> {
        match_kernel!(Self, self, entry => entry.make_room(registry, now, room, needed))
    }
}
