//! The policies and entries of all kernels: what a new kernel is added to.

use sluicegate_core::kernel::{Rule, State, counter, warm_up, window};
use sluicegate_core::{Limit, Member, TimeSource};

use crate::cell::{BucketCell, LogCell, PlainCell};
use crate::entry::Entry;
use crate::fingerprint::Fingerprint;
use crate::opened_policy::OpenedPolicy;
use crate::registry::{Full, Registry, Tables};

type CounterCell = PlainCell<counter::Counter>;
type WarmUpCell = PlainCell<warm_up::WarmUp>;
type WindowCell = PlainCell<window::FixedWindow>;

/// A policy of an opened limit, of any kernel.
pub(crate) enum AnyPolicy {
    Bucket(OpenedPolicy<BucketCell>),
    Counter(OpenedPolicy<CounterCell>),
    Log(OpenedPolicy<LogCell>),
    WarmUp(OpenedPolicy<WarmUpCell>),
    Window(OpenedPolicy<WindowCell>),
}

/// An entry of any kernel's table.
pub(crate) enum AnyEntry<'s> {
    Bucket(Entry<'s, BucketCell>),
    Counter(Entry<'s, CounterCell>),
    Log(Entry<'s, LogCell>),
    WarmUp(Entry<'s, WarmUpCell>),
    Window(Entry<'s, WindowCell>),
}

/// Does the same with a value of whatever kernel.
macro_rules! each {
    ($of:ident, $value:expr, $inner:ident => $body:expr) => {
        match $value {
            $of::Bucket($inner) => $body,
            $of::Counter($inner) => $body,
            $of::Log($inner) => $body,
            $of::WarmUp($inner) => $body,
            $of::Window($inner) => $body,
        }
    };
}

impl AnyPolicy {
    /// The policies of a limit, each with the table that is there or a new one.
    pub(crate) fn open_all(registry: &Registry, limit: &Limit, time: &TimeSource) -> Box<[Self]> {
        let tables = registry.open(time);
        let open = |member| Self::open(&tables, limit, member);
        limit.members().iter().map(open).collect()
    }

    fn open(tables: &Tables<'_>, limit: &Limit, member: &Member) -> Self {
        let (part, policy) = (limit.parts()[member.part()].as_str(), member.policy());
        let (identity, cost) = (member.identity(), policy.cost());
        match policy.rule() {
            Rule::Bucket(rule) => {
                Self::Bucket(OpenedPolicy::open(tables, part, identity, rule, cost))
            }
            Rule::Counter(rule) => {
                Self::Counter(OpenedPolicy::open(tables, part, identity, rule, cost))
            }
            Rule::Log(rule) => Self::Log(OpenedPolicy::open(tables, part, identity, rule, cost)),
            Rule::WarmUp(rule) => {
                Self::WarmUp(OpenedPolicy::open(tables, part, identity, rule, cost))
            }
            Rule::Window(rule) => {
                Self::Window(OpenedPolicy::open(tables, part, identity, rule, cost))
            }
        }
    }

    pub(crate) fn table_id(&self) -> u64 {
        each!(Self, self, policy => policy.table.id())
    }

    /// Locks the shard of a fingerprint.
    pub(crate) fn lock(&self, fingerprint: Fingerprint) -> AnyEntry<'_> {
        match self {
            Self::Bucket(policy) => AnyEntry::Bucket(Entry::lock(policy, fingerprint)),
            Self::Counter(policy) => AnyEntry::Counter(Entry::lock(policy, fingerprint)),
            Self::Log(policy) => AnyEntry::Log(Entry::lock(policy, fingerprint)),
            Self::WarmUp(policy) => AnyEntry::WarmUp(Entry::lock(policy, fingerprint)),
            Self::Window(policy) => AnyEntry::Window(Entry::lock(policy, fingerprint)),
        }
    }
}

impl AnyEntry<'_> {
    pub(crate) fn is_found(&self) -> bool {
        each!(Self, self, entry => entry.is_found())
    }

    /// Takes the state that is kept, to be [put](AnyEntry::put) back or [kept](AnyEntry::keep) anew.
    pub(crate) fn take(&mut self) -> Option<State> {
        match self {
            Self::Bucket(entry) => entry.take().map(State::Bucket),
            Self::Counter(entry) => entry.take().map(State::Counter),
            Self::Log(entry) => entry.take().map(State::Log),
            Self::WarmUp(entry) => entry.take().map(State::WarmUp),
            Self::Window(entry) => entry.take().map(State::Window),
        }
    }

    /// Keeps a state, or nothing; gives whether it is one more than before.
    pub(crate) fn keep(&mut self, state: Option<State>, now: u64) -> bool {
        match (self, state) {
            (Self::Bucket(entry), Some(State::Bucket(state))) => entry.keep(state, now),
            (Self::Counter(entry), Some(State::Counter(state))) => entry.keep(state, now),
            (Self::Log(entry), Some(State::Log(state))) => entry.keep(state, now),
            (Self::WarmUp(entry), Some(State::WarmUp(state))) => entry.keep(state, now),
            (Self::Window(entry), Some(State::Window(state))) => entry.keep(state, now),
            (entry, _) => {
                entry.forget();
                false
            }
        }
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
        each!(Self, self, entry => entry.forget());
    }

    /// Makes room for one more state in this entry's table.
    pub(crate) fn make_room(&mut self, registry: &Registry, now: u64) -> Result<(), Full> {
        each!(Self, self, entry => entry.make_room(registry, now))
    }
}
