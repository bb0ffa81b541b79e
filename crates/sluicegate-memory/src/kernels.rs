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
use crate::share::{AnyTable, Share};
use crate::table::Table;

/// Returns the slot format of a kernel: the plain state unless there is a better one.
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
            /// Returns whether the state has a second bound.
            pub(crate) fn is_marked(&self) -> bool {
                match self {
                    $(Self::$name(entry) => entry.is_marked(),)*
                }
            }

            /// Takes the stored state, which the caller must [put back](AnyEntry::put_back) or
            /// [store](AnyEntry::keep) again.
            pub(crate) fn take(&mut self) -> Option<State> {
                match self {
                    $(Self::$name(entry) => entry.take().map(State::$name),)*
                }
            }

            /// Returns the capacity that a request may need for a subject with the taken state.
            pub(crate) fn needs(&self, state: Option<&State>) -> Load {
                match (self, state) {
                    $((Self::$name(entry), Some(State::$name(state))) => entry.needs(Some(state)),)*
                    $((Self::$name(entry), _) => entry.needs(None),)*
                }
            }

            /// Returns the capacity needed to store a state.
            pub(crate) fn needs_for(&self, state: Option<&State>) -> Load {
                match (self, state) {
                    $((Self::$name(entry), Some(State::$name(state))) => entry.needs_for(state),)*
                    _ => Load::NONE,
                }
            }

            /// Stores a state, or removes it if `None`, and returns the capacity that it took.
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

/// Returns the minimum load of one key of a policy.
pub(crate) fn first_load(rule: &Rule) -> Load {
    match rule {
        // A policy of permits has no state except the held records.
        Rule::Permits(_) => {
            Table::<BookCell>::FIRST_LOAD
                + Load { keys: 0, bytes: HeldRecords::default().heap_bytes() }
        }
        rule => state_load(rule),
    }
}

impl AnyPolicy {
    /// Opens the policies of a limit, each with its existing table or a new one.
    pub(crate) fn open_all(registry: &Registry, limit: &Limit, time: &TimeSource) -> Box<[Self]> {
        let mut tables = registry.open(time);
        let open = |member| Self::open(&mut tables, limit, member);
        limit.members().iter().map(open).collect()
    }

    /// Unregisters the limit from the policy's table. Returns the table if no other limit has it
    /// open.
    pub(crate) fn leave(&self) -> Option<&dyn AnyTable> {
        match_kernel!(Self, self, policy => policy.leave())
    }

    pub(crate) fn table_id(&self) -> u64 {
        match_kernel!(Self, self, policy => policy.table.id())
    }

    /// Returns the share of the policy's limit.
    pub(crate) fn share(&self) -> &Share {
        match_kernel!(Self, self, policy => policy.table.share())
    }
}

impl AnyEntry<'_> {
    /// Puts an unchanged state back; only a large state was really taken. Returns the capacity that
    /// it takes in addition to before.
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

    /// Reserves capacity for this entry, in addition to the existing reservations in `room`.
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
